//! A viewer's access line: its bandwidth and its delay.
//!
//! A line's state is one time, until which it is busy. A slice of `n` bytes read from the socket
//! occupies it for `8 n` divided by its bit rate, and is delivered to the viewer at the end. So the
//! transfer time is exact for any slice size, without an initial burst as with a token bucket; and
//! while the line is busy nothing is read, so that the kernel's (small) receive buffer fills and
//! flow control reaches the server.
//!
//! Delay: a request reaches the server one delay after the viewer sends it, and a byte reaches the
//! viewer one delay after it leaves the server. Both are applied to the request: the viewer's clock
//! is one delay ahead of the sockets ([`LineKind::viewer_time`]), and a request is sent two delays
//! (one round trip) after the decision. For the viewer, and so for every record, this is
//! equivalent, and no received data needs buffering. A new connection costs one more round trip.
//! Other effects of real networks (slow start, loss, jitter) are not modelled.

use headlong_units::{BitRate, Duration, Instant};

/// Smallest read size: below it, system calls dominate.
const SLICE_BYTES_MIN: u64 = 8 << 10;
/// Largest read size.
pub(crate) const SLICE_BYTES_MAX: u64 = 128 << 10;
/// Target duration of a slice, in wall time.
const SLICE_WALL: std::time::Duration = std::time::Duration::from_millis(8);
/// Smallest receive buffer: it must hold a few packets, or the window closes after each.
const RECEIVE_BUFFER_BYTES_MIN: u64 = 16 << 10;
/// First part to arrive: one Ethernet packet. Its first byte is the reply's first byte.
pub(crate) const PACKET_BYTES: u64 = 1448;

/// Common properties of the lines of a network class.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LineKind {
    /// No limit if `None`.
    bandwidth: Option<BitRate>,
    /// One-way delay.
    delay: Duration,
    /// Largest delay of all classes: viewers' clocks are later than the run's clock by this, minus
    /// their own delay, so that no event happens before the run begins.
    lead: Duration,
    slice_bytes: u64,
}

impl LineKind {
    /// For a class with this bandwidth and delay. `wall_share` is the wall time of a second of
    /// model time.
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

    /// Delay of a request: one round trip.
    pub(crate) fn round_trip(&self) -> Duration {
        self.delay.times(2)
    }

    /// Time of the viewer's clock at the run's time `at`.
    pub(crate) fn viewer_time(&self, at: Instant) -> Instant {
        at - (self.lead - self.delay)
    }

    /// Time of the run's clock at the viewer's time `at`.
    pub(crate) fn run_time(&self, at: Instant) -> Instant {
        at + (self.lead - self.delay)
    }

    /// Largest read size.
    pub(crate) const fn slice_bytes(&self) -> usize {
        self.slice_bytes as usize
    }

    /// Size of the kernel's receive buffer: the bandwidth-delay product of the line, so that the
    /// server cannot send further ahead than over a real one. `None`: the kernel's default.
    pub(crate) fn receive_bytes(&self) -> Option<usize> {
        let rate = self.bandwidth?;
        let in_flight = rate.bytes_in(self.round_trip());
        Some(
            in_flight
                .max(self.slice_bytes)
                .max(RECEIVE_BUFFER_BYTES_MIN) as usize,
        )
    }

    fn time_for(&self, bytes: u64) -> Duration {
        self.bandwidth
            .map_or(Duration::ZERO, |rate| rate.time_for(bytes))
    }
}

/// One viewer's line; all its connections share it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AccessLine {
    busy_until: Instant,
}

impl AccessLine {
    /// When the data taken so far is delivered.
    pub(crate) const fn busy_until(self) -> Instant {
        self.busy_until
    }

    /// Puts `bytes`, available since `available`, on the line; returns the time of delivery.
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
    fn transfer_time_does_not_depend_on_slice_size() {
        let kind = kind(1000, 50);
        for slice in [1000, 8192, 125_000] {
            let mut line = AccessLine::default();
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
    fn idle_line_accumulates_no_credit() {
        let kind = kind(1000, 50);
        let mut line = AccessLine::default();
        line.take(&kind, Instant::ZERO, 125);
        let hour = Instant(3_600_000_000_000);
        assert_eq!(line.take(&kind, hour, 125), hour + Duration::from_millis(1));
    }

    #[test]
    fn receive_buffer_is_bandwidth_delay_product() {
        // 10 Mbit/s for 100 ms.
        assert_eq!(kind(10_000, 50).receive_bytes(), Some(125_000));
        assert_eq!(kind(1000, 50).receive_bytes(), Some(16 << 10));
        assert!(kind(10_000, 50).slice_bytes() <= 125_000);
    }

    #[test]
    fn viewer_clock_is_one_delay_ahead_of_sockets() {
        let (near, far) = (kind(1000, 10), kind(1000, 50));
        let at = Instant(1_000_000_000);
        assert_eq!(near.viewer_time(at) + Duration::from_millis(40), at);
        assert_eq!(far.viewer_time(at), at);
        assert_eq!(near.run_time(near.viewer_time(at)), at);
    }
}
