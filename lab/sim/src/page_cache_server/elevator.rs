//! The block layer: splits runs of pages into requests and schedules them for a disk.
//!
//! As in block/mq-deadline.c: requests are dispatched by increasing address in batches of sixteen;
//! when a batch is full or reaches the highest address, and the oldest request has waited for more
//! than half a second, the next batch starts with that one. A request that continues a queued one
//! is merged into it. This only matters for requests that queue here: a device that accepts 128
//! requests gets 128 in order of arrival.
//!
//! Invariants: no request exceeds the device's maximum; a run is done when all of its requests are;
//! the device is never idle while requests are queued.

use std::collections::{BTreeMap, VecDeque};

use headlong_drive::{Direction, Request, RequestId, SECTOR_BYTES};
use headlong_units::{Duration, Instant};

use crate::device::QueuedDrive;

/// Bytes of a page of the modelled kernel.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Requests of a batch (`fifo_batch`).
const BATCH: u32 = 16;

/// Order of dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Scheduler {
    /// mq-deadline.
    #[default]
    Deadline,
    /// None: order of arrival.
    None,
}

/// Consecutive pages of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageRun {
    pub(super) file: u32,
    pub(super) first: u32,
    pub(super) pages: u32,
}

#[derive(Debug, Clone, Copy)]
struct WaitingRead {
    run: PageRun,
    arrived: Instant,
}

/// The queue and the device.
#[derive(Debug)]
pub(super) struct Elevator {
    device: QueuedDrive,
    scheduler: Scheduler,
    expires: Duration,
    tags: usize,
    pages_max: u32,
    /// By first sector.
    waiting: BTreeMap<(u64, u64), WaitingRead>,
    /// First sectors by age.
    by_age: BTreeMap<u64, u64>,
    under_way: BTreeMap<RequestId, PageRun>,
    /// End of the latest request given to the device.
    position: u64,
    batched: u32,
    next_id: u64,
    done: VecDeque<PageRun>,
}

impl Elevator {
    pub(super) fn new(device: QueuedDrive, scheduler: Scheduler, limits: ElevatorLimits) -> Self {
        Self {
            device,
            scheduler,
            expires: limits.expires,
            tags: limits.tags.max(1),
            pages_max: limits.pages_max.max(1),
            waiting: BTreeMap::new(),
            by_age: BTreeMap::new(),
            under_way: BTreeMap::new(),
            position: 0,
            batched: 0,
            next_id: 0,
            done: VecDeque::new(),
        }
    }

    pub(super) fn device(&self) -> &QueuedDrive {
        &self.device
    }

    pub(super) fn device_mut(&mut self) -> &mut QueuedDrive {
        &mut self.device
    }

    /// Number of queued requests.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Reads a run of pages that starts at `physical`. Returns the number of new requests.
    pub(super) fn submit(&mut self, now: Instant, run: PageRun, physical: u64) -> u64 {
        let mut left = run;
        let mut sector = physical / SECTOR_BYTES;
        let mut requests = 0;
        while left.pages > 0 {
            let pages = left.pages.min(self.pages_max);
            let part = PageRun { pages, ..left };
            if !self.merge(part, sector) {
                self.next_id += 1;
                let arrived = now;
                let waiting = WaitingRead { run: part, arrived };
                self.waiting.insert((sector, self.next_id), waiting);
                self.by_age.insert(self.next_id, sector);
                requests += 1;
            }
            sector += u64::from(pages) * SECTORS_PER_PAGE;
            left.first += pages;
            left.pages -= pages;
        }
        self.feed(now);
        requests
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.device.handle_timeout(now);
        while let Some(id) = self.device.poll_done(now) {
            self.done.extend(self.under_way.remove(&id));
        }
        self.feed(now);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.device.poll_timeout()
    }

    /// The next run that has been read.
    pub(super) fn poll_done(&mut self) -> Option<PageRun> {
        self.done.pop_front()
    }

    /// Merges into a queued request that ends where this one begins, within the size limit.
    fn merge(&mut self, part: PageRun, sector: u64) -> bool {
        if self.scheduler == Scheduler::None {
            return false;
        }
        let mut before = self.waiting.range_mut(..(sector, 0));
        let Some((_, waiting)) = before.next_back() else {
            return false;
        };
        let run = &mut waiting.run;
        let continues = run.file == part.file && run.first + run.pages == part.first;
        let fits = run.pages + part.pages <= self.pages_max;
        if continues && fits {
            run.pages += part.pages;
        }
        continues && fits
    }

    fn feed(&mut self, now: Instant) {
        while self.device.outstanding() < self.tags
            && let Some(key) = self.next(now)
            && let Some(WaitingRead { run, .. }) = self.waiting.remove(&key)
        {
            let (sector, id) = key;
            self.by_age.remove(&id);
            let sectors = u64::from(run.pages) * SECTORS_PER_PAGE;
            self.position = sector + sectors;
            let request = Request {
                sector,
                sectors: sectors as u32,
                direction: Direction::Read,
            };
            self.under_way.insert(RequestId(id), run);
            self.device.submit(now, RequestId(id), request);
        }
        while let Some(id) = self.device.poll_done(now) {
            self.done.extend(self.under_way.remove(&id));
        }
    }

    /// `dd_dispatch_request`, for reads.
    fn next(&mut self, now: Instant) -> Option<(u64, u64)> {
        let (id, sector) = self.by_age.first_key_value()?;
        let oldest = (*sector, *id);
        if self.scheduler == Scheduler::None {
            return Some(oldest);
        }
        let upwards = self.waiting.range((self.position, 0)..).next();
        let upwards = upwards.map(|(key, _)| *key);
        if let Some(key) = upwards
            && self.batched < BATCH
        {
            self.batched += 1;
            return Some(key);
        }
        let waited = now.since(self.waiting.get(&oldest)?.arrived);
        self.batched = 1;
        let is_expired = waited >= self.expires;
        upwards.filter(|_| !is_expired).or(Some(oldest))
    }
}

/// Limits of the block layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct ElevatorLimits {
    /// Age at which a request expires.
    pub(super) expires: Duration,
    /// Requests that the device accepts at once.
    pub(super) tags: usize,
    /// Pages of the largest request.
    pub(super) pages_max: u32,
}

const SECTORS_PER_PAGE: u64 = PAGE_BYTES / SECTOR_BYTES;

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_drive::preset;

    fn elevator(tags: usize) -> Elevator {
        let drive = preset("wd-red-wd10efrx").expect("a preset").build();
        let limits = ElevatorLimits {
            expires: Duration::from_millis(500),
            tags,
            pages_max: 320,
        };
        let device = QueuedDrive::new(drive, None, Duration::ZERO);
        Elevator::new(device, Scheduler::Deadline, limits)
    }

    fn read(elevator: &mut Elevator, now: Instant, page: u32, pages: u32) -> u64 {
        let run = PageRun {
            file: 0,
            first: page,
            pages,
        };
        elevator.submit(now, run, u64::from(page) * PAGE_BYTES)
    }

    fn order(elevator: &mut Elevator) -> Vec<u32> {
        let mut order = Vec::new();
        while let Some(at) = elevator.poll_timeout() {
            elevator.handle_timeout(at);
            order.extend(std::iter::from_fn(|| elevator.poll_done()).map(|run| run.first));
        }
        order
    }

    #[test]
    fn dispatches_by_address_then_from_oldest() {
        let mut elevator = elevator(1);
        for page in [5000, 9000, 7000, 1000, 6000, 2000] {
            read(&mut elevator, Instant::ZERO, page, 8);
        }
        assert_eq!(order(&mut elevator), [5000, 6000, 7000, 9000, 1000, 2000]);
    }

    #[test]
    fn expired_request_starts_next_batch() {
        let mut elevator = elevator(1);
        read(&mut elevator, Instant::ZERO, 1_000_000, 8);
        read(&mut elevator, Instant::ZERO, 10, 8);
        for page in 0..200 {
            read(
                &mut elevator,
                Instant::ZERO,
                2_000_000 + page * 1_000_000,
                8,
            );
        }
        let order = order(&mut elevator);
        let turn = order.iter().position(|page| *page == 10).expect("read");
        assert!((16..150).contains(&turn), "{turn}");
    }

    #[test]
    fn runs_are_split_and_merged_with_queued_requests() {
        let mut elevator = elevator(1);
        assert_eq!(read(&mut elevator, Instant::ZERO, 0, 1000), 4);
        // The last one is queued and has room for more pages.
        assert_eq!(read(&mut elevator, Instant::ZERO, 1000, 100), 0);
        assert_eq!(elevator.waiting(), 3);
        assert_eq!(order(&mut elevator), [0, 320, 640, 960]);
    }
}
