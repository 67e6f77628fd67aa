//! Lateness of answers, in wall time: delays caused by the machine rather than the drive.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest lateness distinguished from longer ones: a minute.
const LATENESS_NS_MAX: u64 = 60_000_000_000;

/// Delay of answers after their due time, in wall time, including the transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Lateness {
    /// Time since the last reset.
    pub elapsed_ns: u64,
    /// Number of answers.
    pub count: u64,
    /// Median lateness.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Longest time by which an answer was early.
    pub early_max_ns: u64,
    /// Sum of the lateness of all answers.
    pub late_ns: u64,
    /// Sum of the times from arrival to answer, including lateness.
    pub response_ns: u64,
}

/// Raw measurements of lateness.
#[derive(Debug)]
pub(crate) struct LatenessTally {
    since: Instant,
    late_ns: Histogram<u32>,
    early_max: Duration,
    late: Duration,
    response: Duration,
}

impl LatenessTally {
    pub(crate) fn new(now: Instant) -> Self {
        let late_ns = Histogram::new_with_bounds(1, LATENESS_NS_MAX, 2);
        Self {
            since: now,
            late_ns: late_ns.expect("constant bounds in order"),
            early_max: Duration::ZERO,
            late: Duration::ZERO,
            response: Duration::ZERO,
        }
    }

    /// Adds an answer, with the arrival of the request, the due time, and the actual time.
    pub(crate) fn add(&mut self, came: Instant, due: Instant, given: Instant) {
        let late = given.saturating_duration_since(due);
        self.late_ns.saturating_record(late.as_nanos() as u64);
        self.late += late;
        self.response += given.saturating_duration_since(came);
        self.early_max = self.early_max.max(due.saturating_duration_since(given));
    }

    pub(crate) fn lateness(&self, now: Instant) -> Lateness {
        Lateness {
            elapsed_ns: now.saturating_duration_since(self.since).as_nanos() as u64,
            count: self.late_ns.len(),
            p50_ns: self.late_ns.value_at_quantile(0.5),
            p99_ns: self.late_ns.value_at_quantile(0.99),
            max_ns: self.late_ns.max(),
            early_max_ns: self.early_max.as_nanos() as u64,
            late_ns: self.late.as_nanos() as u64,
            response_ns: self.response.as_nanos() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_answers_do_not_reduce_lateness() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut tally = LatenessTally::new(start);
        tally.add(at(0), at(10), at(14));
        tally.add(at(2), at(12), at(17));
        tally.add(at(20), at(30), at(29));
        let late = tally.lateness(at(50));
        assert_eq!((late.count, late.elapsed_ns), (3, 50_000_000));
        assert_eq!((late.late_ns, late.response_ns), (9_000_000, 38_000_000));
        assert_eq!(late.early_max_ns, 1_000_000);
    }
}
