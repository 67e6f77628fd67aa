//! State shared by the actuator's threads, and all decisions made under its lock.

use std::sync::mpsc::Sender;
use std::time::Instant as WallInstant;

use headlong_drive::ServiceTimeBreakdown;
use headlong_units::Instant;

use super::pending_request::PendingRequest;
use crate::clock::Clock;
use crate::counters::CounterTally;
use crate::fault::ActiveFaults;
use crate::queue::{DriveQueue, DriveTimes, FinishedRequest};
use crate::trace::TraceRecord;

/// Limit on records kept in memory (120 MB); later requests are only counted.
const RECORDS_MAX: usize = 1 << 20;

/// Treatment of an arriving request.
pub(super) enum Disposition {
    Fail,
    AtOnce,
    ToDrive,
}

pub(super) struct ActuatorState {
    pub(super) is_closed: bool,
    pub(super) is_timed: bool,
    pub(super) queue: DriveQueue<PendingRequest>,
    pub(super) faults: ActiveFaults,
    pub(super) tally: CounterTally,
    /// Records kept in memory, if enabled.
    pub(super) records: Option<Vec<TraceRecord>>,
    pub(super) trace: Option<Sender<TraceRecord>>,
    /// End of the arm's sleep; `None` while it is awake.
    pub(super) asleep_until: Option<WallInstant>,
}

impl ActuatorState {
    pub(super) fn way_of(&mut self, job: &PendingRequest) -> Disposition {
        if self.must_fail() {
            return Disposition::Fail;
        }
        if self.is_timed || self.faults.is_hung() {
            return Disposition::ToDrive;
        }
        let length = u64::from(job.length);
        if self.faults.strikes(job.offset, length, job.direction()) {
            return Disposition::Fail;
        }
        Disposition::AtOnce
    }

    pub(super) fn must_fail(&self) -> bool {
        self.is_closed || self.faults.is_gone()
    }

    /// Whether writes fail.
    pub(super) fn must_refuse(&self) -> bool {
        self.must_fail() || self.faults.is_read_only()
    }

    /// Whether the arm would sleep past the next event.
    pub(super) fn must_wake(&self, clock: &Clock) -> bool {
        let Some(until) = self.asleep_until else {
            return false;
        };
        let timeout = self.queue.poll_timeout().filter(|_| self.is_timed);
        self.queue.has_outcome() || timeout.is_some_and(|at| clock.wall(at) < until)
    }

    /// Ends a hang whose time is over.
    pub(super) fn handle_wall(&mut self, wall: WallInstant, clock: &Clock) {
        if let Some(end) = self.faults.hang_end().filter(|end| *end <= wall) {
            self.release(clock.model(end));
        }
    }

    pub(super) fn release(&mut self, now: Instant) {
        self.faults.release();
        self.queue.change_pace(now, self.queue.pace_factor(), false);
    }

    /// Removes all requests that must be answered without the drive, and whether each fails: all
    /// requests once the disk has vanished or closed; those held by a hang that ended while the
    /// timing is off.
    pub(super) fn released(&mut self, now: Instant) -> Vec<(PendingRequest, bool)> {
        let must_fail = self.must_fail();
        if !must_fail && (self.is_timed || self.faults.is_hung()) {
            return Vec::new();
        }
        let mut jobs = self.queue.release();
        while must_fail && let Some(outcome) = self.queue.poll_outcome() {
            let (FinishedRequest::Done(job, _) | FinishedRequest::Refused(job)) = outcome;
            jobs.push(job);
        }
        let judge = |job: PendingRequest| {
            let (offset, length) = (job.offset, u64::from(job.length));
            let is_failed = must_fail || self.faults.strikes(offset, length, job.direction());
            self.note_untimed(&job, now, is_failed);
            (job, is_failed)
        };
        jobs.into_iter().map(judge).collect()
    }

    /// Records a request answered without the drive.
    pub(super) fn note_untimed(&mut self, job: &PendingRequest, now: Instant, is_failed: bool) {
        let times = DriveTimes {
            started: now,
            ended: now,
            parts: ServiceTimeBreakdown::default(),
            is_sequential: false,
        };
        self.tally.handle_departure(now);
        self.note(&job.record(&times, now, is_failed), false);
    }

    pub(super) fn note(&mut self, record: &TraceRecord, is_timed: bool) {
        self.tally.add(record, is_timed);
        if let Some(trace) = &self.trace
            && trace.send(*record).is_err()
        {
            self.trace = None;
        }
        match &mut self.records {
            Some(records) if records.len() < RECORDS_MAX => records.push(*record),
            Some(_) => self.tally.add_untraced(),
            None => {}
        }
    }
}
