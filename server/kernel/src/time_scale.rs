//! Time scale: how much faster than wall time the server's clocks run.
//!
//! An experiment on an emulated drive runs `k` times faster if the drive, the viewers, and all
//! measurements and timeouts of the server do. Durations in the server are model time; only this
//! module converts them to wall time and back.

use std::time::Duration as Wall;

use headlong_units::Duration;

/// Seconds of model time per second of wall time; 1 except in experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeScale(u32);

impl TimeScale {
    /// Model time equals wall time.
    pub const ONE: Self = Self(1);

    /// A scale of `scale`; 0 is treated as 1.
    pub const fn new(scale: u32) -> Self {
        Self(if scale == 0 { 1 } else { scale })
    }

    /// Wall time for `model`.
    pub const fn wall(self, model: Duration) -> Wall {
        Wall::from_nanos(model.0 / self.0 as u64)
    }

    /// Model time for `wall`.
    pub fn model(self, wall: Wall) -> Duration {
        let nanoseconds = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        Duration(nanoseconds.saturating_mul(u64::from(self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_clock_waits_less_and_counts_more() {
        let scale = TimeScale::new(5);
        assert_eq!(scale.wall(Duration::from_secs(10)), Wall::from_secs(2));
        assert_eq!(scale.model(Wall::from_secs(2)), Duration::from_secs(10));
    }

    #[test]
    fn default_scale_changes_nothing() {
        for scale in [TimeScale::ONE, TimeScale::new(0)] {
            assert_eq!(scale.wall(Duration(7)), Wall::from_nanos(7));
            assert_eq!(scale.model(Wall::from_nanos(7)), Duration(7));
        }
        assert_eq!(TimeScale::new(9).model(Wall::MAX), Duration::MAX);
    }
}
