//! Bounded counters: histograms with bins of a fixed relative width, and sums for each second of a
//! session.
//!
//! All sums are integers, so merging in any order gives the same result.

use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::merge::{Merge, sums};
use crate::observations::DistributionPoints;

/// Bins per octave of a [`LogHistogram`]: neighbours are 2.2 % apart.
const BINS_PER_OCTAVE: u32 = 32;
/// Number of bins: the value 0, and all octaves of 64 bits.
const BINS: usize = 1 + 64 * BINS_PER_OCTAVE as usize;

sums! {
    /// Histogram with bins 2.2 % wide.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct LogHistogram {
        counts: Vec<u64>,
        total: u64,
        sum: u128,
    }
}

impl Default for LogHistogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BINS],
            total: 0,
            sum: 0,
        }
    }
}

impl LogHistogram {
    /// Adds a value.
    pub(crate) fn add(&mut self, value: u64) {
        self.counts[bin(value)] += 1;
        self.total += 1;
        self.sum += u128::from(value);
    }

    /// The number of values.
    pub(crate) const fn count(&self) -> u64 {
        self.total
    }

    /// The exact mean.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum as f64 / self.total as f64)
    }

    /// The value that this share of values does not exceed, to the precision of a bin.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = libm::ceil(share.clamp(0.0, 1.0) * self.total as f64).max(1.0) as u64;
        let mut so_far = 0;
        for (bin, count) in self.counts.iter().enumerate() {
            so_far += count;
            if so_far >= wanted {
                return Some(middle(bin));
            }
        }
        None
    }

    /// The points of the distribution, with values multiplied by `scale`.
    pub(crate) fn points(&self, scale: f64) -> DistributionPoints {
        let share = |step: u32| f64::from(step) / f64::from(QUANTILES);
        let point = |step| Some((self.quantile(share(step))? * scale, share(step)));
        (0..=QUANTILES).filter_map(point).collect()
    }
}

/// Number of quantiles of a distribution.
const QUANTILES: u32 = 50;

fn bin(value: u64) -> usize {
    if value == 0 {
        return 0;
    }
    let octave = value.ilog2();
    let mantissa = value as f64 / (1u64 << octave) as f64;
    let part = (libm::log2(mantissa) * f64::from(BINS_PER_OCTAVE)) as u32;
    (1 + octave * BINS_PER_OCTAVE + part.min(BINS_PER_OCTAVE - 1)) as usize
}

fn middle(bin: usize) -> f64 {
    match bin {
        0 => 0.0,
        _ => libm::exp2((bin as f64 - 0.5) / f64::from(BINS_PER_OCTAVE)),
    }
}

/// Seconds of a session that are recorded; later ones are left out of figures by second.
pub(crate) const SECONDS_MAX: usize = 172_800;

/// A sum for each second of a session, over all sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SecondSums(Vec<u64>);

impl Merge for SecondSums {
    fn merge(&mut self, other: Self) {
        self.0.merge(other.0);
    }
}

impl SecondSums {
    /// Adds an amount to one second.
    pub(crate) fn add(&mut self, second: usize, amount: u64) {
        if second >= SECONDS_MAX {
            return;
        }
        if second >= self.0.len() {
            self.0.resize(second + 1, 0);
        }
        self.0[second] += amount;
    }

    /// The sum of a second.
    pub(crate) fn get(&self, second: usize) -> u64 {
        self.0.get(second).copied().unwrap_or(0)
    }

    /// The sum over `from..until`.
    pub(crate) fn sum(&self, from: usize, until: usize) -> u64 {
        let until = until.min(self.0.len());
        self.0.get(from..until).map_or(0, |part| part.iter().sum())
    }

    /// The number of seconds up to the last with an amount.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no amount was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

sums! {
    /// Ends of sessions, and thus the number of sessions active in each second.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct ActiveSessions {
        ends: SecondSums,
        sessions: u64,
    }
}

impl ActiveSessions {
    /// Adds a session by its last second.
    pub(crate) fn add(&mut self, last_second: usize) {
        self.ends.add(last_second.min(SECONDS_MAX - 1), 1);
        self.sessions += 1;
    }

    /// The number of sessions that had not ended before each second.
    pub(crate) fn by_second(&self) -> SecondSums {
        let mut left = self.sessions;
        let alive = self.ends.0.iter().map(|ended| {
            let now = left;
            left -= ended;
            now
        });
        SecondSums(alive.collect())
    }
}

/// Bins for curves over the time of a session: each 1 % of the time wide, at least a second (thesis
/// 5.4.2), as `(from, until)`.
pub(crate) fn smooth_bins(seconds: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut from = 0;
    core::iter::from_fn(move || {
        (from < seconds).then(|| {
            let until = (from + (from / 100).max(1)).min(seconds);
            let bin = (from, until);
            from = until;
            bin
        })
    })
}

/// Spreads `amount` evenly over `from_ms..until_ms`, in units of `unit_ms` aligned to `origin_ms`,
/// and calls `each` with the unit and its part. The parts sum to `amount`, but units from `units`
/// on are skipped, which bounds the cost of a service time of a year.
pub(crate) fn spread(
    amount: u64,
    (from_ms, until_ms): (i64, i64),
    (origin_ms, unit_ms, units): (i64, i64, usize),
    mut each: impl FnMut(usize, u64),
) {
    let from = from_ms.saturating_sub(origin_ms).max(0);
    let until = until_ms.saturating_sub(origin_ms);
    let first = from / unit_ms;
    if first >= units as i64 {
        return;
    }
    if until <= from || first == (until - 1) / unit_ms {
        each(first as usize, amount);
        return;
    }
    let whole = (until - from) as u128;
    let mut done = 0;
    for unit in first..=((until - 1) / unit_ms).min(units as i64 - 1) {
        let end = ((unit + 1) * unit_ms).min(until);
        let so_far = (u128::from(amount) * (end - from) as u128 / whole) as u64;
        each(unit as usize, so_far - done);
        done = so_far;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn histogram_bins_are_two_per_cent_wide() {
        for value in [1u64, 2, 3, 40_000, 786_432, 1 << 40, u64::MAX] {
            let ratio = middle(bin(value)) / value as f64;
            assert!((0.978..1.022).contains(&ratio), "{value} {ratio}");
        }
        assert_eq!(middle(bin(0)), 0.0);
    }

    #[test]
    fn smooth_bins_have_no_gaps() {
        let bins: Vec<_> = smooth_bins(10_000).collect();
        assert_eq!(bins[..3], [(0, 1), (1, 2), (2, 3)]);
        assert!(bins.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert_eq!(bins.last().map(|bin| bin.1), Some(10_000));
        assert!(bins.len() < 700, "{}", bins.len());
    }

    #[test]
    fn spread_over_a_year_stops_at_the_last_unit() {
        let year_ms = 366 * 86_400_000;
        let mut told = Vec::new();
        let mut add = |unit, part| told.push((unit, part));
        let second = 366 * 86_400;
        spread(
            second * 7,
            (998_000, 998_000 + year_ms),
            (0, 1000, 1000),
            &mut add,
        );
        spread(1, (1_000_000, 1_000_001), (0, 1000, 1000), &mut add);
        spread(
            1,
            (1_000_000, 1_000_000 + year_ms),
            (0, 1000, 1000),
            &mut add,
        );
        assert_eq!(told, [(998, 7), (999, 7)]);
    }

    proptest! {
        #[test]
        fn spread_parts_sum_to_the_amount(
            amount in 0u64..1 << 40, from in -5000i64..100_000, length in 0i64..50_000,
        ) {
            let mut sum = 0;
            let mut units = Vec::new();
            spread(amount, (from, from + length), (0, 1000, 1000), |unit, part| {
                sum += part;
                units.push(unit);
            });
            prop_assert_eq!(sum, amount);
            prop_assert!(units.windows(2).all(|pair| pair[1] == pair[0] + 1));
        }

        #[test]
        fn active_sessions_are_counted_by_second(lasts in prop::collection::vec(0usize..40, 1..30)) {
            let mut alive = ActiveSessions::default();
            lasts.iter().for_each(|last| alive.add(*last));
            let told = alive.by_second();
            for second in 0..40 {
                let naive = lasts.iter().filter(|last| **last >= second).count() as u64;
                prop_assert_eq!(told.get(second), naive);
            }
        }

        #[test]
        fn quantile_is_near_the_exact_value(mut values in prop::collection::vec(1u64..1 << 50, 1..50), share in 0.0..1.0f64) {
            let mut histogram = LogHistogram::default();
            values.iter().for_each(|value| histogram.add(*value));
            values.sort_unstable();
            let place = ((share * values.len() as f64).ceil() as usize).max(1) - 1;
            let ratio = histogram.quantile(share).expect("values") / values[place] as f64;
            prop_assert!((0.97..1.03).contains(&ratio), "{}", ratio);
        }
    }
}
