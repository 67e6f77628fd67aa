//! The block layer: runs of pages become requests, in an order that a disk likes.
//!
//! The one idea (block/mq-deadline.c): requests go up the addresses in batches of sixteen; when a
//! batch is full or at its end, and the oldest request has waited for more than half a second, the
//! next batch begins with that one. A request that goes on where a waiting one ends becomes part of
//! it. All of it matters only for what waits here: a device that takes 128 requests at once is given
//! 128 in the order of their coming.
//!
//! Invariants: no request is longer than the device's largest; a run is done when all of its
//! requests are; of what is there, something is always under way.

use std::collections::{BTreeMap, VecDeque};

use headlong_drive::{Direction, Request, RequestId, SECTOR_BYTES};
use headlong_units::{Duration, Instant};

use super::page::PAGE_BYTES;
use crate::device::Device;

/// Requests of a batch (`fifo_batch`).
const BATCH: u32 = 16;

/// In which order waiting requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Scheduler {
    /// mq-deadline.
    #[default]
    Deadline,
    /// None: as they came.
    None,
}

/// Pages of one file that lie one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) file: u32,
    pub(super) first: u32,
    pub(super) pages: u32,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    run: Run,
    arrived: Instant,
}

/// What waits for the device, and the device.
#[derive(Debug)]
pub(super) struct Elevator {
    device: Device,
    scheduler: Scheduler,
    expires: Duration,
    tags: usize,
    pages_max: u32,
    /// By first sector.
    waiting: BTreeMap<(u64, u64), Waiting>,
    /// First sectors by age.
    by_age: BTreeMap<u64, u64>,
    under_way: BTreeMap<RequestId, Run>,
    /// Behind the last request that was given to the device.
    position: u64,
    batched: u32,
    next_id: u64,
    done: VecDeque<Run>,
}

impl Elevator {
    pub(super) fn new(device: Device, scheduler: Scheduler, limits: ElevatorLimits) -> Self {
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

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn device_mut(&mut self) -> &mut Device {
        &mut self.device
    }

    /// Requests that wait here.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Reads some pages; the first of them lies at `physical`. Answers how many requests it is.
    pub(super) fn submit(&mut self, now: Instant, run: Run, physical: u64) -> u64 {
        let mut left = run;
        let mut sector = physical / SECTOR_BYTES;
        let mut requests = 0;
        while left.pages > 0 {
            let pages = left.pages.min(self.pages_max);
            let part = Run { pages, ..left };
            if !self.merge(part, sector) {
                self.next_id += 1;
                let arrived = now;
                let waiting = Waiting { run: part, arrived };
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

    /// The next pages that have been read.
    pub(super) fn poll_done(&mut self) -> Option<Run> {
        self.done.pop_front()
    }

    /// Appends to a request that ends where this one begins, if that does not make it too long.
    fn merge(&mut self, part: Run, sector: u64) -> bool {
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
            && let Some(Waiting { run, .. }) = self.waiting.remove(&key)
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

    /// `dd_dispatch_request`, of reads.
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

/// What the block layer is bound by.
#[derive(Debug, Clone, Copy)]
pub(super) struct ElevatorLimits {
    /// After that, a request is expired.
    pub(super) expires: Duration,
    /// Requests that the device takes at once.
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
        let device = Device::new(drive, None, Duration::ZERO);
        Elevator::new(device, Scheduler::Deadline, limits)
    }

    fn read(elevator: &mut Elevator, now: Instant, page: u32, pages: u32) -> u64 {
        let run = Run {
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
    fn requests_go_up_the_addresses_and_then_from_the_oldest() {
        let mut elevator = elevator(1);
        for page in [5000, 9000, 7000, 1000, 6000, 2000] {
            read(&mut elevator, Instant::ZERO, page, 8);
        }
        assert_eq!(order(&mut elevator), [5000, 6000, 7000, 9000, 1000, 2000]);
    }

    #[test]
    fn whoever_has_waited_too_long_is_next_when_a_batch_is_full() {
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
    fn runs_are_cut_into_requests_and_joined_with_those_they_continue() {
        let mut elevator = elevator(1);
        assert_eq!(read(&mut elevator, Instant::ZERO, 0, 1000), 4);
        // The last of them waits, and has room.
        assert_eq!(read(&mut elevator, Instant::ZERO, 1000, 100), 0);
        assert_eq!(elevator.waiting(), 3);
        assert_eq!(order(&mut elevator), [0, 320, 640, 960]);
    }
}
