//! Throughput as a player measures it: bytes received, by the time with a call in progress.
//!
//! Concurrent calls share the network, so their bytes are added up and the time is counted once.

use headlong_units::{Duration, Instant};

/// Smaller transfers measure latency rather than throughput (Shaka Player: 16 kB).
const SAMPLE_BYTES_MIN: u64 = 16_000;

/// Throughput, as the lower of two exponentially weighted means by time of transfer, as in dash.js
/// and Shaka Player.
#[derive(Debug, Clone)]
pub(crate) struct ThroughputMeter {
    busy_since: Option<Instant>,
    busy: Duration,
    bytes: u64,
    fast: WeightedMean,
    slow: WeightedMean,
}

/// An exponentially weighted mean that starts without bias.
#[derive(Debug, Clone)]
struct WeightedMean {
    half_life: f64,
    sum: f64,
    weight: f64,
}

impl WeightedMean {
    fn new(half_life: Duration) -> Self {
        Self {
            // With a half-life of zero the last sample must still count.
            half_life: half_life.as_secs_f64().max(1e-3),
            sum: 0.0,
            weight: 0.0,
        }
    }

    fn sample(&mut self, value: f64, seconds: f64) {
        let kept = libm::exp2(-seconds / self.half_life);
        self.sum = self.sum * kept + value * (1.0 - kept);
        self.weight = self.weight * kept + (1.0 - kept);
    }

    fn value(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

impl ThroughputMeter {
    /// A meter whose means have these half-lives.
    pub(crate) fn new(fast: Duration, slow: Duration) -> Self {
        Self {
            busy_since: None,
            busy: Duration::ZERO,
            bytes: 0,
            fast: WeightedMean::new(fast),
            slow: WeightedMean::new(slow),
        }
    }

    /// Sets whether a call is in progress.
    pub(crate) fn set_busy(&mut self, now: Instant, busy: bool) {
        if let Some(since) = self.busy_since.take() {
            self.busy += now.since(since);
        }
        self.busy_since = busy.then_some(now);
    }

    /// Bytes arrived.
    pub(crate) fn arrive(&mut self, count: u64) {
        self.bytes = self.bytes.saturating_add(count);
    }

    /// A call or a segment has ended: takes a sample if there is enough data, or unconditionally
    /// when `forced`. A failed call counts by how little it delivered.
    pub(crate) fn sample(&mut self, now: Instant, forced: bool) {
        self.set_busy(now, self.busy_since.is_some());
        if self.busy == Duration::ZERO || (self.bytes < SAMPLE_BYTES_MIN && !forced) {
            return;
        }
        let seconds = self.busy.as_secs_f64();
        let rate = self.bytes as f64 * 8.0 / seconds;
        (self.busy, self.bytes) = (Duration::ZERO, 0);
        self.fast.sample(rate, seconds);
        self.slow.sample(rate, seconds);
    }

    /// Expected throughput in bits per second; `None` before the first sample.
    pub(crate) fn estimate(&self) -> Option<f64> {
        Some(self.fast.value()?.min(self.slow.value()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn meter() -> ThroughputMeter {
        ThroughputMeter::new(Duration::from_secs(3), Duration::from_secs(8))
    }

    fn fed(samples: &[(u64, u64)]) -> f64 {
        let mut meter = meter();
        let mut now = 0;
        for (bytes, seconds) in samples {
            meter.set_busy(Instant(now), true);
            meter.arrive(*bytes);
            now += seconds * SECOND;
            meter.set_busy(Instant(now), false);
            meter.sample(Instant(now), false);
            // Idle time does not count.
            now += 100 * SECOND;
        }
        meter.estimate().expect("samples were taken")
    }

    #[test]
    fn estimate_of_steady_rate_is_exact() {
        let rate = fed(&[(1_000_000, 2), (500_000, 1), (2_000_000, 4)]);
        assert!((rate - 4e6).abs() < 1.0, "{rate}");
    }

    #[test]
    fn new_rate_has_half_weight_after_one_half_life() {
        // 8 Mb/s for so long that earlier samples do not matter, then 4 Mb/s for 3 s.
        let rate = fed(&[(400_000_000, 400), (1_500_000, 3)]);
        assert!((rate - 6e6).abs() < 1e3, "{rate}");
        // On a rise the slow mean is the lower one: 2^(-3/8) of the old value remains.
        let rate = fed(&[(200_000_000, 400), (3_000_000, 3)]);
        let expected = 8e6 - 4e6 * libm::exp2(-3.0 / 8.0);
        assert!((rate - expected).abs() < 1e3, "{rate}");
    }

    #[test]
    fn concurrent_calls_share_time() {
        let mut meter = meter();
        meter.set_busy(Instant(0), true);
        meter.arrive(1_000_000);
        meter.set_busy(Instant(SECOND), true);
        meter.arrive(1_000_000);
        meter.sample(Instant(2 * SECOND), false);
        let rate = meter.estimate().expect("a sample was taken");
        assert!((rate - 8e6).abs() < 1.0, "{rate}");
    }

    #[test]
    fn small_transfer_is_sampled_only_after_failure() {
        let mut meter = meter();
        meter.set_busy(Instant(0), true);
        meter.arrive(1_000);
        meter.sample(Instant(SECOND), false);
        assert_eq!(meter.estimate(), None);
        meter.sample(Instant(10 * SECOND), true);
        let rate = meter.estimate().expect("a sample was taken");
        assert!((rate - 800.0).abs() < 1.0, "{rate}");
    }
}
