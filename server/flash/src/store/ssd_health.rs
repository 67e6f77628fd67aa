//! Health of an SSD, separately for reads and writes.
//!
//! An SSD that fails, or is slower than a disk, is worse than none. It is bypassed and probed in
//! the background: soon at first, because most failures are short, and later after each failed
//! probe. Only an SSD that fails again soon after its return is bypassed for longer; the length of
//! the previous failure does not matter. An SSD that no longer accepts writes, as worn-out SSDs do,
//! is still read. So is one with bad blocks, as long as most reads succeed: an error is returned at
//! once, the record is removed, and the disk has the data.

use headlong_units::{Duration, Instant};

/// Number of consecutive failures after which the SSD is distrusted.
const FAILURES_MAX: u32 = 3;
/// Weight of a read error, in successful reads, and the weight of uncompensated errors at which the
/// SSD is distrusted. Twelve consecutive errors suffice; an error rate of one tenth never does.
const ERROR_WEIGHT: u32 = 2;
const ERRORS_MAX: u32 = 24;
/// Time before the first probe, and its upper limit after repeated failures.
const REST: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// Upper limit of the time between two probes of a failing SSD. A probe is a read and a small
/// write.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// A failure within this multiple of the previous rest counts as a relapse, and the rest grows.
const RELAPSE: u64 = 10;

/// Reason of distrust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SsdFault {
    /// Too slow, or unresponsive.
    Slow,
    /// Returns errors.
    Failed,
}

/// Health of an SSD's reads, or of its writes.
#[derive(Debug, Default)]
pub(crate) struct SsdHealth {
    failures: u32,
    errors: u32,
    /// Reason of distrust, and when the next probe is due.
    out: Option<(SsdFault, Instant)>,
    /// Time before the first probe after the last failure.
    rest: Duration,
    /// Time before the next probe.
    pause: Duration,
    back_at: Instant,
}

impl SsdHealth {
    pub(crate) fn is_trusted(&self) -> bool {
        self.out.is_none()
    }

    /// The reason of distrust, if any.
    pub(crate) fn fault(&self) -> Option<SsdFault> {
        self.out.map(|(fault, _)| fault)
    }

    /// When a probe is due.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        self.out.map(|(_, at)| at)
    }

    /// An operation succeeded.
    pub(crate) fn succeed(&mut self) {
        self.failures = 0;
        self.errors = self.errors.saturating_sub(1);
    }

    /// A read returned an error. Returns whether that causes distrust.
    pub(crate) fn err(&mut self, now: Instant) -> bool {
        self.errors += ERROR_WEIGHT;
        self.errors >= ERRORS_MAX && self.distrust(now, SsdFault::Failed)
    }

    /// An operation failed. Returns whether that causes distrust.
    pub(crate) fn fail(&mut self, now: Instant, fault: SsdFault) -> bool {
        self.failures += 1;
        self.failures >= FAILURES_MAX && self.distrust(now, fault)
    }

    /// Distrusts the SSD from now on. Returns whether it was trusted before.
    pub(crate) fn distrust(&mut self, now: Instant, fault: SsdFault) -> bool {
        if self.out.is_some() {
            return false;
        }
        let is_relapse = now < self.back_at + self.rest.times(RELAPSE);
        self.rest = match is_relapse {
            true => self.rest.times(2).min(REST.1),
            false => REST.0,
        };
        self.pause = self.rest;
        self.out = Some((fault, now + self.rest));
        true
    }

    /// A probe has completed, with a fault or without.
    pub(crate) fn judge(&mut self, now: Instant, fault: Option<SsdFault>) {
        match fault {
            None if self.out.is_none() => {}
            None => {
                self.out = None;
                (self.failures, self.errors) = (0, 0);
                self.back_at = now;
            }
            Some(fault) if self.out.is_some() => {
                self.pause = self.pause.times(2).min(PAUSE_MAX.max(self.rest));
                self.out = Some((fault, now + self.pause));
            }
            Some(fault) => {
                self.distrust(now, fault);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn three_consecutive_failures_cause_distrust() {
        let mut trust = SsdHealth::default();
        assert!(!trust.fail(at(0), SsdFault::Failed) && !trust.fail(at(1), SsdFault::Failed));
        trust.succeed();
        assert!(!trust.fail(at(2), SsdFault::Failed) && !trust.fail(at(3), SsdFault::Failed));
        assert!(trust.fail(at(4), SsdFault::Slow), "the third in a row");
        assert_eq!(trust.fault(), Some(SsdFault::Slow));
        assert!(!trust.fail(at(5), SsdFault::Slow), "already distrusted");
    }

    #[test]
    fn tolerates_a_tenth_of_errors_but_not_only_errors() {
        let mut trust = SsdHealth::default();
        for read in 0..100_000_u64 {
            // Neighbouring reads fail together.
            match read / 6 % 10 {
                0 => assert!(!trust.err(at(read))),
                _ => trust.succeed(),
            }
        }
        let errors = (0..20).position(|read| trust.err(at(200_000 + read)));
        assert_eq!((errors, trust.fault()), (Some(11), Some(SsdFault::Failed)));
    }

    #[test]
    fn probe_interval_grows_with_failure_and_relapse() {
        let mut trust = SsdHealth::default();
        trust.distrust(at(0), SsdFault::Failed);
        let mut probes = Vec::new();
        for _ in 0..8 {
            let now = trust.probe_at().expect("out");
            probes.push(now.0 / 1_000_000);
            trust.judge(now, Some(SsdFault::Failed));
        }
        let doubled = [500, 1500, 3500, 7500, 15_500, 25_500, 35_500, 45_500];
        assert_eq!(probes, doubled, "at most ten seconds apart");
        trust.judge(at(50_000), None);
        assert!(trust.is_trusted());
        trust.distrust(at(56_000), SsdFault::Slow);
        assert_eq!(
            trust.probe_at(),
            Some(at(56_500)),
            "the length of the failure does not matter"
        );
        trust.judge(at(56_500), None);
        trust.distrust(at(58_000), SsdFault::Slow);
        assert_eq!(trust.probe_at(), Some(at(59_000)), "a relapse");
        let mut now = at(59_000);
        for _ in 0..20 {
            trust.judge(now, None);
            trust.distrust(now, SsdFault::Slow);
            let next = trust.probe_at().expect("out");
            assert!(next.since(now) <= REST.1);
            now = next;
        }
        assert_eq!(
            trust.probe_at().map(|at| at.since(now)),
            Some(Duration::ZERO)
        );
        trust.judge(now, None);
        let later = now + REST.1.times(RELAPSE);
        trust.distrust(later, SsdFault::Slow);
        let first = later + REST.0;
        assert_eq!(trust.probe_at(), Some(first), "healthy for long enough");
    }

    /// Three seconds in each twenty: a cheap SSD during garbage collection.
    #[test]
    fn short_stalls_cause_little_additional_downtime() {
        let mut trust = SsdHealth::default();
        let mut away = 0;
        for millis in 0..600_000_u64 {
            let is_ill = millis % 20_000 < 3_000;
            match trust.probe_at() {
                None if is_ill && millis % 20_000 == 1_000 => {
                    trust.distrust(at(millis), SsdFault::Slow);
                }
                // The probe completes when the SSD responds again, and took long.
                Some(due) if due <= at(millis) && !is_ill => {
                    let was_slow = due.0 / 1_000_000 % 20_000 < 3_000;
                    trust.judge(at(millis), was_slow.then_some(SsdFault::Slow));
                }
                _ => {}
            }
            away += u64::from(!trust.is_trusted());
        }
        let share = away * 100 / 600_000;
        assert!(
            share <= 20,
            "distrusted {share} % of the time, failing 15 %"
        );
    }
}
