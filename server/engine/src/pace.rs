//! Pace: the observed reading speed of a viewer.
//!
//! It counts the bytes handed out over a window of one to two spans. A player with a full buffer
//! sends a request every few seconds (up to 32 s apart in thesis 5.3), so a span must outlast the
//! usual gap between two requests; an average over less would oscillate.

use headlong_units::{BitRate, Duration, Instant};

/// Length of a span.
const SPAN: Duration = Duration::from_secs(10);
/// Minimum observation time of a measurement.
const SEEN_MIN: Duration = Duration::from_secs(1);

/// Bytes handed to one viewer in the present span and in the previous one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewerPace {
    span_start: Instant,
    span_bytes: u64,
    before: Option<u64>,
    first_at: Instant,
    total_bytes: u64,
}

impl ViewerPace {
    /// A viewer that begins now.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            span_start: now,
            span_bytes: 0,
            before: None,
            first_at: now,
            total_bytes: 0,
        }
    }

    /// A viewer that read at this rate before.
    pub(crate) fn resume(now: Instant, rate: BitRate) -> Self {
        Self {
            before: Some(rate.bytes_in(SPAN)),
            ..Self::new(now)
        }
    }

    /// When the viewer began.
    pub(crate) fn first_at(&self) -> Instant {
        self.first_at
    }

    /// Bytes handed out since then.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Some bytes were handed out.
    pub(crate) fn record(&mut self, now: Instant, bytes: u64) {
        self.roll(now);
        self.span_bytes = self.span_bytes.saturating_add(bytes);
        self.total_bytes = self.total_bytes.saturating_add(bytes);
    }

    /// The rate over the last one to two spans; `None` in the first second.
    pub(crate) fn rate(&self, now: Instant) -> Option<BitRate> {
        let mut rolled = *self;
        rolled.roll(now);
        let mut seen = now.since(rolled.span_start);
        if rolled.before.is_some() {
            seen += SPAN;
        }
        if seen < SEEN_MIN {
            return None;
        }
        BitRate::from_transfer(
            rolled.span_bytes.saturating_add(rolled.before.unwrap_or(0)),
            seen,
        )
    }

    /// The rate since the beginning, once two spans have passed: the assumed bit rate of a title
    /// without a known one. The initial buffer fill weighs in and fades slowly; a size by the
    /// square root of the rate tolerates that. `None` if no byte was handed out yet, however long
    /// the viewer has waited.
    pub(crate) fn long_run(&self, now: Instant) -> Option<BitRate> {
        let seen = now.since(self.first_at);
        if seen < SPAN.times(2) || self.total_bytes == 0 {
            return None;
        }
        BitRate::from_transfer(self.total_bytes, seen)
    }

    fn roll(&mut self, now: Instant) {
        let spans = now.since(self.span_start).0 / SPAN.0;
        if spans == 0 {
            return;
        }
        self.before = Some(if spans == 1 { self.span_bytes } else { 0 });
        self.span_bytes = 0;
        self.span_start = self.span_start + SPAN.times(spans);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewer_without_bytes_has_no_rate() {
        let mut pace = ViewerPace::new(Instant::ZERO);
        let later = Instant::ZERO + SPAN.times(3);
        assert_eq!(pace.long_run(later), None);
        pace.record(later, 3_750_000);
        assert_eq!(pace.long_run(later), Some(BitRate::from_kbps(1_000)));
    }

    #[test]
    fn steady_viewer_has_its_rate() {
        let mut pace = ViewerPace::new(Instant::ZERO);
        for second in 0..60 {
            pace.record(Instant::ZERO + Duration::from_secs(second), 250_000);
        }
        let rate = pace
            .rate(Instant::ZERO + Duration::from_secs(60))
            .expect("observed for a minute");
        assert_eq!(rate, BitRate::from_kbps(2_000));
    }

    #[test]
    fn rate_falls_during_pause() {
        let mut pace = ViewerPace::new(Instant::ZERO);
        pace.record(Instant::ZERO, 1_000_000);
        let at = |second| pace.rate(Instant::ZERO + Duration::from_secs(second));
        assert_eq!(at(0), None);
        assert!(at(15) < at(5));
        assert_eq!(at(100), Some(BitRate(0)));
    }
}
