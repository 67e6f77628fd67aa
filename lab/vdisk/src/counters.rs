//! Counters of the disk's activity, in model time, and the lateness of its answers, in wall time.

use std::time::Instant as WallInstant;

use headlong_drive::{Direction, ServiceTimeBreakdown};
use headlong_units::{Duration, Instant};
use serde::Serialize;

use crate::lateness::{Lateness, LatenessTally};
use crate::trace::TraceRecord;

/// Counters of the requests in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct DirectionCounters {
    /// Successful requests.
    pub requests: u64,
    /// Bytes they carried.
    pub bytes: u64,
    /// Requests that needed a reposition.
    pub seeks: u64,
    /// Sum of their service times, without queueing.
    pub service_ns: u64,
    /// Mean service time of a request.
    pub service_mean_ns: u64,
    /// Sum of their times from arrival to completion.
    pub response_ns: u64,
}

/// Breakdown of service times, summed over all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ServiceTimeCounters {
    /// Command processing and the interface.
    pub overhead_ns: u64,
    /// Moving the arm, settling, switching heads.
    pub seek_ns: u64,
    /// Rotational latency.
    pub rotation_ns: u64,
    /// Transfer.
    pub transfer_ns: u64,
    /// Garbage collection, or emptying a full write cache.
    pub cleaning_ns: u64,
}

/// Counters since the last reset. Times are model time unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Counters {
    /// Whether the timing is on.
    pub is_timed: bool,
    /// Model time per wall time.
    pub time_scale: f64,
    /// Time since the last reset.
    pub elapsed_ns: u64,
    /// Time with at least one request outstanding.
    pub busy_ns: u64,
    /// Reads.
    pub reads: DirectionCounters,
    /// Writes.
    pub writes: DirectionCounters,
    /// Requests answered with an error.
    pub errors: u64,
    /// Requests answered at once, because the timing was off; included in the sums above.
    pub untimed: u64,
    /// Breakdown of the service time.
    pub parts: ServiceTimeCounters,
    /// Mean number of outstanding requests over the elapsed time.
    pub outstanding_mean: f64,
    /// Most outstanding requests, including those beyond the drive's own queue.
    pub outstanding_max: usize,
    /// Requests left out of a full trace in memory.
    pub untraced: u64,
    /// Lateness of answers.
    pub lateness: Lateness,
}

/// Raw counters.
#[derive(Debug)]
pub(crate) struct CounterTally {
    since: Instant,
    sums: Counters,
    changed: Instant,
    outstanding: usize,
    /// Integral of the outstanding requests, in nanoseconds.
    outstanding_ns: u128,
    lateness: LatenessTally,
}

impl CounterTally {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            since: now,
            sums: Counters::default(),
            changed: now,
            outstanding: 0,
            outstanding_ns: 0,
            lateness: LatenessTally::new(WallInstant::now()),
        }
    }

    /// Resets all sums; outstanding requests remain counted.
    pub(crate) fn reset(&mut self, now: Instant) {
        let outstanding = self.outstanding;
        *self = Self::new(now);
        self.outstanding = outstanding;
        self.sums.outstanding_max = outstanding;
    }

    fn pass(&mut self, now: Instant) {
        let length = now.since(self.changed).0;
        self.changed = self.changed.max(now);
        if self.outstanding > 0 {
            self.sums.busy_ns += length;
            self.outstanding_ns += u128::from(length) * self.outstanding as u128;
        }
    }

    pub(crate) fn handle_arrival(&mut self, now: Instant) {
        self.pass(now);
        self.outstanding += 1;
        self.sums.outstanding_max = self.sums.outstanding_max.max(self.outstanding);
    }

    /// A request leaves, answered or not.
    pub(crate) fn handle_departure(&mut self, now: Instant) {
        self.pass(now);
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    pub(crate) fn add(&mut self, record: &TraceRecord, is_timed: bool) {
        if record.is_failed {
            self.sums.errors += 1;
            return;
        }
        let service = service(&record.parts).0;
        let side = match record.direction {
            Direction::Read => &mut self.sums.reads,
            Direction::Write => &mut self.sums.writes,
        };
        side.requests += 1;
        side.bytes += record.length;
        side.service_ns += service;
        side.response_ns += record.ended.since(record.arrived).0;
        if !is_timed {
            self.sums.untimed += 1;
            return;
        }
        side.seeks += u64::from(!record.is_sequential);
        let parts = &mut self.sums.parts;
        parts.overhead_ns += record.parts.overhead.0;
        parts.seek_ns += record.parts.seek.0;
        parts.rotation_ns += record.parts.rotation.0;
        parts.transfer_ns += record.parts.transfer.0;
        parts.cleaning_ns += record.parts.cleaning.0;
    }

    pub(crate) fn add_untraced(&mut self) {
        self.sums.untraced += 1;
    }

    /// Adds an answer, with the arrival of the request, the due time, and the actual time.
    pub(crate) fn add_answer(&mut self, came: WallInstant, due: WallInstant, given: WallInstant) {
        self.lateness.add(came, due, given);
    }

    /// Resets the lateness; the sums continue.
    pub(crate) fn reset_lateness(&mut self) {
        self.lateness = LatenessTally::new(WallInstant::now());
    }

    pub(crate) fn counters(&mut self, now: Instant, is_timed: bool, time_scale: f64) -> Counters {
        self.pass(now);
        let elapsed_ns = now.since(self.since).0;
        let with_mean = |side: DirectionCounters| DirectionCounters {
            service_mean_ns: side.service_ns.checked_div(side.requests).unwrap_or(0),
            ..side
        };
        Counters {
            is_timed,
            time_scale,
            elapsed_ns,
            reads: with_mean(self.sums.reads),
            writes: with_mean(self.sums.writes),
            outstanding_mean: self.outstanding_ns as f64 / elapsed_ns.max(1) as f64,
            lateness: self.lateness.lateness(WallInstant::now()),
            ..self.sums
        }
    }
}

/// Service time of a request.
pub fn service(parts: &ServiceTimeBreakdown) -> Duration {
    let mut sum = Duration::ZERO;
    for part in [
        parts.overhead,
        parts.seek,
        parts.rotation,
        parts.transfer,
        parts.cleaning,
    ] {
        sum += part;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_counts_overlapping_requests_once() {
        let mut tally = CounterTally::new(Instant(0));
        tally.handle_arrival(Instant(10));
        tally.handle_arrival(Instant(20));
        tally.handle_departure(Instant(30));
        tally.handle_departure(Instant(50));
        let counters = tally.counters(Instant(100), true, 1.0);
        assert_eq!(counters.busy_ns, 40);
        assert_eq!(counters.outstanding_max, 2);
        assert!((counters.outstanding_mean - 0.5).abs() < 1e-9);
    }

    #[test]
    fn reset_keeps_outstanding_requests() {
        let mut tally = CounterTally::new(Instant(0));
        tally.handle_arrival(Instant(10));
        tally.reset(Instant(50));
        tally.handle_departure(Instant(60));
        let counters = tally.counters(Instant(70), true, 1.0);
        assert_eq!((counters.busy_ns, counters.elapsed_ns), (10, 20));
    }
}
