//! Schedule of a fill: when the next slice of a title is fetched ahead of viewers.
//!
//! A fill is not urgent. It keeps to its rate from slice to slice without catching up after a
//! pause, and yields while viewers wait.

use headlong_units::{Duration, Instant};

/// Current state of the viewers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewerState {
    /// A viewer waits for a slice from the origin.
    pub wait_for_origin: bool,
    /// The disk that keeps the slices is overloaded or out of service.
    pub disk_is_late: bool,
}

/// Whether the next slice may be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillStep {
    /// Now.
    Now,
    /// Not before this time.
    At(Instant),
    /// Not while viewers wait.
    Yield,
}

/// The schedule of the fill of one title.
#[derive(Debug, Clone, Copy)]
pub struct FillSchedule {
    bytes_per_second: u64,
    may_go_at: Instant,
}

impl FillSchedule {
    /// A fill at `bytes_per_second` that starts immediately.
    pub fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second: bytes_per_second.max(1),
            may_go_at: Instant::ZERO,
        }
    }

    /// Sets the rate from the next slice on.
    pub fn set_rate(&mut self, bytes_per_second: u64) {
        self.bytes_per_second = bytes_per_second.max(1);
    }

    /// Whether the next slice may be fetched.
    pub fn turn(&self, now: Instant, viewers: ViewerState) -> FillStep {
        if viewers.wait_for_origin || viewers.disk_is_late {
            FillStep::Yield
        } else if now < self.may_go_at {
            FillStep::At(self.may_go_at)
        } else {
            FillStep::Now
        }
    }

    /// Reports that the fetch of a slice of `bytes` bytes has started.
    pub fn went(&mut self, now: Instant, bytes: u64) {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let takes = Duration(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        self.may_go_at = now.max(self.may_go_at) + takes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: u64 = 2 << 20;

    /// Duration of several slices, each of which the origin sends in `fetch`, with these `viewers`.
    fn fill(
        slices: u64,
        rate: u64,
        fetch: Duration,
        viewers: impl Fn(Instant) -> ViewerState,
    ) -> Duration {
        let mut fill = FillSchedule::new(rate);
        let mut now = Instant::ZERO;
        for _ in 0..slices {
            for _ in 0..1_000_000 {
                match fill.turn(now, viewers(now)) {
                    FillStep::Now => break,
                    FillStep::At(at) => now = at,
                    FillStep::Yield => now = now + Duration::from_millis(250),
                }
            }
            fill.went(now, SLICE);
            now = now + fetch;
        }
        now.since(Instant::ZERO)
    }

    #[test]
    fn fill_keeps_its_rate_and_does_not_catch_up() {
        let alone = |_| ViewerState::default();
        let took = fill(101, SLICE, Duration::from_millis(100), alone);
        assert_eq!(took, Duration::from_millis(100_100));
        // A slower origin is not sent concurrent requests.
        let slow = fill(100, SLICE, Duration::from_secs(3), alone);
        assert_eq!(slow, Duration::from_secs(300));
        let until = Instant::ZERO + Duration::from_secs(50);
        let busy = |now| ViewerState {
            wait_for_origin: now < until,
            disk_is_late: false,
        };
        let took = fill(101, SLICE, Duration::from_millis(100), busy);
        assert_eq!(took, Duration::from_millis(150_100));
    }

    #[test]
    fn fill_yields_while_viewers_wait() {
        let fill = FillSchedule::new(1);
        for (wait_for_origin, disk_is_late) in [(true, false), (false, true), (true, true)] {
            let viewers = ViewerState {
                wait_for_origin,
                disk_is_late,
            };
            assert_eq!(fill.turn(Instant(5), viewers), FillStep::Yield);
        }
        assert_eq!(fill.turn(Instant(5), ViewerState::default()), FillStep::Now);
    }

    #[test]
    fn rate_can_change_and_is_never_zero() {
        let mut fill = FillSchedule::new(0);
        fill.went(Instant::ZERO, u64::MAX);
        assert!(matches!(
            fill.turn(Instant::ZERO, ViewerState::default()),
            FillStep::At(_)
        ));
        let mut fill = FillSchedule::new(1000);
        fill.set_rate(2000);
        fill.went(Instant::ZERO, 1000);
        let half = Instant::ZERO + Duration::from_millis(500);
        assert_eq!(
            fill.turn(Instant::ZERO, ViewerState::default()),
            FillStep::At(half)
        );
    }
}
