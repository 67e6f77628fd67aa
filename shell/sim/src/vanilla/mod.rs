//! A vanilla web server: files sent from a kernel's page cache by threads that wait for the disk.
//!
//! The one idea: a request is a file opened, read from a position on in steps of what `sendfile`
//! takes at a time, and closed; a thread that comes to a page which is not there waits for it, and
//! one whose socket is full lets go of its request until a third of the socket is free. What is read
//! from the disk, how much and in which order is the kernel's doing: read-ahead, page cache, block
//! layer, each in a file of its own here, as they are in Linux 6.18.
//!
//! Left out: processor time, names and inodes (they are in memory), writing, other users of the
//! cache; what one request waits for in the event loop of its process but for threads.
//!
//! Invariants: a thread works on one request at a time; a request holds a thread only between taking
//! it up and its end or a full socket; every page that somebody waits for is being read.

mod cache;
mod elevator;
mod read_ahead;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use headlong_engine::{Control, ControlView, MemoryUse, QueueUse, RequestId, Slot, Stats};
use headlong_player::ObjectId;
use headlong_units::{BitRate, ByteRange, Duration, GIB, Instant, KIB, MIB};

pub use self::cache::CacheKind;
use self::cache::{FolioId, PageCache};
pub use self::elevator::Scheduler;
use self::elevator::{Elevator, ElevatorLimits, Run};
use self::read_ahead::{Limits, ReadAhead, Window};
use crate::device::Device;
use crate::histogram::Histogram;
use crate::layout::{Layout, Place};
use crate::link::Link;
use crate::origin::{Asker, CacheUse, Origin, Outcome, Piece, State};

const PAGE_BYTES: u64 = 4096;
/// A request lets go of its thread after so much (nginx: `sendfile_max_chunk`).
const TURN_BYTES: u64 = 2 * MIB;
/// What a sending socket of Linux takes, by the packets under way: two times as many, each at what
/// it costs in memory (`tcp_sndbuf_expand`); while replies begin, twice the line's are under way.
const SOCKET_PER_LINE: u64 = 6;
/// A line carries ten packets at least (`TCP_INIT_CWND`).
const SOCKET_BYTES_MIN: u64 = 85 * KIB;
/// Without a limit on the line, as far as the kernel goes (`tcp_wmem`).
const SOCKET_BYTES_MAX: u64 = 4 * MIB;

/// How a server gets at the bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Access {
    /// `sendfile`: sixteen pages at a time, as many as a pipe holds.
    #[default]
    Sendfile,
    /// Reading into a buffer of so many bytes.
    Read(u64),
    /// Mapping it into memory.
    Mapped,
}

/// A vanilla server with its kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct VanillaSetup {
    /// Memory for the page cache.
    pub memory_bytes: u64,
    /// `read_ahead_kb`, in bytes.
    pub read_ahead_bytes: u64,
    /// `max_sectors_kb`, in bytes.
    pub request_bytes_max: u64,
    /// I/O scheduler.
    pub scheduler: Scheduler,
    /// How long a request waits in it before it is expired: half a second.
    pub expires: Duration,
    /// Requests that the device takes at once: 32 of a disk with its own queue; 128 of a loop device.
    pub tags: u32,
    /// Processes, each with the connections that came to it.
    pub workers: u32,
    /// Threads of each process that read files: 1 of a process that blocks.
    pub threads: u32,
    /// How bytes of files are got at.
    pub access: Access,
    /// How the page cache works.
    pub cache: CacheKind,
    /// Bytes that a socket takes beyond those that have left; by the line, as the kernel does, if
    /// `None`.
    pub socket_bytes: Option<u64>,
}

impl Default for VanillaSetup {
    /// nginx with `sendfile` and `aio threads`, on Linux as it comes.
    fn default() -> Self {
        Self {
            memory_bytes: 4 * GIB,
            read_ahead_bytes: 128 * KIB,
            request_bytes_max: 1280 * KIB,
            scheduler: Scheduler::Deadline,
            expires: Duration::from_millis(500),
            tags: 32,
            workers: 2,
            threads: 64,
            access: Access::Sendfile,
            cache: CacheKind::default(),
            socket_bytes: None,
        }
    }
}

/// A request in progress: an open file and where its reader is.
#[derive(Debug)]
struct Transfer {
    asker: Asker,
    asked_at: Instant,
    file: u32,
    place: Place,
    worker: usize,
    has_thread: bool,
    /// Its thread waits for a folio.
    is_blocked: bool,
    /// The viewer has left; the thread will find out.
    is_gone: bool,
    start: u64,
    next: u64,
    end: u64,
    /// The next page to get.
    page: u32,
    /// The folio got last, and whether it had been sent to somebody before.
    folio: Option<(FolioId, bool)>,
    /// Whether the present step had to wait for the disk.
    waited: bool,
    turn_bytes: u64,
    read_ahead: ReadAhead,
}

/// Threads of one process.
#[derive(Debug)]
struct Worker {
    free: u32,
    waiting: VecDeque<RequestId>,
}

/// The server in virtual time, with its kernel.
#[derive(Debug)]
pub(crate) struct Vanilla {
    setup: VanillaSetup,
    now: Instant,
    limits: Limits,
    layout: Layout,
    cache: PageCache,
    elevator: Elevator,
    workers: Vec<Worker>,
    transfers: BTreeMap<RequestId, Transfer>,
    /// Threads that wait for a folio.
    waiters: BTreeMap<FolioId, Vec<RequestId>>,
    /// Requests whose thread can go on.
    runnable: VecDeque<RequestId>,
    next_id: u64,
    outcomes: VecDeque<Outcome>,
    waits: Histogram,
    stats: Stats,
}

impl Vanilla {
    pub(crate) fn new(setup: &VanillaSetup, layout: Layout, device: Device) -> Self {
        let pages = |bytes: u64| u32::try_from(bytes / PAGE_BYTES).unwrap_or(u32::MAX / 4);
        let limits = ElevatorLimits {
            expires: setup.expires,
            tags: setup.tags as usize,
            pages_max: pages(setup.request_bytes_max),
        };
        let worker = || Worker {
            free: setup.threads.max(1),
            waiting: VecDeque::new(),
        };
        Self {
            now: Instant::ZERO,
            limits: Limits {
                window: pages(setup.read_ahead_bytes),
                request: pages(setup.request_bytes_max),
            },
            layout,
            cache: PageCache::new(setup.cache, setup.memory_bytes / PAGE_BYTES),
            elevator: Elevator::new(device, setup.scheduler, limits),
            workers: (0..setup.workers.max(1)).map(|_| worker()).collect(),
            transfers: BTreeMap::new(),
            waiters: BTreeMap::new(),
            runnable: VecDeque::new(),
            next_id: 0,
            outcomes: VecDeque::new(),
            waits: Histogram::default(),
            stats: Stats::default(),
            setup: setup.clone(),
        }
    }

    /// Does what can be done without waiting.
    fn settle(&mut self, now: Instant) {
        loop {
            if let Some(id) = self.runnable.pop_front() {
                self.advance(now, id);
            } else if let Some(run) = self.elevator.poll_done() {
                self.read_done(run);
            } else {
                return;
            }
        }
    }

    /// Pages are there: their readers go on.
    fn read_done(&mut self, run: Run) {
        self.stats.reads_done += 1;
        let mut page = run.first;
        while page < run.first + run.pages {
            let Some(folio) = self.cache.find(run.file, page) else {
                page += 1;
                continue;
            };
            self.cache.filled(folio);
            self.runnable
                .extend(self.waiters.remove(&folio).unwrap_or_default());
            let (first, pages) = self.cache.span(folio);
            page = first + pages;
        }
    }

    /// A request wants a thread.
    fn take_up(&mut self, id: RequestId) {
        let Some(transfer) = self.transfers.get_mut(&id) else {
            return;
        };
        let worker = &mut self.workers[transfer.worker];
        if worker.free > 0 {
            worker.free -= 1;
            transfer.has_thread = true;
            transfer.turn_bytes = 0;
            self.runnable.push_back(id);
        } else {
            worker.waiting.push_back(id);
        }
    }

    /// A request needs its thread no longer, for now.
    fn let_go(&mut self, id: RequestId) {
        let Some(transfer) = self.transfers.get_mut(&id) else {
            return;
        };
        if !core::mem::take(&mut transfer.has_thread) {
            return;
        }
        let number = transfer.worker;
        self.workers[number].free += 1;
        while let Some(next) = self.workers[number].waiting.pop_front() {
            if self.transfers.contains_key(&next) {
                return self.take_up(next);
            }
        }
    }

    fn end(&mut self, id: RequestId) {
        self.let_go(id);
        self.transfers.remove(&id);
    }

    /// The thread of a request does its next step, or waits for a page of it.
    fn advance(&mut self, now: Instant, id: RequestId) {
        let Some(mut transfer) = self.transfers.remove(&id) else {
            return;
        };
        transfer.is_blocked = false;
        let first = transfer.next / PAGE_BYTES;
        let step_end = transfer.end.min(first * PAGE_BYTES + self.step_bytes());
        let behind = step_end.div_ceil(PAGE_BYTES) as u32;
        let mut missing = None;
        while missing.is_none() && !transfer.is_gone && transfer.page < behind {
            missing = self.get(now, &mut transfer, behind).err();
        }
        let is_gone = transfer.is_gone;
        if let Some(folio) = missing {
            transfer.is_blocked = true;
            transfer.waited = true;
            self.waiters.entry(folio).or_default().push(id);
        } else if !is_gone {
            self.hand_out(now, id, &mut transfer, step_end);
        }
        self.transfers.insert(id, transfer);
        if is_gone {
            self.end(id);
        }
    }

    /// Gets the pages of the next folio, or answers which one has to be waited for.
    fn get(&mut self, now: Instant, transfer: &mut Transfer, behind: u32) -> Result<(), FolioId> {
        let (file, page) = (transfer.file, transfer.page);
        let asked = behind - page;
        let found = self.cache.find(file, page);
        if let Some(folio) = found.filter(|folio| self.cache.take_mark(*folio)) {
            let (first, pages) = self.cache.span(folio);
            let (limits, cache) = (self.limits, &self.cache);
            let asked = match self.setup.access {
                Access::Mapped => limits.window,
                _ => (behind - first).max(1),
            };
            let missing = |from, most| cache.next_missing(file, from, most);
            let state = &mut transfer.read_ahead;
            if let Some(window) = state.marked(limits, first, pages, asked, missing) {
                self.read(now, transfer, window);
            }
        }
        // Reading ahead may have taken the place of what was there.
        let folio = match self.cache.find(file, page) {
            Some(folio) => folio,
            None => self.miss(now, transfer, asked),
        };
        if self.cache.is_filling(folio) {
            return Err(folio);
        }
        let was_sent = self.cache.touch(folio);
        // Of a folio that was begun in the step before, that step knows.
        let same = transfer.folio.filter(|(last, _)| *last == folio);
        let is_reused = same.map_or(was_sent, |(_, was_sent)| was_sent);
        transfer.folio = Some((folio, is_reused));
        let (first, pages) = self.cache.span(folio);
        let got = (first + pages).min(behind);
        if is_reused {
            self.stats.bytes_reused += u64::from(got - page) * PAGE_BYTES;
        }
        transfer.page = got;
        Ok(())
    }

    /// A page is missing; it is on its way when this returns.
    fn miss(&mut self, now: Instant, transfer: &mut Transfer, asked: u32) -> FolioId {
        let (file, page) = (transfer.file, transfer.page);
        let (limits, cache) = (self.limits, &self.cache);
        let state = &mut transfer.read_ahead;
        let window = match self.setup.access {
            Access::Mapped => state.fault(limits, page),
            _ => state.missing(limits, page, asked, |most| {
                cache.cached_before(file, page, most)
            }),
        };
        self.read(now, transfer, window);
        if let Some(folio) = self.cache.find(file, page) {
            return folio;
        }
        self.submit(now, transfer, page, 1);
        self.cache.insert(file, page, 1)
    }

    /// Reads those pages of a window that are not there.
    fn read(&mut self, now: Instant, transfer: &Transfer, window: Window) {
        let file = transfer.file;
        let file_pages = transfer.place.size_bytes.div_ceil(PAGE_BYTES) as u32;
        let behind = window.from.saturating_add(window.pages).min(file_pages);
        let has_large = self.cache.kind() == CacheKind::LargeFolios;
        let order_max = if has_large { window.order } else { 0 };
        let mut page = window.from;
        let mut begun = page;
        while page < behind {
            if let Some(folio) = self.cache.find(file, page) {
                self.submit(now, transfer, begun, page - begun);
                let (first, pages) = self.cache.span(folio);
                page = first + pages;
                begun = page;
                continue;
            }
            let pages = self.folio_pages(file, page, order_max, behind);
            let folio = self.cache.insert(file, page, pages);
            if window
                .mark
                .is_some_and(|mark| (page..page + pages).contains(&mark))
            {
                self.cache.mark(folio);
            }
            page += pages;
        }
        self.submit(now, transfer, begun, page.saturating_sub(begun));
    }

    /// How many pages are allocated together: aligned to their number, and none that is there.
    fn folio_pages(&self, file: u32, page: u32, order_max: u32, behind: u32) -> u32 {
        let mut order = order_max.min(page.trailing_zeros());
        let is_free = |order: u32| {
            let pages = 1_u32 << order;
            let fits = pages <= behind - page;
            fits && (page..page + pages).all(|page| self.cache.find(file, page).is_none())
        };
        while order > 0 && !is_free(order) {
            order -= 1;
        }
        1 << order
    }

    fn submit(&mut self, now: Instant, transfer: &Transfer, first: u32, pages: u32) {
        if pages == 0 {
            return;
        }
        let run = Run {
            file: transfer.file,
            first,
            pages,
        };
        let physical = transfer.place.physical + u64::from(first) * PAGE_BYTES;
        self.stats.reads += self.elevator.submit(now, run, physical);
        self.stats.bytes_read += u64::from(pages) * PAGE_BYTES;
    }

    /// A step is complete.
    fn hand_out(&mut self, now: Instant, id: RequestId, transfer: &mut Transfer, end: u64) {
        let is_first = transfer.next == transfer.start;
        if is_first {
            self.waits.add(now.since(transfer.asked_at));
        }
        let bytes = end - transfer.next;
        self.stats.bytes_sent += bytes;
        if core::mem::take(&mut transfer.waited) {
            self.stats.bytes_from_disk += bytes;
        } else {
            self.stats.bytes_from_ram += bytes;
        }
        transfer.next = end;
        transfer.turn_bytes += bytes;
        transfer.read_ahead.passed(end.div_ceil(PAGE_BYTES) as u32);
        self.outcomes.push_back(Outcome::Piece(Piece {
            asker: transfer.asker,
            request: id,
            slot: Slot(0),
            bytes,
            head: is_first.then_some(transfer.end - transfer.start),
            is_last: end == transfer.end,
        }));
    }

    /// What did not fit into the socket is got again when it does: its folios are touched once more.
    fn touch_again(&mut self, id: RequestId, bytes: u64) {
        let Some(transfer) = self.transfers.get(&id) else {
            return;
        };
        let behind = transfer.next.div_ceil(PAGE_BYTES) as u32;
        let mut page = (transfer.next.saturating_sub(bytes) / PAGE_BYTES) as u32;
        let file = transfer.file;
        while page < behind {
            let Some(folio) = self.cache.find(file, page) else {
                page += 1;
                continue;
            };
            self.cache.touch(folio);
            let (first, pages) = self.cache.span(folio);
            page = first + pages;
        }
    }

    fn step_bytes(&self) -> u64 {
        match self.setup.access {
            Access::Sendfile | Access::Mapped => 64 * KIB,
            Access::Read(bytes) => bytes.max(PAGE_BYTES),
        }
    }

    /// Time passes: what is integrated over it is counted.
    fn begin(&mut self, now: Instant) {
        let passed = now.since(self.now);
        self.now = self.now.max(now);
        let queued = self.elevator.waiting() + self.elevator.device().outstanding();
        self.stats.queue_time += passed.times(queued as u64);
    }
}

impl Origin for Vanilla {
    fn socket_bytes(&self, bandwidth: Option<BitRate>, delay: Duration) -> u64 {
        self.setup.socket_bytes.unwrap_or_else(|| {
            let line = bandwidth.map(|rate| rate.bytes_in(delay.times(2)));
            line.map_or(SOCKET_BYTES_MAX, |line| {
                line + (line * SOCKET_PER_LINE).clamp(SOCKET_BYTES_MIN, SOCKET_BYTES_MAX)
            })
        })
    }

    fn ask(
        &mut self,
        now: Instant,
        asker: Asker,
        object: ObjectId,
        range: Option<ByteRange>,
    ) -> Result<RequestId, u16> {
        self.begin(now);
        let place = self.layout.place(object).ok_or(404_u16)?;
        let whole = ByteRange::new(0, place.size_bytes);
        let wanted = range.map_or(whole, |range| range.intersection(whole));
        if wanted.is_empty() {
            return Err(416);
        }
        let id = RequestId(self.next_id);
        self.next_id += 1;
        // Whichever process was quicker to accept.
        let chance = u64::from(asker.session).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let transfer = Transfer {
            asker,
            asked_at: now,
            file: object.0,
            place,
            worker: (chance % self.workers.len() as u64) as usize,
            has_thread: false,
            is_blocked: false,
            is_gone: false,
            start: wanted.start,
            next: wanted.start,
            end: wanted.end,
            page: (wanted.start / PAGE_BYTES) as u32,
            folio: None,
            waited: false,
            turn_bytes: 0,
            read_ahead: ReadAhead::default(),
        };
        self.stats.requests += 1;
        self.stats.bytes_requested += wanted.len();
        self.transfers.insert(id, transfer);
        self.take_up(id);
        self.settle(now);
        Ok(id)
    }

    fn handed(&mut self, now: Instant, piece: &Piece, link: &Link, taken: Instant) -> Instant {
        let id = piece.request;
        let has_had_enough = self
            .transfers
            .get(&id)
            .is_some_and(|transfer| transfer.turn_bytes >= TURN_BYTES);
        let is_full = taken > now;
        if is_full && !piece.is_last {
            self.touch_again(id, link.excess_bytes(now).min(piece.bytes));
        }
        if is_full || piece.is_last || has_had_enough {
            self.let_go(id);
            self.settle(now);
        }
        match is_full && !piece.is_last {
            true => link.writable_at().max(now),
            false => taken,
        }
    }

    fn taken(&mut self, now: Instant, request: RequestId, _: Slot) {
        self.begin(now);
        let Some(transfer) = self.transfers.get(&request) else {
            return;
        };
        if transfer.next == transfer.end {
            self.end(request);
        } else if transfer.has_thread {
            self.runnable.push_back(request);
        } else {
            self.take_up(request);
        }
        self.settle(now);
    }

    fn gone(&mut self, now: Instant, request: RequestId) {
        self.begin(now);
        match self.transfers.get_mut(&request) {
            Some(transfer) if transfer.is_blocked => transfer.is_gone = true,
            _ => self.end(request),
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.elevator.poll_timeout().is_some_and(|at| at <= now) {
            self.begin(now);
            self.elevator.handle_timeout(now);
            self.settle(now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.elevator.poll_timeout()
    }

    fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    fn reply_count(&self) -> usize {
        self.transfers.len()
    }

    fn device(&self) -> &Device {
        self.elevator.device()
    }

    fn device_mut(&mut self) -> &mut Device {
        self.elevator.device_mut()
    }

    fn take_waits(&mut self) -> Histogram {
        std::mem::take(&mut self.waits)
    }

    fn know(&mut self, object: ObjectId, place: Place) {
        self.layout.know(object, place);
    }

    fn live(&self) -> usize {
        self.transfers.len() + self.outcomes.len() + self.elevator.device().outstanding()
    }

    fn state(&self) -> State {
        let [all, _, filling, unsent] = self.cache.usage();
        let total = (self.setup.memory_bytes / PAGE_BYTES).max(all);
        let evictions = self.cache.evictions();
        let (waiting, outstanding) = (
            self.elevator.waiting(),
            self.elevator.device().outstanding(),
        );
        State {
            memory: MemoryUse {
                free_bytes: (total - all) * PAGE_BYTES,
                filling_bytes: filling * PAGE_BYTES,
                sending_bytes: 0,
                unread_bytes: unsent * PAGE_BYTES,
                read_bytes: (all - filling - unsent) * PAGE_BYTES,
            },
            queue: QueueUse {
                jobs: waiting + outstanding,
                jobs_demanded: self.waiters.values().map(Vec::len).sum(),
                outstanding_reads: outstanding,
                ..QueueUse::default()
            },
            chains: self.transfers.len(),
            control: ControlView {
                mode: Control::Off,
                bytes: self.setup.read_ahead_bytes,
                target_bytes: self.setup.read_ahead_bytes,
                score: None,
                reason: None,
                drive: None,
            },
            stats: Stats {
                busy_time: self.elevator.device().used().busy,
                wasted_bytes: evictions.unsent_pages * PAGE_BYTES,
                cache_evicted_bytes: evictions.sent_pages * PAGE_BYTES,
                ..self.stats
            },
        }
    }

    fn cache(&self) -> Option<CacheUse> {
        let [all, active, ..] = self.cache.usage();
        Some(CacheUse {
            bytes: all * PAGE_BYTES,
            active_bytes: active * PAGE_BYTES,
        })
    }
}
