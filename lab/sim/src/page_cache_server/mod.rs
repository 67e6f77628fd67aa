//! A vanilla web server: threads that send files from a kernel's page cache and block on the disk.
//!
//! A request opens a file, reads it from an offset in steps of one `sendfile` call, and closes it.
//! A thread that reaches an absent page waits for it; a thread whose socket is full releases its
//! request until a third of the socket is free. Amount and order of disk reads are decided by the
//! kernel: readahead, page cache and block layer are modelled as in Linux 6.18, each in a file of
//! its own.
//!
//! Left out: processor time, names and inodes (they are in memory), writing, other users of the
//! cache; delays in the event loop of a process, apart from waiting for threads.
//!
//! Invariants: a thread works on one request at a time; a request holds a thread only from its
//! start or resumption to its end or a full socket; every page that a request waits for is being
//! read.

mod cache;
mod elevator;
mod origin;
mod read_ahead;
mod setup;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use headlong_engine::{RequestId, Slot, Stats};
use headlong_units::{Instant, KIB};

pub use self::cache::CacheKind;
use self::cache::{FolioId, PageCache};
pub use self::elevator::Scheduler;
use self::elevator::{Elevator, ElevatorLimits, PAGE_BYTES, PageRun};
use self::read_ahead::{DeviceLimits, ReadAheadState, ReadAheadWindow};
pub use self::setup::{AccessMethod, PageCacheServerSetup};
use crate::device::QueuedDrive;
use crate::histogram::Histogram;
use crate::layout::{FileLocation, Layout};
use crate::origin::{OriginEvent, ReplyPiece, Requester};

/// A request in progress: an open file and the position of its reader.
#[derive(Debug)]
struct Transfer {
    asker: Requester,
    asked_at: Instant,
    file: u32,
    place: FileLocation,
    worker: usize,
    has_thread: bool,
    /// Its thread waits for a folio.
    is_blocked: bool,
    /// The viewer has left; the thread detects it when it wakes.
    is_gone: bool,
    start: u64,
    next: u64,
    end: u64,
    /// The next page to get.
    page: u32,
    /// The folio of the latest step, and whether it was sent by an earlier request.
    folio: Option<(FolioId, bool)>,
    /// Whether the current step had to wait for the disk.
    waited: bool,
    turn_bytes: u64,
    read_ahead: ReadAheadState,
}

/// Threads of one process.
#[derive(Debug)]
struct WorkerProcess {
    free: u32,
    waiting: VecDeque<RequestId>,
}

/// The server in virtual time, with its kernel.
#[derive(Debug)]
pub(crate) struct PageCacheServer {
    setup: PageCacheServerSetup,
    now: Instant,
    limits: DeviceLimits,
    layout: Layout,
    cache: PageCache,
    elevator: Elevator,
    workers: Vec<WorkerProcess>,
    transfers: BTreeMap<RequestId, Transfer>,
    /// Threads that wait for a folio.
    waiters: BTreeMap<FolioId, Vec<RequestId>>,
    /// Requests whose thread can continue.
    runnable: VecDeque<RequestId>,
    next_id: u64,
    outcomes: VecDeque<OriginEvent>,
    waits: Histogram,
    stats: Stats,
}

impl PageCacheServer {
    pub(crate) fn new(setup: &PageCacheServerSetup, layout: Layout, device: QueuedDrive) -> Self {
        let pages = |bytes: u64| u32::try_from(bytes / PAGE_BYTES).unwrap_or(u32::MAX / 4);
        let limits = ElevatorLimits {
            expires: setup.expires,
            tags: setup.tags as usize,
            pages_max: pages(setup.request_bytes_max),
        };
        let worker = || WorkerProcess {
            free: setup.threads.max(1),
            waiting: VecDeque::new(),
        };
        Self {
            now: Instant::ZERO,
            limits: DeviceLimits {
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

    /// Runs until all work has to wait.
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

    /// Pages have arrived: their waiters continue.
    fn read_done(&mut self, run: PageRun) {
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

    /// Assigns a thread to a request, or queues the request for one.
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

    /// Releases the thread of a request.
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

    /// Runs the next step of a request's thread, up to the first absent page.
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

    /// Gets the pages of the next folio, or returns the folio to wait for.
    fn get(&mut self, now: Instant, transfer: &mut Transfer, behind: u32) -> Result<(), FolioId> {
        let (file, page) = (transfer.file, transfer.page);
        let asked = behind - page;
        let found = self.cache.find(file, page);
        if let Some(folio) = found.filter(|folio| self.cache.take_mark(*folio)) {
            let (first, pages) = self.cache.span(folio);
            let (limits, cache) = (self.limits, &self.cache);
            let asked = match self.setup.access {
                AccessMethod::Mapped => limits.window,
                _ => (behind - first).max(1),
            };
            let missing = |from, most| cache.next_missing(file, from, most);
            let state = &mut transfer.read_ahead;
            if let Some(window) = state.marked(limits, first, pages, asked, missing) {
                self.read(now, transfer, window);
            }
        }
        // Readahead may have evicted the folio that was found.
        let folio = match self.cache.find(file, page) {
            Some(folio) => folio,
            None => self.miss(now, transfer, asked),
        };
        if self.cache.is_filling(folio) {
            return Err(folio);
        }
        let was_sent = self.cache.touch(folio);
        // The flag of a folio that the previous step began is stored with the transfer.
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

    /// Handles a page miss; a read of the page is in progress on return.
    fn miss(&mut self, now: Instant, transfer: &mut Transfer, asked: u32) -> FolioId {
        let (file, page) = (transfer.file, transfer.page);
        let (limits, cache) = (self.limits, &self.cache);
        let state = &mut transfer.read_ahead;
        let window = match self.setup.access {
            AccessMethod::Mapped => state.fault(limits, page),
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

    /// Reads the absent pages of a window.
    fn read(&mut self, now: Instant, transfer: &Transfer, window: ReadAheadWindow) {
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

    /// Number of pages to allocate together: an aligned power of two without resident pages.
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
        let run = PageRun {
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
        self.outcomes.push_back(OriginEvent::Piece(ReplyPiece {
            asker: transfer.asker,
            request: id,
            slot: Slot(0),
            bytes,
            head: is_first.then_some(transfer.end - transfer.start),
            is_last: end == transfer.end,
        }));
    }

    /// Bytes that did not fit into the socket are read again later, so their folios are accessed
    /// again.
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
            AccessMethod::Sendfile | AccessMethod::Mapped => 64 * KIB,
            AccessMethod::Read(bytes) => bytes.max(PAGE_BYTES),
        }
    }

    /// Advances the clock and the time-weighted counters.
    fn begin(&mut self, now: Instant) {
        let passed = now.since(self.now);
        self.now = self.now.max(now);
        let queued = self.elevator.waiting() + self.elevator.device().outstanding();
        self.stats.queue_time += passed.times(queued as u64);
    }
}
