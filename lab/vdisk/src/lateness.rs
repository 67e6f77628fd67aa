//! How late answers were, in wall time: what the machine, and not the drive, did to those who waited.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest lateness told apart from longer ones: a minute.
const LATENESS_NS_MAX: u64 = 60_000_000_000;

/// How long after their time answers were given, in wall time, handing over included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Lateness {
    /// How long answers have been looked at.
    pub elapsed_ns: u64,
    /// Answers looked at.
    pub count: u64,
    /// Half of them were less late than this.
    pub p50_ns: u64,
    /// 99 of 100 were less late than this.
    pub p99_ns: u64,
    /// The latest.
    pub max_ns: u64,
    /// The earliest, before its time.
    pub early_max_ns: u64,
    /// Sum over all answers of how late they were.
    pub late_ns: u64,
    /// Sum over all answers of the time from their requests' arrival, lateness included.
    pub response_ns: u64,
}

/// Lateness as it is counted.
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

    /// An answer to a request that came at one time, due at another, and given at a third.
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
    fn lateness_and_waiting_add_up_and_what_is_early_is_not_late() {
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
