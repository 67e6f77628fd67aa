//! Two sets of measurements: how many times the one is the other.
//!
//! Rates and times are above zero and their errors are relative, so they are compared by their
//! logarithms: the difference of the means of logarithms is the logarithm of the ratio of geometric
//! means, and its ordinary interval is, turned back, one for the ratio. For measurements that
//! spread by a few per cent, geometric and ordinary means are the same.

use alloc::vec::Vec;

use crate::interval::ConfidenceInterval;
use crate::samples::SampleError;
use crate::student::student_t_quantile;
use crate::summary::Summary;

/// How an interval came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Independent runs: the logarithms' means by Welch's t, which lets their spreads differ.
    LogWelch,
    /// Alternating runs, pair by pair: the mean logarithm of the ratios by Student's t. What
    /// drifts slowly and hits both of a pair drops out.
    LogPaired,
}

impl Method {
    /// In words, for a table's footnote.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LogWelch => "ratio of geometric means, Welch's t on logarithms",
            Self::LogPaired => "geometric mean of paired ratios, Student's t on logarithms",
        }
    }
}

/// What a comparison comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The first is greater.
    Greater,
    /// The first is smaller.
    Smaller,
    /// The interval holds 1: nothing is shown either way.
    Undecided,
}

/// How many times the second's measurements the first's are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The ratio first / second with its interval.
    pub ratio: ConfidenceInterval,
    /// How the interval came about.
    pub method: Method,
    /// Student's degrees of freedom.
    pub freedom: f64,
}

impl Comparison {
    /// Of runs that have nothing to do with one another.
    ///
    /// # Errors
    /// If there are fewer than two on a side, or a value is not finite and above zero.
    pub fn of_independent(
        first: &[f64],
        second: &[f64],
        confidence: f64,
    ) -> Result<Self, SampleError> {
        let sides = [logarithms(first)?, logarithms(second)?];
        let means = sides.map(|side| side.mean().unwrap_or(0.0));
        // The squared standard error of each mean.
        let errors = sides.map(|side| side.variance().unwrap_or(0.0) / side.count() as f64);
        let error = errors[0] + errors[1];
        let below: f64 = errors
            .iter()
            .zip(&sides)
            .map(|(error, side)| error * error / (side.count() - 1) as f64)
            .sum();
        let freedom = if below > 0.0 {
            error * error / below
        } else {
            (sides[0].count() + sides[1].count() - 2) as f64
        };
        Ok(Self {
            ratio: around(means[0] - means[1], libm::sqrt(error), freedom, confidence),
            method: Method::LogWelch,
            freedom,
        })
    }

    /// Of runs made in pairs, one of each, in the order they were made.
    ///
    /// # Errors
    /// If there are fewer than two pairs, not as many on each side, or a value is not finite and
    /// above zero.
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
        // Of the logarithms and not of the quotient, which could overflow.
        let ratios: Vec<f64> = ratios.map(|(a, b)| libm::log(*a) - libm::log(*b)).collect();
        let logs: Summary = ratios.into_iter().collect();
        let error = libm::sqrt(logs.variance().unwrap_or(0.0) / logs.count() as f64);
        let freedom = (logs.count() - 1) as f64;
        Ok(Self {
            ratio: around(logs.mean().unwrap_or(0.0), error, freedom, confidence),
            method: Method::LogPaired,
            freedom,
        })
    }

    /// What it comes to.
    pub fn verdict(&self) -> Verdict {
        match self.ratio {
            ratio if ratio.low > 1.0 => Verdict::Greater,
            ratio if ratio.high < 1.0 => Verdict::Smaller,
            _ => Verdict::Undecided,
        }
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

/// The interval of a logarithm, turned back. A confidence that is none gives no interval but the
/// estimate's own place: not a number at both ends.
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

    // Student's own data of 1908 (Cushny and Peebles: extra sleep), as in R's `sleep`; their
    // exponentials, because here logarithms are compared.
    const FIRST: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    const SECOND: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];

    fn check(comparison: Comparison, freedom: f64, low: f64, high: f64) {
        let logs = comparison.ratio.map(libm::log);
        assert!(
            libm::fabs(comparison.freedom - freedom) < 1e-3,
            "{comparison:?}"
        );
        assert!(libm::fabs(logs.low - low) < 1e-6, "{logs:.7}");
        assert!(libm::fabs(logs.high - high) < 1e-6, "{logs:.7}");
    }

    #[test]
    fn intervals_are_those_that_r_prints_for_student_s_data() {
        let (first, second) = (FIRST.map(libm::exp), SECOND.map(libm::exp));
        // t.test(extra ~ group): df = 17.776, -3.3654832 to 0.2054832.
        let apart = Comparison::of_independent(&first, &second, USUAL_CONFIDENCE);
        let apart = apart.expect("samples");
        check(apart, 17.776, -3.365_483_2, 0.205_483_2);
        assert_eq!(apart.verdict(), Verdict::Undecided);
        // t.test(..., paired = TRUE): df = 9, -2.4598858 to -0.7001142.
        let pairs = Comparison::of_pairs(&first, &second, USUAL_CONFIDENCE).expect("samples");
        check(pairs, 9.0, -2.459_885_8, -0.700_114_2);
        assert_eq!(pairs.verdict(), Verdict::Smaller);
    }

    #[test]
    fn runs_that_do_not_vary_have_a_ratio_without_width() {
        let same = Comparison::of_independent(&[6.0, 6.0], &[3.0, 3.0], USUAL_CONFIDENCE);
        let ratio = same.expect("samples").ratio;
        assert!(libm::fabs(ratio.estimate - 2.0) < 1e-12 && ratio.half_width() < 1e-12);
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let few = Comparison::of_independent(&[1.0], &[1.0, 2.0], USUAL_CONFIDENCE);
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
        fn turned_round_the_ratio_is_the_reciprocal(
            a in prop::collection::vec(0.1..10.0f64, 2..12), b in prop::collection::vec(0.1..10.0f64, 2..12),
        ) {
            let there = Comparison::of_independent(&a, &b, USUAL_CONFIDENCE).expect("samples").ratio;
            let back = Comparison::of_independent(&b, &a, USUAL_CONFIDENCE).expect("samples").ratio;
            prop_assert!(libm::fabs(there.estimate * back.estimate - 1.0) < 1e-9);
            prop_assert!(libm::fabs(there.low * back.high - 1.0) < 1e-9);
            prop_assert!(there.low <= there.estimate && there.estimate <= there.high);
        }
    }
}
