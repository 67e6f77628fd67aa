//! The run's clock: model time, which is wall time multiplied by the time scale.

use std::time::Instant as WallInstant;

use headlong_units::{Duration, Instant};

/// Speed-up of an experiment over wall time.
///
/// Arrivals, paces, timeouts and delays last `1 / k` of their values, bandwidths are multiplied by
/// `k`; measurements are converted back to model time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeScale(f64);

impl TimeScale {
    /// Real time.
    pub const ONE: Self = Self(1.0);
    /// With larger factors the generator is not precise.
    pub const MAX: f64 = 1000.0;

    /// `k`, from 0.01 to [`TimeScale::MAX`]; `None` outside.
    pub fn new(k: f64) -> Option<Self> {
        (0.01..=Self::MAX).contains(&k).then_some(Self(k))
    }

    /// The factor.
    pub const fn factor(self) -> f64 {
        self.0
    }

    /// Model time that passes in the wall time `wall`.
    pub fn model(self, wall: std::time::Duration) -> Duration {
        // 2^53 ns are 104 days: exact at k = 1.
        Duration((wall.as_nanos() as f64 * self.0) as u64)
    }

    /// Wall time that corresponds to `model`.
    pub fn wall(self, model: Duration) -> std::time::Duration {
        std::time::Duration::from_nanos((model.0 as f64 / self.0) as u64)
    }
}

/// Model time since the start of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: WallInstant,
    scale: TimeScale,
}

impl Clock {
    /// Starts at zero.
    pub(crate) fn start(scale: TimeScale) -> Self {
        Self {
            origin: WallInstant::now(),
            scale,
        }
    }

    /// Current model time.
    pub(crate) fn now(&self) -> Instant {
        Instant(self.scale.model(self.origin.elapsed()).0)
    }

    /// Wall time from `now` until `at`.
    pub(crate) fn wall_until(&self, now: Instant, at: Instant) -> std::time::Duration {
        self.scale.wall(at.since(now))
    }

    /// Wall time since the start of the run.
    pub(crate) fn wall(&self) -> std::time::Duration {
        self.origin.elapsed()
    }

    /// The time scale.
    pub(crate) const fn scale(&self) -> TimeScale {
        self.scale
    }
}

/// CPU time of this thread.
pub(crate) fn thread_cpu() -> std::time::Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    std::time::Duration::new(
        used.tv_sec.unsigned_abs(),
        used.tv_nsec.unsigned_abs() as u32,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_time_is_k_times_wall_time() {
        let scale = TimeScale::new(5.0).expect("a scale");
        let wall = std::time::Duration::from_millis(200);
        assert_eq!(scale.model(wall), Duration::from_secs(1));
        assert_eq!(scale.wall(Duration::from_secs(1)), wall);
    }

    #[test]
    fn invalid_time_scales_are_none() {
        for k in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert_eq!(TimeScale::new(k), None, "{k}");
        }
    }
}
