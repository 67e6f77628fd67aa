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
    /// Time during which at least one answer was overdue.
    pub overdue_ns: u64,
}

/// Lateness as it is counted. Answers are given one after the other.
#[derive(Debug)]
pub(crate) struct LatenessTally {
    since: Instant,
    late_ns: Histogram<u32>,
    early_max: Duration,
    overdue: Duration,
    /// When the last late answer had been given: the next is looked at from here on.
    overdue_until: Instant,
}

impl LatenessTally {
    pub(crate) fn new(now: Instant) -> Self {
        let late_ns = Histogram::new_with_bounds(1, LATENESS_NS_MAX, 2);
        Self {
            since: now,
            late_ns: late_ns.expect("constant bounds in order"),
            early_max: Duration::ZERO,
            overdue: Duration::ZERO,
            overdue_until: now,
        }
    }

    /// An answer that was due at one time and given at another.
    pub(crate) fn add(&mut self, due: Instant, given: Instant) {
        let late = given.saturating_duration_since(due);
        self.late_ns.saturating_record(late.as_nanos() as u64);
        self.early_max = self.early_max.max(due.saturating_duration_since(given));
        if !late.is_zero() {
            let from = self.overdue_until.max(due);
            self.overdue += given.saturating_duration_since(from);
            self.overdue_until = given;
        }
    }

    pub(crate) fn lateness(&self, now: Instant) -> Lateness {
        Lateness {
            elapsed_ns: now.saturating_duration_since(self.since).as_nanos() as u64,
            count: self.late_ns.len(),
            p50_ns: self.late_ns.value_at_quantile(0.5),
            p99_ns: self.late_ns.value_at_quantile(0.99),
            max_ns: self.late_ns.max(),
            early_max_ns: self.early_max.as_nanos() as u64,
            overdue_ns: self.overdue.as_nanos() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_two_answers_were_overdue_counts_once() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut tally = LatenessTally::new(start);
        tally.add(at(10), at(14));
        tally.add(at(12), at(17));
        tally.add(at(30), at(29));
        tally.add(at(40), at(41));
        let late = tally.lateness(at(50));
        assert_eq!((late.count, late.overdue_ns), (4, 8_000_000));
        assert_eq!(
            (late.elapsed_ns, late.early_max_ns),
            (50_000_000, 1_000_000)
        );
    }

    #[test]
    fn what_was_overdue_before_is_not_counted_again() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut tally = LatenessTally::new(at(100));
        tally.add(at(80), at(103));
        assert_eq!(tally.lateness(at(110)).overdue_ns, 3_000_000);
    }
}
