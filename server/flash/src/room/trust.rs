//! Whether an SSD is relied on, for reads and for writes apart.
//!
//! The one idea: an SSD that fails, or takes longer than a disk would, is worse than none. It is
//! passed over then, and tried by a probe that no viewer waits for: soon, for most are ill for
//! moments, and later after each probe that does not end well. How long it was ill says nothing of
//! the next time; only one that fails again soon after it came back is left alone for longer. One
//! that takes writes no more, as worn out SSDs do, is still read; so is one with
//! bad places, as long as most of what is read is there: an error comes at once, what lay there is
//! forgotten, and the disk has it.

use headlong_units::{Duration, Instant};

/// So many failures in a row, and it is not relied on.
const FAILURES_MAX: u32 = 3;
/// An error of a read weighs as much as so many reads that are right; with this weight of errors that
/// no right ones made up for, it is not relied on. Twelve in a row are enough, a tenth never is.
const ERROR_WEIGHT: u32 = 2;
const ERRORS_MAX: u32 = 24;
/// How long it is left alone before the first probe; and at most, if it fails again and again.
const REST: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// Most between two probes of one that stays ill. A probe is a read and a small write.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// An SSD that fails again within so many times the rest before is not well: the rests grow.
const RELAPSE: u64 = 10;

/// Why it is not relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It answers too late, or not at all.
    Slow,
    /// It gives errors.
    Failed,
}

/// Whether reads, or writes, are relied on.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    failures: u32,
    errors: u32,
    /// Why not, and when a probe is due.
    out: Option<(Fault, Instant)>,
    /// Before the first probe, this time.
    rest: Duration,
    /// Before the next one.
    pause: Duration,
    back_at: Instant,
}

impl Trust {
    pub(crate) fn is_trusted(&self) -> bool {
        self.out.is_none()
    }

    /// Why it is not relied on.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.out.map(|(fault, _)| fault)
    }

    /// When a probe is due.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        self.out.map(|(_, at)| at)
    }

    /// It did what it should.
    pub(crate) fn succeed(&mut self) {
        self.failures = 0;
        self.errors = self.errors.saturating_sub(1);
    }

    /// A read gave an error. Answers whether it is not relied on by this.
    pub(crate) fn err(&mut self, now: Instant) -> bool {
        self.errors += ERROR_WEIGHT;
        self.errors >= ERRORS_MAX && self.distrust(now, Fault::Failed)
    }

    /// It failed once. Answers whether it is not relied on by this.
    pub(crate) fn fail(&mut self, now: Instant, fault: Fault) -> bool {
        self.failures += 1;
        self.failures >= FAILURES_MAX && self.distrust(now, fault)
    }

    /// It is not relied on from now on. Answers whether it was before.
    pub(crate) fn distrust(&mut self, now: Instant, fault: Fault) -> bool {
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

    /// A probe ended: well, or with this fault.
    pub(crate) fn judge(&mut self, now: Instant, fault: Option<Fault>) {
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
    fn three_failures_in_a_row_count_and_a_success_between_starts_anew() {
        let mut trust = Trust::default();
        assert!(!trust.fail(at(0), Fault::Failed) && !trust.fail(at(1), Fault::Failed));
        trust.succeed();
        assert!(!trust.fail(at(2), Fault::Failed) && !trust.fail(at(3), Fault::Failed));
        assert!(trust.fail(at(4), Fault::Slow), "the third in a row");
        assert_eq!(trust.fault(), Some(Fault::Slow));
        assert!(!trust.fail(at(5), Fault::Slow), "it is out already");
    }

    #[test]
    fn a_tenth_of_errors_is_borne_and_errors_alone_are_not() {
        let mut trust = Trust::default();
        for read in 0..100_000_u64 {
            // Neighbours fail together.
            match read / 6 % 10 {
                0 => assert!(!trust.err(at(read))),
                _ => trust.succeed(),
            }
        }
        let errors = (0..20).position(|read| trust.err(at(200_000 + read)));
        assert_eq!((errors, trust.fault()), (Some(11), Some(Fault::Failed)));
    }

    #[test]
    fn probes_come_later_while_it_stays_ill_and_later_still_if_it_fails_again_soon() {
        let mut trust = Trust::default();
        trust.distrust(at(0), Fault::Failed);
        let mut probes = Vec::new();
        for _ in 0..8 {
            let now = trust.probe_at().expect("out");
            probes.push(now.0 / 1_000_000);
            trust.judge(now, Some(Fault::Failed));
        }
        let doubled = [500, 1500, 3500, 7500, 15_500, 25_500, 35_500, 45_500];
        assert_eq!(probes, doubled, "and ten seconds at most");
        trust.judge(at(50_000), None);
        assert!(trust.is_trusted());
        trust.distrust(at(56_000), Fault::Slow);
        assert_eq!(
            trust.probe_at(),
            Some(at(56_500)),
            "how long it was ill is over"
        );
        trust.judge(at(56_500), None);
        trust.distrust(at(58_000), Fault::Slow);
        assert_eq!(trust.probe_at(), Some(at(59_000)), "a relapse");
        let mut now = at(59_000);
        for _ in 0..20 {
            trust.judge(now, None);
            trust.distrust(now, Fault::Slow);
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
        trust.distrust(later, Fault::Slow);
        let first = later + REST.0;
        assert_eq!(trust.probe_at(), Some(first), "it was well for long");
    }

    /// Three seconds in each twenty: a cheap SSD that clears up.
    #[test]
    fn an_ssd_that_stands_still_now_and_then_is_away_for_little_longer_than_that() {
        let mut trust = Trust::default();
        let mut away = 0;
        for millis in 0..600_000_u64 {
            let is_ill = millis % 20_000 < 3_000;
            match trust.probe_at() {
                None if is_ill && millis % 20_000 == 1_000 => {
                    trust.distrust(at(millis), Fault::Slow);
                }
                // A probe ends when it is well again, and took long.
                Some(due) if due <= at(millis) && !is_ill => {
                    let was_slow = due.0 / 1_000_000 % 20_000 < 3_000;
                    trust.judge(at(millis), was_slow.then_some(Fault::Slow));
                }
                _ => {}
            }
            away += u64::from(!trust.is_trusted());
        }
        let share = away * 100 / 600_000;
        assert!(share <= 20, "{share} % of the time, and 15 % it is ill");
    }
}
