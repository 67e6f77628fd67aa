//! Mean and spread of a stream of values, without storing them.

use crate::interval::ConfidenceInterval;
use crate::student::student_t_quantile;

/// Count, mean and variance of the values added.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Summary {
    count: u64,
    mean: f64,
    /// Sum of squared deviations from the mean.
    squares: f64,
}

impl Summary {
    /// Creates an empty summary.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value (Welford's method: no sum of squares that loses digits). A value that is not
    /// finite is left out.
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean, if there is a value.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The sample variance (divided by count - 1), if there are two values.
    pub fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).max(0.0))
    }

    /// The mean with its confidence interval by Student's t, assuming that the values are
    /// independent and their mean is approximately normal. `None` for fewer than two values, or if
    /// `confidence` is not between 0 and 1.
    pub fn interval(&self, confidence: f64) -> Option<ConfidenceInterval> {
        let variance = self.variance()?;
        if !(confidence > 0.0 && confidence < 1.0) {
            return None;
        }
        let t = student_t_quantile((1.0 + confidence) / 2.0, (self.count - 1) as f64);
        let half = t * libm::sqrt(variance / self.count as f64);
        Some(ConfidenceInterval {
            estimate: self.mean,
            low: self.mean - half,
            high: self.mean + half,
            confidence,
        })
    }
}

impl Extend<f64> for Summary {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.add(value));
    }
}

impl FromIterator<f64> for Summary {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut summary = Self::new();
        summary.extend(values);
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::USUAL_CONFIDENCE;

    fn near(a: f64, b: f64, relative: f64) -> bool {
        libm::fabs(a - b) <= relative * a.abs().max(b.abs()).max(1.0)
    }

    #[test]
    fn the_interval_of_a_mean_matches_the_published_one() {
        // NIST/SEMATECH e-Handbook 1.3.5.2, ZARR13.DAT: 195 values, mean 9.261460, standard
        // deviation 0.022789: 9.258242 to 9.264679. Any values with this mean and deviation are
        // suitable.
        let (mean, deviation) = (9.261_460, 0.022_789);
        let values = (0..97).flat_map(|_| [mean - deviation, mean + deviation]);
        let summary: Summary = values.chain([mean]).collect();
        assert_eq!(summary.count(), 195);
        let variance = summary.variance().expect("many");
        assert!(near(libm::sqrt(variance), deviation, 1e-12));
        let interval = summary.interval(USUAL_CONFIDENCE).expect("many");
        assert!(libm::fabs(interval.low - 9.258_242) < 1e-6, "{interval:.6}");
        assert!(
            libm::fabs(interval.high - 9.264_679) < 1e-6,
            "{interval:.6}"
        );
    }

    #[test]
    fn a_large_offset_loses_no_digits() {
        // NIST StRD NumAcc4: 10000000.2 and, alternating, .1 and .3: deviation exactly 0.1.
        let values = (0..1000).map(|i| 10_000_000.1 + 0.2 * f64::from(i % 2));
        let summary: Summary = core::iter::once(10_000_000.2).chain(values).collect();
        assert!(near(summary.mean().expect("many"), 10_000_000.2, 1e-15));
        let variance = summary.variance().expect("many");
        assert!(libm::fabs(libm::sqrt(variance) - 0.1) < 1e-8);
    }

    #[test]
    fn too_few_values_give_no_result() {
        let mut summary = Summary::new();
        assert_eq!(summary.mean(), None);
        summary.add(5.0);
        assert_eq!((summary.mean(), summary.variance()), (Some(5.0), None));
        assert_eq!(summary.interval(USUAL_CONFIDENCE), None);
        summary.add(6.0);
        assert_eq!(summary.interval(1.0), None);
        assert_eq!(summary.interval(f64::NAN), None);
    }

    #[test]
    fn values_that_are_not_finite_are_left_out() {
        let summary: Summary = [1.0, f64::NAN, f64::INFINITY, 3.0].into_iter().collect();
        assert_eq!(summary.count(), 2);
        assert_eq!(summary.mean(), Some(2.0));
    }
}
