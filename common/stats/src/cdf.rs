//! Distributions of weighted samples, such as latencies, or bytes by the length of the sequence in
//! which they were read.

use alloc::vec::Vec;

use crate::sample_error::SampleError;

/// An empirical distribution function: a staircase with one step at each distinct value.
#[derive(Debug, Clone, PartialEq)]
pub struct Cdf {
    /// Distinct values in ascending order, each with the weight at or below it.
    steps: Vec<(f64, f64)>,
    sum: f64,
}

impl Cdf {
    /// From samples with equal weights.
    ///
    /// # Errors
    /// If there are no samples, or one is not finite.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Result<Self, SampleError> {
        Self::of_weighted(values.into_iter().map(|value| (value, 1.0)))
    }

    /// From samples `(value, weight)`. Samples with weight zero are ignored.
    ///
    /// # Errors
    /// If no sample has a weight above zero, a number is not finite, or a weight is negative.
    pub fn of_weighted(samples: impl IntoIterator<Item = (f64, f64)>) -> Result<Self, SampleError> {
        let mut sorted = Vec::new();
        for (index, (value, weight)) in samples.into_iter().enumerate() {
            if !(value.is_finite() && weight.is_finite()) {
                return Err(SampleError::NotFinite { index });
            }
            if weight < 0.0 {
                return Err(SampleError::NotPositive { index });
            }
            if weight > 0.0 {
                sorted.push((value, weight));
            }
        }
        if sorted.is_empty() {
            return Err(SampleError::TooFew {
                found: 0,
                needed: 1,
            });
        }
        // Sorted by weight too, so that the sums do not depend on the order of arrival.
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut steps: Vec<(f64, f64)> = Vec::with_capacity(sorted.len());
        let (mut total, mut sum) = (0.0, 0.0);
        for &(value, weight) in &sorted {
            total += weight;
            sum += value * weight;
            match steps.last_mut() {
                Some(last) if last.0 == value => last.1 = total,
                _ => steps.push((value, total)),
            }
        }
        Ok(Self { steps, sum })
    }

    /// Total weight: the count, or the bytes.
    pub fn weight(&self) -> f64 {
        self.steps.last().map_or(0.0, |step| step.1)
    }

    /// The weighted mean.
    pub fn mean(&self) -> f64 {
        self.sum / self.weight()
    }

    /// The largest value.
    pub fn max(&self) -> f64 {
        self.steps.last().map_or(f64::NAN, |step| step.0)
    }

    /// The smallest value with at least `share` (clamped to 0 to 1) of the weight at or below it.
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = share.clamp(0.0, 1.0) * self.weight();
        let at = self.steps.partition_point(|step| step.1 < wanted);
        self.steps.get(at).map_or_else(|| self.max(), |step| step.0)
    }

    /// The fraction of the weight at or below `value`: the distribution function.
    pub fn share_up_to(&self, value: f64) -> f64 {
        self.share_of_first(self.steps.partition_point(|step| step.0 <= value))
    }

    fn share_of_first(&self, steps: usize) -> f64 {
        match steps.checked_sub(1) {
            None => 0.0,
            Some(last) => self.steps[last].1 / self.weight(),
        }
    }

    /// The upper ends of the steps, `(value, fraction at or below it)`, for drawing a staircase
    /// that starts at fraction 0. Returns at most `points_max` points (but two if there are two):
    /// of more steps, those farthest apart in fraction are kept, and always the first and the last.
    pub fn points(&self, points_max: usize) -> Vec<(f64, f64)> {
        let total = self.weight();
        let all = self.steps.iter().map(|step| (step.0, step.1 / total));
        if self.steps.len() <= points_max.max(2) {
            return all.collect();
        }
        // One point for each of `cells` equal intervals of the fraction: the first point that falls
        // into it.
        let cells = (points_max.max(3) - 2) as f64;
        let last = self.steps.len() - 1;
        let mut kept: Vec<(f64, f64)> = Vec::with_capacity(points_max);
        let mut full = None;
        for (index, point) in all.enumerate() {
            let cell = (point.1 * cells) as usize;
            if index == last || full != Some(cell) {
                kept.push(point);
                full = Some(cell);
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_and_fractions_match_the_staircase() {
        let cdf = Cdf::of([3.0, 1.0, 2.0, 2.0]).expect("samples");
        assert_eq!((cdf.weight(), cdf.mean(), cdf.max()), (4.0, 2.0, 3.0));
        let shares = [0.5, 1.0, 2.0, 9.0].map(|value| cdf.share_up_to(value));
        assert_eq!(shares, [0.0, 0.25, 0.75, 1.0]);
        for (share, value) in [
            (0.0, 1.0),
            (0.25, 1.0),
            (0.26, 2.0),
            (0.75, 2.0),
            (1.0, 3.0),
        ] {
            assert_eq!(cdf.quantile(share), value, "{share}");
        }
        assert_eq!(cdf.points(10), [(1.0, 0.25), (2.0, 0.75), (3.0, 1.0)]);
    }

    #[test]
    fn samples_are_weighted() {
        let cdf = Cdf::of_weighted([(1.0, 1.0), (2.0, 0.0), (4.0, 3.0)]).expect("samples");
        assert_eq!(cdf.mean(), 3.25);
        assert_eq!((cdf.share_up_to(1.0), cdf.quantile(0.5)), (0.25, 4.0));
    }

    #[test]
    fn invalid_samples_are_rejected() {
        let none = SampleError::TooFew {
            found: 0,
            needed: 1,
        };
        assert_eq!(Cdf::of([]), Err(none));
        assert_eq!(Cdf::of_weighted([(1.0, 0.0)]), Err(none));
        let bad = Cdf::of([1.0, f64::NAN]);
        assert_eq!(bad, Err(SampleError::NotFinite { index: 1 }));
        let bad = Cdf::of_weighted([(1.0, -1.0)]);
        assert_eq!(bad, Err(SampleError::NotPositive { index: 0 }));
    }

    proptest! {
        #[test]
        fn a_quantile_is_the_smallest_value_with_enough_below(
            values in prop::collection::vec(-100i32..100, 1..60), share in 0.0..1.0f64,
        ) {
            let cdf = Cdf::of(values.iter().map(|v| f64::from(*v))).expect("samples");
            let value = cdf.quantile(share);
            prop_assert!(cdf.share_up_to(value) >= share - 1e-12);
            prop_assert!(cdf.share_up_to(value - 0.5) <= share + 1e-12);
        }

        #[test]
        fn a_thinned_curve_is_short_and_lies_on_the_original(
            values in prop::collection::vec(-1e3..1e3f64, 1..400), points_max in 2usize..50,
        ) {
            let cdf = Cdf::of(values).expect("samples");
            let points = cdf.points(points_max);
            prop_assert!(points.len() <= points_max.max(3), "{}", points.len());
            prop_assert_eq!(points.last().map(|p| p.1), Some(1.0));
            let shares: Vec<f64> = points.iter().map(|p| cdf.share_up_to(p.0)).collect();
            prop_assert!(points.iter().zip(shares).all(|(p, s)| p.1 == s));
        }
    }
}
