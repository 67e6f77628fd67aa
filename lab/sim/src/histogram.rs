//! Histogram of durations in bounded memory, however long a run is.
//!
//! Each power of two is divided into 128 buckets of equal width, so a quantile is off by less than
//! 0.8 % of itself; count, mean and maximum are exact.

use headlong_units::Duration;

/// Buckets of a power of two.
const PARTS: u64 = 128;
const PARTS_BITS: u32 = PARTS.trailing_zeros();

/// Number of occurrences of each duration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Histogram {
    /// Adds one duration.
    pub fn add(&mut self, time: Duration) {
        let bucket = bucket_of(time.0);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum_ns += u128::from(time.0);
        self.max_ns = self.max_ns.max(time.0);
    }

    /// Adds all durations of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Number of zero durations.
    pub fn zeros(&self) -> u64 {
        self.counts.first().copied().unwrap_or(0)
    }

    /// Mean; zero if empty.
    pub fn mean(&self) -> Duration {
        let mean = self.sum_ns.checked_div(u128::from(self.count));
        Duration(mean.map_or(0, |mean| u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// Maximum; zero if empty.
    pub fn max(&self) -> Duration {
        Duration(self.max_ns)
    }

    /// The quantile of `share`, up to 0.8 % above the exact value; zero if empty.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return Duration(last_of(bucket).min(self.max_ns));
            }
        }
        self.max()
    }
}

fn bucket_of(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(PARTS_BITS + 1);
    (u64::from(shift) * PARTS + (ns >> shift)) as usize
}

/// The longest duration of a bucket.
fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / PARTS).saturating_sub(1);
    let part = u128::from(bucket - shift * PARTS);
    let end = ((part + 1) << shift) - 1;
    u64::try_from(end).unwrap_or(u64::MAX)
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
        let histogram = of([0, 0, 3, 255, u64::MAX]);
        assert_eq!(histogram.zeros(), 2);
        assert_eq!(histogram.quantile(0.6), Duration(3));
        assert_eq!(histogram.quantile(0.8), Duration(255));
        assert_eq!(histogram.quantile(1.0), Duration(u64::MAX));
    }

    proptest! {
        #[test]
        fn bucket_bounds_contain_value(ns: u64) {
            let bucket = bucket_of(ns);
            prop_assert!(last_of(bucket) >= ns);
            prop_assert!(bucket == 0 || last_of(bucket - 1) < ns);
            prop_assert!((last_of(bucket) - ns) as f64 <= ns as f64 / PARTS as f64);
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
