//! Bootstrap: how uncertain a figure is, from the spread of the same figure over samples drawn with
//! replacement from the items that it was computed from (Efron 1979).

use alloc::vec;
use alloc::vec::Vec;

use crate::ConfidenceInterval;

/// Samples drawn with replacement: for each, how often each item is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resamples(Vec<Vec<u32>>);

impl Resamples {
    /// `samples` samples, each as large as the number of items. `below` draws a number below its
    /// argument. The order of items matters: give them in one that does not depend on their source.
    pub fn new(items: usize, samples: usize, mut below: impl FnMut(u64) -> u64) -> Self {
        let draw = |_| {
            let mut times = vec![0; items];
            for _ in 0..items {
                let drawn = below(items as u64) as usize;
                times[drawn.min(items - 1)] += 1;
            }
            times
        };
        Self((0..samples).map(draw).collect())
    }

    /// For each sample, how often each item is in it.
    pub fn samples(&self) -> impl Iterator<Item = &[u32]> {
        self.0.iter().map(Vec::as_slice)
    }
}

impl ConfidenceInterval {
    /// The interval of an estimate from the same figure of resamples: their percentiles, extended
    /// to the estimate if a skewed sample leaves it outside. Nothing without finite figures.
    pub fn of_resamples(
        estimate: f64,
        figures: impl IntoIterator<Item = f64>,
        confidence: f64,
    ) -> Option<Self> {
        let finite = figures.into_iter().filter(|figure| figure.is_finite());
        let mut figures: Vec<f64> = finite.collect();
        figures.sort_by(f64::total_cmp);
        let last = figures.len().checked_sub(1)?;
        let tail = (1.0 - confidence) / 2.0;
        let at = |share: f64| figures[(libm::round(share * last as f64) as usize).min(last)];
        estimate.is_finite().then(|| Self {
            estimate,
            low: at(tail).min(estimate),
            high: at(1.0 - tail).max(estimate),
            confidence,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::USUAL_CONFIDENCE;

    /// A generator of numbers for tests (Steele et al. 2014).
    fn below(state: &mut u64) -> impl FnMut(u64) -> u64 + '_ {
        |count| {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((u128::from(mixed ^ (mixed >> 31)) * u128::from(count)) >> 64) as u64
        }
    }

    #[test]
    fn interval_of_a_mean_is_that_of_theory() {
        let values: Vec<f64> = (0..400).map(|index| f64::from(index % 40)).collect();
        let mean = values.iter().sum::<f64>() / 400.0;
        let resamples = Resamples::new(values.len(), 4_000, below(&mut 7));
        let means = resamples.samples().map(|times| {
            let sum = times
                .iter()
                .zip(&values)
                .map(|(times, value)| f64::from(*times) * value);
            sum.sum::<f64>() / 400.0
        });
        let found = ConfidenceInterval::of_resamples(mean, means, USUAL_CONFIDENCE);
        let found = found.expect("figures");
        // The deviation of 0..40 is the root of (40^2 - 1) / 12.
        let half = 1.96 * libm::sqrt(1_599.0 / 12.0 / 400.0);
        assert!((found.half_width() / half - 1.0).abs() < 0.06, "{found}");
        assert!((found.low..=found.high).contains(&mean) && (found.estimate - mean).abs() < 1e-12);
    }

    #[test]
    fn estimate_outside_its_resamples_extends_the_interval() {
        let found = ConfidenceInterval::of_resamples(5.0, [1.0, 2.0, f64::NAN], 0.95);
        let found = found.expect("figures");
        assert_eq!((found.low, found.high), (1.0, 5.0));
        assert_eq!(
            ConfidenceInterval::of_resamples(5.0, [f64::NAN], 0.95),
            None
        );
    }
}
