//! Wall time, model time and drive time, and the conversions between them.
//!
//! Model time is wall time since the disk was created, times the time scale: all counters and
//! traces use it. Drive time is the time passed to the drive model. It is the same, except that it
//! runs slower by a factor in a slow drive, and stands still in a hung one; so faults need no
//! support by the model.
//!
//! Invariant: none of the three goes back.

use std::time::{Duration as WallDuration, Instant as WallInstant};

use headlong_units::{Duration, Instant};

/// Converts between wall time and model time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: WallInstant,
    scale: f64,
}

impl Clock {
    pub(crate) fn new(scale: f64) -> Self {
        Self {
            origin: WallInstant::now(),
            scale,
        }
    }

    pub(crate) fn scale(&self) -> f64 {
        self.scale
    }

    pub(crate) fn now(&self) -> Instant {
        self.model(WallInstant::now())
    }

    pub(crate) fn model(&self, wall: WallInstant) -> Instant {
        let since = wall.saturating_duration_since(self.origin);
        Instant((since.as_nanos() as f64 * self.scale) as u64)
    }

    pub(crate) fn wall(&self, model: Instant) -> WallInstant {
        self.origin + self.wall_duration(Duration(model.0))
    }

    pub(crate) fn wall_duration(&self, model: Duration) -> WallDuration {
        WallDuration::from_nanos((model.0 as f64 / self.scale) as u64)
    }
}

/// Converts between model time and drive time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DriveClock {
    model: Instant,
    drive: Instant,
    /// Model time per drive time.
    factor: f64,
    is_frozen: bool,
}

impl DriveClock {
    pub(crate) const NORMAL: Self = Self {
        model: Instant::ZERO,
        drive: Instant::ZERO,
        factor: 1.0,
        is_frozen: false,
    };

    /// From model time `now` on, drive time is slower by `factor`, or frozen.
    pub(crate) fn change(&mut self, now: Instant, factor: f64, is_frozen: bool) {
        *self = Self {
            drive: self.drive(now),
            model: now,
            factor,
            is_frozen,
        };
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    pub(crate) fn factor(&self) -> f64 {
        self.factor
    }

    /// The drive time at a model time.
    pub(crate) fn drive(&self, model: Instant) -> Instant {
        if self.is_frozen {
            return self.drive;
        }
        let since = model.since(self.model).0;
        self.drive + Duration((since as f64 / self.factor) as u64)
    }

    /// The model time at a drive time; times before the last change are extrapolated with the
    /// present factor.
    pub(crate) fn model(&self, drive: Instant) -> Instant {
        if drive >= self.drive {
            self.model + self.stretch(drive.since(self.drive))
        } else {
            self.model - self.stretch(self.drive.since(drive))
        }
    }

    /// Converts a duration of drive time to model time.
    pub(crate) fn stretch(&self, length: Duration) -> Duration {
        if self.factor == 1.0 {
            length
        } else {
            Duration((length.0 as f64 * self.factor) as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(milliseconds: u64) -> Instant {
        Instant(milliseconds * 1_000_000)
    }

    #[test]
    fn slow_and_hung_drive_time_never_gains() {
        let mut pace = DriveClock::NORMAL;
        assert_eq!(pace.drive(at(100)), at(100));
        pace.change(at(100), 4.0, false);
        assert_eq!(pace.drive(at(300)), at(150));
        assert_eq!(pace.model(at(150)), at(300));
        pace.change(at(300), 4.0, true);
        assert_eq!(pace.drive(at(900)), at(150));
        pace.change(at(900), 1.0, false);
        assert_eq!(pace.drive(at(950)), at(200));
        assert_eq!(pace.model(at(200)), at(950));
    }

    #[test]
    fn model_time_runs_at_time_scale() {
        let clock = Clock::new(8.0);
        let model = at(4_000);
        let wall = clock.wall(model);
        assert_eq!(
            wall.duration_since(clock.origin),
            WallDuration::from_millis(500)
        );
        assert_eq!(clock.model(wall), model);
    }
}
