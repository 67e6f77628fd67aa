//! Histogram of durations in bounded memory, however long a run is.
//!
//! Each power of two is divided into 128 buckets of equal width, so a quantile is off by less than
//! 0.8 % of itself; count, mean and maximum are exact.

use headlong_units::Duration;
use serde::{Deserialize, Serialize};

/// Significant decimal digits for which an HdrHistogram has these buckets.
const DIGITS: u8 = 2;

/// Number of occurrences of each duration.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
    sum_ns: u128,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let counts = hdrhistogram::Histogram::new(DIGITS);
        Self {
            counts: counts.expect("two digits are allowed"),
            sum_ns: 0,
            max_ns: 0,
        }
    }
}

impl Histogram {
    /// Adds one duration.
    pub fn add(&mut self, time: Duration) {
        // The histogram grows as needed.
        let _ = self.counts.record(time.0);
        self.sum_ns += u128::from(time.0);
        self.max_ns = self.max_ns.max(time.0);
    }

    /// Adds all durations of another histogram.
    pub fn merge(&mut self, other: &Self) {
        let _ = self.counts.add(&other.counts);
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// Number of zero durations.
    pub fn zeros(&self) -> u64 {
        self.counts.count_at(0)
    }

    /// Mean; zero if empty.
    pub fn mean(&self) -> Duration {
        let mean = self.sum_ns.checked_div(u128::from(self.count()));
        Duration(mean.map_or(0, |mean| u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// Maximum; zero if empty.
    pub fn max(&self) -> Duration {
        Duration(self.max_ns)
    }

    /// The quantile of `share`, up to 0.8 % above the exact value; zero if empty.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration(self.counts.value_at_quantile(share).min(self.max_ns))
    }
}

/// Summary of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DistributionSummary {
    /// Number of values.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
}

impl DistributionSummary {
    pub(crate) fn of(times: &Histogram) -> Self {
        let milliseconds = |time: Duration| round(time.0 as f64 / 1e6, 3);
        Self {
            count: times.count() as usize,
            mean: milliseconds(times.mean()),
            p50: milliseconds(times.quantile(0.5)),
            p90: milliseconds(times.quantile(0.9)),
            p99: milliseconds(times.quantile(0.99)),
            p999: milliseconds(times.quantile(0.999)),
            max: milliseconds(times.max()),
        }
    }
}

/// Ratio rounded to four decimals; zero if `whole` is zero.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        round(part / whole, 4)
    } else {
        0.0
    }
}

pub(crate) fn round(value: f64, places: i32) -> f64 {
    let scale = 10_f64.powi(places);
    (value * scale).round() / scale
}

/// Whether a count is left out of a record.
pub(crate) fn is_none(number: &u64) -> bool {
    *number == 0
}

/// Whether a figure is left out of a record.
pub(crate) fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        times.into_iter().for_each(|ns| histogram.add(Duration(ns)));
        histogram
    }

    #[test]
    fn empty_histogram_reports_zero() {
        let none = Histogram::default();
        assert_eq!(
            (none.count(), none.mean(), none.max()),
            (0, Duration(0), Duration(0))
        );
        assert_eq!(none.quantile(0.5), Duration(0));
    }

    #[test]
    fn small_durations_and_maximum_are_exact() {
        let histogram = of([0, 0, 3, 255, 1 << 62]);
        assert_eq!(histogram.zeros(), 2);
        assert_eq!(histogram.quantile(0.6), Duration(3));
        assert_eq!(histogram.quantile(0.8), Duration(255));
        assert_eq!(histogram.quantile(1.0), Duration(1 << 62));
    }

    proptest! {
        #[test]
        fn quantile_is_at_most_a_bucket_above_value(ns in 0..1_u64 << 62, larger in 0..1_u64 << 62) {
            let quantile = of([ns, ns.max(larger)]).quantile(0.5).0;
            prop_assert!(quantile >= ns && (quantile - ns) as f64 <= ns as f64 / 128.0);
        }

        #[test]
        fn merge_equals_histogram_of_both(a in prop::collection::vec(0_u64..1 << 40, 0..50),
                                     b in prop::collection::vec(0_u64..1 << 40, 0..50)) {
            let mut merged = of(a.iter().copied());
            merged.merge(&of(b.iter().copied()));
            prop_assert_eq!(merged, of(a.into_iter().chain(b)));
        }
    }
}
