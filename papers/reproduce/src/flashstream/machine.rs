//! A machine of the paper in virtual time: memory, an SSD and disks, with an open-loop workload.
//!
//! A request is answered from memory at once, from the SSD when its parts have been read, or else
//! from the disk; the SSD handling of each system is its [`Tier`]. As in the paper there is no
//! network; processors take no time.
//!
//! Invariants: same machine, requests and seed, same result; every request is answered once.

use std::collections::{HashMap, VecDeque};

use headlong_drive::{Direction, DriveSpec};
use headlong_units::{Duration, Instant, KIB};

use super::block_layer::{DriveRange, DriveTiming, QueuedDrive};
use super::library::{Segment, TitleLibrary};
use super::memory::SegmentMemory;
use super::tiers::Tier;

/// Averaging period of the SSD's busy time: the epoch of 4.4.
const EPOCH: Duration = Duration::from_secs(1);
/// Interval of a tier's periodic work with a memory of full size; scaled down with the memory.
const LOOK: Duration = Duration::from_secs(1);
/// Sequential readahead of the kernel (`read_ahead_kb` of Linux 2.6.32).
const READ_AHEAD_BYTES: u64 = 128 * KIB;
/// Number of samples of a run for a chart.
const STRETCHES: u64 = 60;
/// A segment that is not complete within its playing time is missed (5.1).
pub(super) const DEADLINE: Duration = Duration::from_secs(10);
/// Stripe size of mdadm, its default since 3.1.1.
const STRIPE_BYTES: u64 = 512 * KIB;

/// Configuration of a machine.
#[derive(Debug, Clone)]
pub(super) struct MachineSpec {
    /// Reduction factor relative to the paper's machine.
    pub(super) scale: u64,
    pub(super) memory_bytes: u64,
    pub(super) disk: DriveSpec,
    /// One disk, or several in stripes.
    pub(super) disks: usize,
    pub(super) ssd: DriveSpec,
    /// Most outstanding windows of one read of the disk: with one, the next window is requested when
    /// the previous one has arrived.
    pub(super) windows: u32,
}

/// Counters, from the beginning or since [`Machine::begin_count`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MachineCounts {
    pub(super) requests: u64,
    pub(super) missed: u64,
    pub(super) from_memory: u64,
    pub(super) from_ssd: u64,
    /// Requests that found their segment on the SSD and still missed the deadline.
    pub(super) missed_on_ssd: u64,
    pub(super) longest: Duration,
}

/// One sample period of an SSD.
#[derive(Debug, Clone, Copy, serde::Serialize, PartialEq)]
pub(super) struct SsdSample {
    /// Its end.
    pub(super) minute: f64,
    pub(super) read_mb_s: f64,
    pub(super) written_mb_s: f64,
    /// Share of time in which the SSD was busy.
    pub(super) busy: f64,
}

#[derive(Debug)]
struct WaitingRequest {
    segment: Segment,
    came: Vec<Instant>,
    /// Remaining reads, with their disk.
    windows: VecDeque<(usize, DriveRange)>,
    /// Jobs to complete before the answer.
    jobs: u32,
    from_disk: bool,
    /// Its bytes have been read, and are being written to the SSD before delivery.
    is_written: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MachineJob {
    Of(u64),
    /// A window read from the disks.
    Window(u64),
    Write,
}

/// A running machine.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) tier: Box<dyn Tier>,
    memory: SegmentMemory,
    disks: Vec<QueuedDrive>,
    ssd: QueuedDrive,
    pub(super) now: Instant,
    look: Duration,
    next_look: Instant,
    next_epoch: Instant,
    next_arrival: Instant,
    busy_before: Duration,
    /// Busy share of the last epoch.
    busy: f64,
    waiting: HashMap<u64, WaitingRequest>,
    jobs: HashMap<u64, MachineJob>,
    next_job: u64,
    is_writing: bool,
    windows: u32,
    pub(super) counts: MachineCounts,
    /// Time and busy time of the disks and of the SSD at the beginning of `counts`.
    counted_from: (Instant, [Duration; 2]),
}

impl Machine {
    pub(super) fn new(spec: &MachineSpec, tier: Box<dyn Tier>) -> Self {
        let disks = (0..spec.disks.max(1)).map(|_| QueuedDrive::new(&spec.disk));
        Self {
            tier,
            memory: SegmentMemory::new(spec.memory_bytes),
            disks: disks.collect(),
            ssd: QueuedDrive::new(&spec.ssd),
            now: Instant::ZERO,
            look: Duration(LOOK.0 / spec.scale.max(1)),
            next_look: Instant::ZERO,
            next_epoch: Instant::ZERO + EPOCH,
            next_arrival: Instant::ZERO,
            busy_before: Duration::ZERO,
            busy: 0.0,
            waiting: HashMap::new(),
            jobs: HashMap::new(),
            next_job: 0,
            is_writing: false,
            windows: spec.windows.max(1),
            counts: MachineCounts::default(),
            counted_from: (Instant::ZERO, [Duration::ZERO; 2]),
        }
    }

    /// Starts the warm-up: drives take no time; writes age the SSD if `ages` is set.
    pub(super) fn begin_warming(&mut self, ages: bool) {
        self.ssd.pace = match ages {
            true => DriveTiming::Aging,
            false => DriveTiming::Instant,
        };
        for disk in &mut self.disks {
            disk.pace = DriveTiming::Instant;
        }
    }

    /// Ends the warm-up: drives take their time.
    pub(super) fn end_warming(&mut self) {
        self.ssd.pace = DriveTiming::Real;
        for disk in &mut self.disks {
            disk.pace = DriveTiming::Real;
        }
        self.shift_to(self.ssd.aged_until);
    }

    pub(super) fn begin_count(&mut self) {
        self.counts = MachineCounts::default();
        self.counted_from = (self.now, self.busy_times());
    }

    /// Busy time of all disks and of the SSD.
    fn busy_times(&self) -> [Duration; 2] {
        let disks = self.disks.iter().map(|disk| disk.used(self.now).busy.0);
        [Duration(disks.sum()), self.ssd.used(self.now).busy]
    }

    /// Busy share of a disk (the mean over several) and of the SSD since [`Self::begin_count`].
    pub(super) fn busy_shares(&self) -> [f64; 2] {
        let (from, before) = self.counted_from;
        let seconds = self.now.since(from).as_secs_f64().max(1e-9);
        let [disks, ssd] = self.busy_times();
        let disks = (disks - before[0]).as_secs_f64() / self.disks.len() as f64;
        [disks / seconds, (ssd - before[1]).as_secs_f64() / seconds]
    }

    /// Writes the whole SSD once, in order, outside the measured time: an SSD that was never filled
    /// needs no garbage collection.
    pub(super) fn age_ssd(&mut self, bytes: u64) {
        let part = |index: u64| DriveRange {
            from: index << 20,
            bytes: 1 << 20,
        };
        for index in 0..bytes >> 20 {
            self.ssd.age(self.now, &[part(index)]);
        }
        self.shift_to(self.ssd.aged_until);
    }

    fn shift_to(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.next_arrival = self.now;
        self.next_look = self.now;
        self.next_epoch = self.now + EPOCH;
        self.busy_before = self.ssd.used(self.now).busy;
    }

    /// Runs requests of a library at a rate, for a duration or until `is_over`. `stretch` receives
    /// sixty samples of the SSD.
    pub(super) fn run(
        &mut self,
        requests: &mut super::library::SegmentRequests<'_>,
        length: Duration,
        mut is_over: impl FnMut(&Self) -> bool,
        mut stretch: impl FnMut(SsdSample),
    ) {
        let began = self.now;
        let end = began + length;
        self.next_arrival = self.next_arrival.max(self.now);
        let step = Duration((length.0 / STRETCHES).max(1));
        let seconds = step.as_secs_f64();
        let (mut look_at, mut before) = (self.now + step, self.ssd.used(self.now));
        while self.now < end && !is_over(self) {
            let mut next = self.next_arrival.min(self.next_look).min(look_at);
            next = next.min(self.next_epoch);
            let timeouts = self.disks.iter().map(QueuedDrive::poll_timeout);
            for at in timeouts.chain([self.ssd.poll_timeout()]).flatten() {
                next = next.min(at);
            }
            self.now = self.now.max(next);
            self.pass();
            if self.now >= self.next_arrival {
                self.next_arrival = self.next_arrival + requests.gap;
                let Some(segment) = requests.next() else {
                    return;
                };
                self.ask(segment);
            }
            if self.now >= self.next_epoch {
                self.end_epoch();
            }
            if self.now >= self.next_look {
                self.next_look = self.next_look + self.look;
                self.tier.tick(self.now, &self.memory, self.busy);
            }
            if self.now >= look_at {
                let used = self.ssd.used(self.now);
                let mb_s = |now: u64, then: u64| (now - then) as f64 / 1e6 / seconds;
                stretch(SsdSample {
                    minute: self.now.since(began).as_secs_f64() / 60.0,
                    read_mb_s: mb_s(used.read_bytes, before.read_bytes),
                    written_mb_s: mb_s(used.written_bytes, before.written_bytes),
                    busy: (used.busy - before.busy).as_secs_f64() / seconds,
                });
                before = used;
                look_at = look_at + step;
            }
            self.settle();
        }
    }

    fn pass(&mut self) {
        let now = self.now;
        let drives = self.disks.iter_mut().chain([&mut self.ssd]);
        for drive in drives {
            if drive.poll_timeout().is_some_and(|at| at <= now) {
                drive.handle_timeout(now);
            }
        }
        self.settle();
    }

    fn end_epoch(&mut self) {
        self.next_epoch = self.next_epoch + EPOCH;
        let busy = self.ssd.used(self.now).busy;
        self.busy = (busy - self.busy_before).as_secs_f64() / EPOCH.as_secs_f64();
        self.busy_before = busy;
    }

    fn ask(&mut self, segment: Segment) {
        self.counts.requests += 1;
        if self.memory.touch(&segment) {
            self.counts.from_memory += 1;
            return;
        }
        let name = segment.physical;
        if let Some(waiting) = self.waiting.get_mut(&name) {
            waiting.came.push(self.now);
            return;
        }
        let found = self.tier.find(&segment);
        let from_disk = found.disk_from.is_some();
        self.counts.from_ssd += u64::from(!from_disk);
        let waiting = WaitingRequest {
            segment,
            came: vec![self.now],
            windows: VecDeque::new(),
            jobs: 0,
            from_disk,
            is_written: false,
        };
        self.waiting.insert(name, waiting);
        if !found.on_ssd.is_empty() {
            let job = self.job(MachineJob::Of(name));
            self.ssd
                .submit(self.now, job, &found.on_ssd, Direction::Read);
        }
        if let Some(from) = found.disk_from {
            self.read(
                name,
                segment.physical + u64::from(from),
                segment.bytes - from,
            );
        }
    }

    /// Reads from the disk, or from stripes of several, window by window.
    fn read(&mut self, name: u64, from: u64, bytes: u32) {
        let count = self.disks.len() as u64;
        let mut windows = VecDeque::new();
        let (mut at, end) = (from, from + u64::from(bytes));
        while at < end {
            let (stripe, within) = (at / STRIPE_BYTES, at % STRIPE_BYTES);
            let (disk, place, most) = match count {
                1 => (0, at, READ_AHEAD_BYTES),
                _ => (
                    (stripe % count) as usize,
                    stripe / count * STRIPE_BYTES + within,
                    READ_AHEAD_BYTES.min(STRIPE_BYTES - within),
                ),
            };
            let bytes = most.min(end - at);
            windows.push_back((disk, DriveRange { from: place, bytes }));
            at += bytes;
        }
        if let Some(waiting) = self.waiting.get_mut(&name) {
            waiting.jobs += self.windows.min(windows.len() as u32);
            waiting.windows = windows;
        }
        for _ in 0..self.windows {
            self.next_window(name);
        }
    }

    /// Starts the next window of a segment. Returns whether there was one.
    fn next_window(&mut self, name: u64) -> bool {
        let waiting = self.waiting.get_mut(&name);
        let Some((disk, part)) = waiting.and_then(|of| of.windows.pop_front()) else {
            return false;
        };
        let job = self.job(MachineJob::Window(name));
        self.disks[disk].submit(self.now, job, &[part], Direction::Read);
        true
    }

    fn job(&mut self, job: MachineJob) -> u64 {
        self.next_job += 1;
        self.jobs.insert(self.next_job, job);
        if let MachineJob::Of(name) = job
            && let Some(waiting) = self.waiting.get_mut(&name)
        {
            waiting.jobs += 1;
        }
        self.next_job
    }

    fn settle(&mut self) {
        loop {
            let drives = self.disks.iter_mut().chain([&mut self.ssd]);
            let done: Vec<u64> = drives
                .flat_map(|drive| std::iter::from_fn(|| drive.poll_done()))
                .collect();
            for job in &done {
                match self.jobs.remove(job) {
                    Some(MachineJob::Of(name)) => self.part_done(name),
                    // After the last window the read is done, or its part of the outstanding
                    // windows; otherwise the next window has been started.
                    Some(MachineJob::Window(name)) if !self.next_window(name) => {
                        self.part_done(name)
                    }
                    Some(MachineJob::Write) => {
                        self.is_writing = false;
                        self.tier.handle_written();
                    }
                    Some(MachineJob::Window(_)) | None => {}
                }
            }
            let write = match self.is_writing {
                true => None,
                false => self.tier.poll_write(),
            };
            match write {
                Some(parts) => {
                    self.is_writing = true;
                    let job = self.job(MachineJob::Write);
                    self.ssd.submit(self.now, job, &parts, Direction::Write);
                }
                None if done.is_empty() => return,
                None => {}
            }
        }
    }

    fn part_done(&mut self, name: u64) {
        let Some(waiting) = self.waiting.get_mut(&name) else {
            return;
        };
        waiting.jobs -= 1;
        if waiting.jobs > 0 {
            return;
        }
        let (segment, from_disk) = (waiting.segment, waiting.from_disk);
        if from_disk && !std::mem::replace(&mut waiting.is_written, true) {
            let parts = self.tier.handle_read(&segment);
            if !parts.is_empty() {
                let job = self.job(MachineJob::Of(name));
                self.ssd.submit(self.now, job, &parts, Direction::Write);
                return;
            }
        }
        if from_disk || self.tier.fills_memory() {
            self.memory.insert(segment);
        }
        let Some(waiting) = self.waiting.remove(&name) else {
            return;
        };
        for came in waiting.came {
            let took = self.now.since(came);
            self.counts.longest = self.counts.longest.max(took);
            let is_missed = took > DEADLINE;
            self.counts.missed += u64::from(is_missed);
            self.counts.missed_on_ssd += u64::from(is_missed && !from_disk);
        }
    }
}

impl MachineCounts {
    /// The share of requests answered from the SSD.
    pub(super) fn ssd_share(&self) -> f64 {
        self.from_ssd as f64 / self.requests.max(1) as f64
    }
}

/// A library scaled to a machine.
pub(super) fn library(scale: u64, alpha: f64, spec: &MachineSpec) -> TitleLibrary {
    TitleLibrary::new(scale, alpha, spec.disk.capacity_bytes() * spec.disks as u64)
}
