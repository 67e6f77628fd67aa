//! The drive of a world, with its queue of submitted requests and their completions.
//!
//! The layer above chooses the requests and their order. Requests enter the drive in that order as
//! soon as it has room; completions are reported after the turnaround time.

use core::ops::AddAssign;
use std::collections::VecDeque;

use headlong_drive::{
    Direction, Drive, Refusal, Request, RequestId, SECTOR_BYTES, ServiceTimeBreakdown,
};
use headlong_stats::{Access, Sequences};
use headlong_units::{Duration, Instant};

/// Requests that an excerpt of the drive's work shows: as many as libception Figures 2 to 5.
const EXCERPT_REQUESTS: usize = 250;

/// Time and activity of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DriveUse {
    /// Completed block requests.
    pub requests: u64,
    /// Requests that needed a reposition.
    pub repositions: u64,
    /// Bytes of all requests.
    pub bytes: u64,
    /// Time with at least one request in the drive.
    pub busy: Duration,
    /// Where their time went.
    pub parts: ServiceTimeBreakdown,
}

/// Reads of the drive since the measured window opened.
#[derive(Debug, Clone, Default)]
pub struct AccessPattern {
    /// Sequences of adjacent requests.
    pub sequences: Sequences,
    /// First sector and number of sectors of the latest requests, oldest first.
    pub excerpt: VecDeque<(u64, u64)>,
}

impl AccessPattern {
    fn add(&mut self, request: &Request) {
        self.sequences.add(Access {
            start_bytes: request.sector * SECTOR_BYTES,
            length_bytes: u64::from(request.sectors) * SECTOR_BYTES,
            is_write: request.direction == Direction::Write,
        });
        if self.excerpt.len() == EXCERPT_REQUESTS {
            self.excerpt.pop_front();
        }
        let place = (request.sector, u64::from(request.sectors));
        self.excerpt.push_back(place);
    }
}

/// A drive with the requests that wait for room in its queue.
#[derive(Debug)]
pub(crate) struct QueuedDrive {
    drive: Box<dyn Drive>,
    /// Most requests in the drive.
    depth: usize,
    turnaround: Duration,
    /// Submitted and not yet in the drive's queue.
    waiting: VecDeque<(RequestId, Request)>,
    in_drive: usize,
    busy_since: Option<Instant>,
    /// Completed requests, with the time at which each is reported.
    ended: VecDeque<(Instant, RequestId)>,
    used: DriveUse,
    pattern: AccessPattern,
}

impl QueuedDrive {
    /// Completions are reported `turnaround` after they happen. `depth` limits the use of the
    /// drive's own queue.
    pub(crate) fn new(drive: Box<dyn Drive>, depth: Option<usize>, turnaround: Duration) -> Self {
        let own = drive.queue_depth().max(1);
        Self {
            depth: depth.map_or(own, |depth| depth.clamp(1, own)),
            drive,
            turnaround,
            waiting: VecDeque::new(),
            in_drive: 0,
            busy_since: None,
            ended: VecDeque::new(),
            used: DriveUse::default(),
            pattern: AccessPattern::default(),
        }
    }

    pub(crate) fn used(&self) -> DriveUse {
        self.used
    }

    pub(crate) fn pattern(&self) -> &AccessPattern {
        &self.pattern
    }

    /// Requests in the drive's queue and waiting for it.
    pub(crate) fn outstanding(&self) -> usize {
        self.in_drive + self.waiting.len()
    }

    /// Restarts the recording of the pattern.
    pub(crate) fn begin_pattern(&mut self) {
        self.pattern = AccessPattern::default();
    }

    pub(crate) fn submit(&mut self, now: Instant, id: RequestId, request: Request) {
        self.waiting.push_back((id, request));
        self.feed(now);
    }

    /// Drops all requests that have not reached the drive.
    pub(crate) fn forget_waiting(&mut self) {
        self.waiting.clear();
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.drive.poll_timeout().is_some_and(|at| at <= now) {
            self.drive.handle_timeout(now);
            self.collect(now);
            self.feed(now);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let told = self.ended.front().map(|(at, _)| *at);
        [self.drive.poll_timeout(), told]
            .into_iter()
            .flatten()
            .min()
    }

    /// The next request whose completion has been reported by `now`.
    pub(crate) fn poll_done(&mut self, now: Instant) -> Option<RequestId> {
        let (at, id) = *self.ended.front()?;
        (at <= now).then(|| {
            self.ended.pop_front();
            id
        })
    }

    fn feed(&mut self, now: Instant) {
        while self.in_drive < self.depth
            && let Some((id, request)) = self.waiting.pop_front()
        {
            match self.drive.handle_request(now, id, request) {
                Ok(()) => {
                    self.in_drive += 1;
                    self.busy_since.get_or_insert(now);
                }
                Err(Refusal::QueueFull) => {
                    self.waiting.push_front((id, request));
                    return self.collect(now);
                }
                // The catalogue was checked against the capacity before the run.
                Err(Refusal::OutOfRange) => self.ended.push_back((now, id)),
            }
            self.collect(now);
        }
    }

    fn collect(&mut self, now: Instant) {
        while let Some(completion) = self.drive.poll_completion() {
            self.in_drive -= 1;
            self.used += DriveUse {
                requests: 1,
                repositions: u64::from(!completion.is_sequential),
                bytes: u64::from(completion.request.sectors) * SECTOR_BYTES,
                busy: Duration::ZERO,
                parts: completion.parts,
            };
            self.pattern.add(&completion.request);
            self.ended.push_back((now + self.turnaround, completion.id));
        }
        self.count_busy(now);
    }

    /// Adds the busy time since the last call.
    fn count_busy(&mut self, now: Instant) {
        if let Some(since) = self.busy_since {
            self.used.busy += now.since(since);
            self.busy_since = (self.in_drive > 0).then_some(now);
        }
    }
}

impl DriveUse {
    /// Combines each counter with that of another.
    fn zip(&self, other: &Self, with: fn(u64, u64) -> u64) -> Self {
        let (own, more) = (&self.parts, &other.parts);
        let time = |own: Duration, more: Duration| Duration(with(own.0, more.0));
        Self {
            requests: with(self.requests, other.requests),
            repositions: with(self.repositions, other.repositions),
            bytes: with(self.bytes, other.bytes),
            busy: time(self.busy, other.busy),
            parts: ServiceTimeBreakdown {
                overhead: time(own.overhead, more.overhead),
                seek: time(own.seek, more.seek),
                rotation: time(own.rotation, more.rotation),
                transfer: time(own.transfer, more.transfer),
                cleaning: time(own.cleaning, more.cleaning),
            },
        }
    }

    /// Difference to an earlier snapshot.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        self.zip(earlier, |now, then| now - then)
    }
}

impl AddAssign for DriveUse {
    /// Sum of two drives.
    fn add_assign(&mut self, other: Self) {
        *self = self.zip(&other, |one, other| one + other);
    }
}
