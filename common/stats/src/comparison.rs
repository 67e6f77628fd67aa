//! Comparison of two sets of measurements: the ratio of their means.
//!
//! Rates and times are positive and their errors are relative, so their logarithms are compared:
//! the difference of the means of the logarithms is the logarithm of the ratio of the geometric
//! means, and its confidence interval, transformed back, is an interval for the ratio. For
//! measurements with a spread of a few per cent, geometric and arithmetic means are practically
//! equal.

use alloc::vec::Vec;

use crate::interval::ConfidenceInterval;
use crate::sample_error::SampleError;
use crate::student::student_t_quantile;
use crate::summary::Summary;

/// The ratio of the first measurements to the second ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The ratio first / second with its interval.
    pub ratio: ConfidenceInterval,
}

impl Comparison {
    /// From runs made in pairs, one of each kind, in the order of measurement: the mean logarithm
    /// of the ratios by Student's t. A slow drift that affects both runs of a pair cancels out.
    ///
    /// # Errors
    /// If there are fewer than two pairs, the two lists have different lengths, or a value is not
    /// finite and above zero.
    pub fn of_pairs(first: &[f64], second: &[f64], confidence: f64) -> Result<Self, SampleError> {
        if first.len() != second.len() {
            return Err(SampleError::Unpaired {
                first: first.len(),
                second: second.len(),
            });
        }
        logarithms(first)?;
        logarithms(second)?;
        let ratios = first.iter().zip(second);
        // Difference of logarithms, because the quotient could overflow.
        let ratios: Vec<f64> = ratios.map(|(a, b)| libm::log(*a) - libm::log(*b)).collect();
        let logs: Summary = ratios.into_iter().collect();
        let error = libm::sqrt(logs.variance().unwrap_or(0.0) / logs.count() as f64);
        let freedom = (logs.count() - 1) as f64;
        Ok(Self {
            ratio: around(logs.mean().unwrap_or(0.0), error, freedom, confidence),
        })
    }
}

fn logarithms(values: &[f64]) -> Result<Summary, SampleError> {
    for (index, value) in values.iter().enumerate() {
        if !value.is_finite() {
            return Err(SampleError::NotFinite { index });
        }
        if *value <= 0.0 {
            return Err(SampleError::NotPositive { index });
        }
    }
    if values.len() < 2 {
        return Err(SampleError::TooFew {
            found: values.len(),
            needed: 2,
        });
    }
    Ok(values.iter().map(|value| libm::log(*value)).collect())
}

/// The interval of a logarithm, transformed back. An invalid confidence gives NaN at both ends of
/// the interval.
fn around(log: f64, error: f64, freedom: f64, confidence: f64) -> ConfidenceInterval {
    let t = student_t_quantile((1.0 + confidence) / 2.0, freedom);
    let logs = ConfidenceInterval {
        estimate: log,
        low: log - t * error,
        high: log + t * error,
        confidence,
    };
    logs.map(libm::exp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::USUAL_CONFIDENCE;
    use proptest::prelude::*;

    // Student's data of 1908 (Cushny and Peebles: extra sleep), as in R's `sleep`; exponentials of
    // the values, because this function compares logarithms.
    const FIRST: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    const SECOND: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];

    fn check(comparison: Comparison, low: f64, high: f64) {
        let logs = comparison.ratio.map(libm::log);
        assert!(libm::fabs(logs.low - low) < 1e-6, "{logs:.7}");
        assert!(libm::fabs(logs.high - high) < 1e-6, "{logs:.7}");
    }

    #[test]
    fn intervals_match_those_of_r_for_student_s_data() {
        let (first, second) = (FIRST.map(libm::exp), SECOND.map(libm::exp));
        // t.test(..., paired = TRUE): df = 9, -2.4598858 to -0.7001142.
        let pairs = Comparison::of_pairs(&first, &second, USUAL_CONFIDENCE).expect("samples");
        check(pairs, -2.459_885_8, -0.700_114_2);
    }

    #[test]
    fn constant_runs_have_an_interval_without_width() {
        let same = Comparison::of_pairs(&[6.0, 6.0], &[3.0, 3.0], USUAL_CONFIDENCE);
        let ratio = same.expect("samples").ratio;
        assert!(libm::fabs(ratio.estimate - 2.0) < 1e-12 && ratio.half_width() < 1e-12);
    }

    #[test]
    fn samples_that_cannot_be_compared_are_rejected() {
        let few = Comparison::of_pairs(&[1.0], &[1.0], USUAL_CONFIDENCE);
        let error = few.expect_err("one run");
        assert_eq!(
            error,
            SampleError::TooFew {
                found: 1,
                needed: 2
            }
        );
        let zero = Comparison::of_pairs(&[1.0, 0.0], &[1.0, 2.0], USUAL_CONFIDENCE);
        assert_eq!(zero, Err(SampleError::NotPositive { index: 1 }));
        let odd = Comparison::of_pairs(&[1.0, 2.0], &[1.0], USUAL_CONFIDENCE);
        assert!(matches!(odd, Err(SampleError::Unpaired { .. })));
    }

    proptest! {
        #[test]
        fn exchanging_the_sides_inverts_the_ratio(
            pairs in prop::collection::vec((0.1..10.0f64, 0.1..10.0f64), 2..12),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let there = Comparison::of_pairs(&a, &b, USUAL_CONFIDENCE).expect("samples").ratio;
            let back = Comparison::of_pairs(&b, &a, USUAL_CONFIDENCE).expect("samples").ratio;
            prop_assert!(libm::fabs(there.estimate * back.estimate - 1.0) < 1e-9);
            prop_assert!(libm::fabs(there.low * back.high - 1.0) < 1e-9);
            prop_assert!(there.low <= there.estimate && there.estimate <= there.high);
        }
    }
}
