//! A viewer's access line: how fast bytes get through and how far away the server is.
//!
//! The one idea: a line is one moment, until which it is busy. A slice of `n` bytes that is taken
//! from the socket occupies it for `n` times 8 over its bit rate, and belongs to the viewer when it
//! is through. So `N` bytes take exactly as long as `N` bytes take, with no bucket to be emptied
//! first, however large the slices are; and while the line is busy nothing is read, so that the
//! kernel's (small) receive buffer fills and the server feels it.
//!
//! Delay. A request reaches the server one delay after the viewer sends it, and a byte reaches the
//! viewer one delay after it leaves the server. Both are put on the request's way: the viewer lives
//! one delay ahead of the sockets ([`Line::viewer_time`]), and a request leaves two delays (one round
//! trip) after it was decided on. To the viewer, and so in every record, it is the same, and nothing
//! that was received must be kept. A new connection costs one round trip more. What a real network
//! has beyond that (slow start, loss, jitter) is not imitated.

use headlong_units::{BitRate, Duration, Instant};

/// Least that is read at once: below this, reading costs more than it brings.
const SLICE_BYTES_MIN: u64 = 8 << 10;
/// Most that is read at once.
pub(crate) const SLICE_BYTES_MAX: u64 = 128 << 10;
/// What a slice should last on the wall.
const SLICE_WALL: std::time::Duration = std::time::Duration::from_millis(8);
/// Least receive buffer: a few packets must fit, or the window closes after each.
const RECEIVE_BYTES_MIN: u64 = 16 << 10;
/// What arrives first: one packet on Ethernet. Its first byte is the reply's first byte.
pub(crate) const PACKET_BYTES: u64 = 1448;

/// What lines of one network class have in common.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LineKind {
    /// No limit if `None`.
    bandwidth: Option<BitRate>,
    /// One way.
    delay: Duration,
    /// Longest delay of all classes: viewers live that much later than the run's clock, less their
    /// own delay, so that nobody must act before the run begins.
    lead: Duration,
    slice_bytes: u64,
}

impl LineKind {
    /// For a class with this bandwidth and delay. `wall_share` is how long a second of the model
    /// lasts on the wall.
    pub(crate) fn new(
        bandwidth: Option<BitRate>,
        delay: Duration,
        lead: Duration,
        model_in: impl Fn(std::time::Duration) -> Duration,
    ) -> Self {
        let slice = bandwidth.map_or(SLICE_BYTES_MAX, |rate| {
            let in_flight = rate.bytes_in(delay.times(2));
            let lasting = rate.bytes_in(model_in(SLICE_WALL));
            lasting.min(in_flight.max(SLICE_BYTES_MIN))
        });
        Self {
            bandwidth,
            delay,
            lead,
            slice_bytes: slice.clamp(SLICE_BYTES_MIN, SLICE_BYTES_MAX),
        }
    }

    /// How long a request is held back: one round trip.
    pub(crate) fn round_trip(&self) -> Duration {
        self.delay.times(2)
    }

    /// What the viewer's own clock shows when the run's shows `at`.
    pub(crate) fn viewer_time(&self, at: Instant) -> Instant {
        at - (self.lead - self.delay)
    }

    /// What the run's clock shows when the viewer's own shows `at`.
    pub(crate) fn run_time(&self, at: Instant) -> Instant {
        at + (self.lead - self.delay)
    }

    /// Most to read at once.
    pub(crate) const fn slice_bytes(&self) -> usize {
        self.slice_bytes as usize
    }

    /// The kernel's buffer for what arrives: what is under way on such a line, so that the server
    /// cannot send more ahead than it could over the real one. `None`: the kernel's own.
    pub(crate) fn receive_bytes(&self) -> Option<usize> {
        let rate = self.bandwidth?;
        let in_flight = rate.bytes_in(self.round_trip());
        Some(in_flight.max(self.slice_bytes).max(RECEIVE_BYTES_MIN) as usize)
    }

    fn time_for(&self, bytes: u64) -> Duration {
        self.bandwidth
            .map_or(Duration::ZERO, |rate| rate.time_for(bytes))
    }
}

/// One viewer's line; all its connections share it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Line {
    busy_until: Instant,
}

impl Line {
    /// When what was taken so far is through.
    pub(crate) const fn busy_until(self) -> Instant {
        self.busy_until
    }

    /// Puts `bytes` on the line, which lay there since `available`; says when they are through.
    pub(crate) fn take(&mut self, kind: &LineKind, available: Instant, bytes: u64) -> Instant {
        self.busy_until = self.busy_until.max(available) + kind.time_for(bytes);
        self.busy_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(kbps: u64, delay_ms: u64) -> LineKind {
        let same = |wall: std::time::Duration| Duration(wall.as_nanos() as u64);
        let delay = Duration::from_millis(delay_ms);
        LineKind::new(
            Some(BitRate::from_kbps(kbps)),
            delay,
            Duration::from_millis(50),
            same,
        )
    }

    #[test]
    fn bytes_take_as_long_as_their_line_says_whatever_the_slices() {
        let kind = kind(1000, 50);
        for slice in [1000, 8192, 125_000] {
            let mut line = Line::default();
            let mut left = 500_000;
            let mut now = Instant(7);
            while left > 0 {
                let bytes = slice.min(left);
                left -= bytes;
                now = line.take(&kind, now, bytes);
            }
            let taken = now.since(Instant(7));
            assert_eq!(taken.as_millis(), 4000, "slices of {slice}");
        }
    }

    #[test]
    fn an_idle_line_saves_nothing_up() {
        let kind = kind(1000, 50);
        let mut line = Line::default();
        line.take(&kind, Instant::ZERO, 125);
        let hour = Instant(3_600_000_000_000);
        assert_eq!(line.take(&kind, hour, 125), hour + Duration::from_millis(1));
    }

    #[test]
    fn a_line_holds_what_is_under_way_on_it_and_no_less_than_some_packets() {
        // 10 Mbit/s for 100 ms.
        assert_eq!(kind(10_000, 50).receive_bytes(), Some(125_000));
        assert_eq!(kind(1000, 50).receive_bytes(), Some(16 << 10));
        assert!(kind(10_000, 50).slice_bytes() <= 125_000);
    }

    #[test]
    fn a_viewer_lives_one_delay_ahead_of_its_sockets() {
        let (near, far) = (kind(1000, 10), kind(1000, 50));
        let at = Instant(1_000_000_000);
        assert_eq!(near.viewer_time(at) + Duration::from_millis(40), at);
        assert_eq!(far.viewer_time(at), at);
        assert_eq!(near.run_time(near.viewer_time(at)), at);
    }
}
