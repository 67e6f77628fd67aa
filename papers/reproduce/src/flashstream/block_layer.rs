//! A drive with the kernel's block layer: jobs are split into requests, queued, and completed as a
//! whole.

use std::collections::{HashMap, VecDeque};

use headlong_drive::{Direction, Drive, DriveSpec, Request, RequestId, SECTOR_BYTES};
use headlong_units::{Duration, Instant, KIB};

/// The largest request of Linux 2.6.32 (`max_sectors_kb`).
const REQUEST_BYTES: u64 = 512 * KIB;

/// A byte range of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DriveRange {
    /// First byte.
    pub(super) from: u64,
    /// Number of bytes.
    pub(super) bytes: u64,
}

/// Work of a drive.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DriveUse {
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    /// Busy time.
    pub(super) busy: Duration,
}

/// Timing of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DriveTiming {
    /// Real service times.
    Real,
    /// No time, without effect on the drive: fills caches as after days.
    Instant,
    /// The same, but writes reach the drive, so that its flash ages, too.
    Aging,
}

/// A drive and its queue.
#[derive(Debug)]
pub(super) struct QueuedDrive {
    drive: Box<dyn Drive>,
    pub(super) pace: DriveTiming,
    /// End of the time used by ageing writes.
    pub(super) aged_until: Instant,
    waiting: VecDeque<(RequestId, Request)>,
    in_drive: usize,
    /// The job of each request.
    job_of: HashMap<u64, u64>,
    /// Number of unfinished requests of each job.
    left: HashMap<u64, u32>,
    done: VecDeque<u64>,
    next_id: u64,
    busy_since: Option<Instant>,
    used: DriveUse,
}

impl QueuedDrive {
    pub(super) fn new(spec: &DriveSpec) -> Self {
        Self {
            drive: spec.build(),
            pace: DriveTiming::Real,
            aged_until: Instant::ZERO,
            waiting: VecDeque::new(),
            in_drive: 0,
            job_of: HashMap::new(),
            left: HashMap::new(),
            done: VecDeque::new(),
            next_id: 0,
            busy_since: None,
            used: DriveUse::default(),
        }
    }

    /// Submits a job of several parts; an empty job completes at once.
    pub(super) fn submit(
        &mut self,
        now: Instant,
        job: u64,
        parts: &[DriveRange],
        direction: Direction,
    ) {
        let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
        match direction {
            Direction::Read => self.used.read_bytes += bytes,
            Direction::Write => self.used.written_bytes += bytes,
        }
        if self.pace != DriveTiming::Real || bytes == 0 {
            if self.pace == DriveTiming::Aging && direction == Direction::Write {
                self.age(now, parts);
            }
            self.done.push_back(job);
            return;
        }
        let mut requests = 0;
        for part in parts {
            let sector = part.from / SECTOR_BYTES;
            let end = (part.from + part.bytes).div_ceil(SECTOR_BYTES);
            for from in (sector..end).step_by((REQUEST_BYTES / SECTOR_BYTES) as usize) {
                let sectors = (end - from).min(REQUEST_BYTES / SECTOR_BYTES) as u32;
                let id = self.next_id;
                self.next_id += 1;
                self.job_of.insert(id, job);
                let request = Request {
                    sector: from,
                    sectors,
                    direction,
                };
                self.waiting.push_back((RequestId(id), request));
                requests += 1;
            }
        }
        self.left.insert(job, requests);
        self.feed(now);
    }

    /// Applies consecutive writes in a separate time.
    pub(super) fn age(&mut self, now: Instant, parts: &[DriveRange]) {
        self.aged_until = self.aged_until.max(now);
        for part in parts {
            let request = Request {
                sector: part.from / SECTOR_BYTES,
                sectors: part.bytes.div_ceil(SECTOR_BYTES) as u32,
                direction: Direction::Write,
            };
            let id = RequestId(u64::MAX);
            if self
                .drive
                .handle_request(self.aged_until, id, request)
                .is_err()
            {
                continue;
            }
            while self.drive.poll_completion().is_none() {
                let Some(next) = self.drive.poll_timeout() else {
                    break;
                };
                self.aged_until = self.aged_until.max(next);
                self.drive.handle_timeout(self.aged_until);
            }
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.drive.poll_timeout()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.drive.handle_timeout(now);
        self.collect(now);
        self.feed(now);
    }

    /// The next completed job.
    pub(super) fn poll_done(&mut self) -> Option<u64> {
        self.done.pop_front()
    }

    /// Its work so far.
    pub(super) fn used(&self, now: Instant) -> DriveUse {
        let open = self.busy_since.map_or(Duration::ZERO, |at| now.since(at));
        let mut used = self.used;
        used.busy += open;
        used
    }

    fn feed(&mut self, now: Instant) {
        while let Some((id, request)) = self.waiting.front().copied() {
            if self.in_drive >= self.drive.queue_depth().max(1) {
                break;
            }
            self.waiting.pop_front();
            match self.drive.handle_request(now, id, request) {
                Ok(()) => {
                    self.in_drive += 1;
                    self.busy_since.get_or_insert(now);
                }
                // Segments and blocks are within their drives; anything else counts as done.
                Err(_) => self.end(id),
            }
            self.collect(now);
        }
    }

    fn collect(&mut self, now: Instant) {
        while let Some(done) = self.drive.poll_completion() {
            self.in_drive -= 1;
            self.end(done.id);
        }
        if let Some(since) = self.busy_since.filter(|_| self.in_drive == 0) {
            self.used.busy += now.since(since);
            self.busy_since = None;
        }
    }

    fn end(&mut self, id: RequestId) {
        let Some(job) = self.job_of.remove(&id.0) else {
            return;
        };
        let left = self.left.entry(job).or_insert(1);
        *left -= 1;
        if *left == 0 {
            self.left.remove(&job);
            self.done.push_back(job);
        }
    }
}
