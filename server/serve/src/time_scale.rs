//! The server's own clocks, and how much faster than the machine's they may be made to run.
//!
//! The one idea: an experiment on an emulated drive can be played `k` times faster if everything
//! in it is: the drive, the viewers, and what the server measures and waits for. Durations inside
//! are model time; only here do they become time of this machine, and back.

use std::time::Duration as Wall;

use headlong_units::Duration;

/// How many seconds of model time pass in a second; 1 for everybody who is not experimenting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeScale(u32);

impl TimeScale {
    /// Model time is real time.
    pub const ONE: Self = Self(1);

    /// `scale` times faster; 0 is taken for 1.
    pub const fn new(scale: u32) -> Self {
        Self(if scale == 0 { 1 } else { scale })
    }

    /// How long this machine has to wait for `model` to pass.
    pub const fn wall(self, model: Duration) -> Wall {
        Wall::from_nanos(model.0 / self.0 as u64)
    }

    /// How much model time has passed in `wall`.
    pub fn model(self, wall: Wall) -> Duration {
        let nanoseconds = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        Duration(nanoseconds.saturating_mul(u64::from(self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaled_clock_waits_less_and_counts_more() {
        let scale = TimeScale::new(5);
        assert_eq!(scale.wall(Duration::from_secs(10)), Wall::from_secs(2));
        assert_eq!(scale.model(Wall::from_secs(2)), Duration::from_secs(10));
    }

    #[test]
    fn nothing_is_scaled_unless_asked_for() {
        for scale in [TimeScale::ONE, TimeScale::new(0)] {
            assert_eq!(scale.wall(Duration(7)), Wall::from_nanos(7));
            assert_eq!(scale.model(Wall::from_nanos(7)), Duration(7));
        }
        assert_eq!(TimeScale::new(9).model(Wall::MAX), Duration::MAX);
    }
}
