//! Gradual change of a size.
//!
//! A viewer's next prefetch comes one prefetch later (automated-prefetching 4.2). If all sizes
//! changed at once, all viewers would need more within the old, short interval, or return early
//! together with those that were due; a gradual change avoids both.

use headlong_units::{Duration, Instant};

/// The size in use over time: a straight line, then the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ramp {
    from: u64,
    to: u64,
    began: Instant,
    takes: Duration,
}

impl Ramp {
    /// A constant size.
    pub(crate) fn at(bytes: u64) -> Self {
        Self {
            from: bytes,
            to: bytes,
            began: Instant::ZERO,
            takes: Duration::ZERO,
        }
    }

    /// Begins a change from the size in use to `to`, which takes `takes`.
    pub(crate) fn turn(&mut self, now: Instant, to: u64, takes: Duration) {
        *self = Self {
            from: self.bytes(now),
            to,
            began: now,
            takes,
        };
    }

    /// The size in use.
    pub(crate) fn bytes(&self, now: Instant) -> u64 {
        let passed = now.since(self.began);
        if passed >= self.takes {
            return self.to;
        }
        let distance = u128::from(self.to.abs_diff(self.from));
        let part = (distance * u128::from(passed.0) / u128::from(self.takes.0)) as u64;
        if self.to > self.from {
            self.from + part
        } else {
            self.from - part
        }
    }

    /// The size after the change.
    pub(crate) fn target(&self) -> u64 {
        self.to
    }

    /// Whether the change is complete.
    pub(crate) fn is_settled(&self, now: Instant) -> bool {
        self.bytes(now) == self.to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(second)
    }

    #[test]
    fn change_is_spread_evenly_over_its_time() {
        let mut ramp = Ramp::at(1_000);
        ramp.turn(at(10), 2_000, Duration::from_secs(60));
        assert_eq!(ramp.bytes(at(10)), 1_000);
        assert_eq!(ramp.bytes(at(40)), 1_500);
        assert!(!ramp.is_settled(at(69)));
        assert_eq!(ramp.bytes(at(70)), 2_000);
        assert!(ramp.is_settled(at(70)));
    }

    #[test]
    fn new_target_continues_from_size_in_use() {
        let mut ramp = Ramp::at(1_000);
        ramp.turn(at(0), 2_000, Duration::from_secs(60));
        ramp.turn(at(30), 500, Duration::from_secs(60));
        assert_eq!(ramp.bytes(at(30)), 1_500);
        assert_eq!(ramp.bytes(at(90)), 500);
    }

    proptest! {
        #[test]
        fn size_stays_between_both_ends(
            from in 0..u64::MAX, to in 0..u64::MAX, takes in 0u64..200, seconds in 0u64..400,
        ) {
            let mut ramp = Ramp::at(from);
            ramp.turn(at(0), to, Duration::from_secs(takes));
            let bytes = ramp.bytes(at(seconds));
            prop_assert!((from.min(to)..=from.max(to)).contains(&bytes));
        }
    }
}
