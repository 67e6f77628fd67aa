//! Additive distributions of times with bounded error and size.
//!
//! An HdrHistogram of microseconds of model time with three significant digits, up to a day.

use hdrhistogram::Histogram;
use headlong_units::Duration;
use serde::Serialize;

/// One day; longer times count as that.
const MICROS_MAX: u64 = 86_400_000_000;
const DIGITS: u8 = 3;

/// A distribution of times.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeDistribution(Histogram<u64>);

impl Default for TimeDistribution {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, MICROS_MAX, DIGITS);
        Self(histogram.expect("the bounds are constants, and in order"))
    }
}

impl TimeDistribution {
    /// Records a time.
    pub fn record(&mut self, time: Duration) {
        self.0
            .saturating_record(time.0.div_ceil(1000).min(MICROS_MAX));
    }

    /// Adds all counts of another distribution.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds, so values are always within them.
        let _ = self.0.add(&other.0);
    }

    /// Number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The quantile in milliseconds; `None` if the distribution is empty.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        (self.count() > 0).then(|| self.0.value_at_quantile(share) as f64 / 1000.0)
    }

    /// Its summary.
    pub fn spread(&self) -> DistributionSummary {
        let quantile = |share| self.quantile_ms(share);
        let any = self.count() > 0;
        DistributionSummary {
            count: self.count(),
            mean: any.then(|| self.0.mean() / 1000.0),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: any.then(|| self.0.max() as f64 / 1000.0),
        }
    }

    /// Removes all counts.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Summary of a distribution, in milliseconds of model time; an empty one has only a count.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct DistributionSummary {
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> TimeDistribution {
        let mut times = TimeDistribution::default();
        for &value in values {
            times.record(Duration(value));
        }
        times
    }

    #[test]
    fn empty_distribution_has_only_count() {
        let spread = TimeDistribution::default().spread();
        assert_eq!(spread, DistributionSummary::default());
    }

    #[test]
    fn longer_times_count_as_a_day() {
        let max = of(&[u64::MAX]).spread().max.expect("one was counted");
        assert!((max / 86_400_000.0 - 1.0).abs() < 0.001, "{max}");
    }

    proptest! {
        #[test]
        fn parts_add_up_to_whole(
            one in proptest::collection::vec(0..100_000_000_000u64, 0..200),
            other in proptest::collection::vec(0..100_000_000_000u64, 0..200),
        ) {
            let whole = of(&[one.clone(), other.clone()].concat());
            let mut sum = TimeDistribution::default();
            for part in [&one, &other] {
                sum.add(&of(part));
            }
            prop_assert_eq!(&sum, &whole);
            for share in [0.0, 0.5, 0.9, 0.99, 1.0] {
                prop_assert_eq!(sum.quantile_ms(share), whole.quantile_ms(share));
            }
        }
    }
}
