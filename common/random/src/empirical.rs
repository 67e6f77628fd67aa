//! Distributions given as a curve, for example read from a figure, with linear interpolation
//! between points.

use alloc::vec::Vec;

use crate::Generator;

/// A distribution function given by points `(value, fraction at or below it)` connected by straight
/// lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Empirical {
    points: Vec<(f64, f64)>,
}

/// Why the points do not form a distribution function. `point` counts from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EmpiricalError {
    /// Fewer than two points.
    #[error("a curve needs at least two points")]
    TooFew,
    /// A value that is not finite, or a fraction outside 0 to 1.
    #[error("point {point} is not a value with a share between 0 and 1")]
    Outside {
        /// The point.
        point: usize,
    },
    /// A value or a fraction smaller than the previous one.
    #[error("point {point} is below the one before; sort by value, shares never fall")]
    Falls {
        /// The point.
        point: usize,
    },
    /// The first fraction is not 0 or the last is not 1.
    #[error("the first share must be 0 and the last 1")]
    Open,
}

impl Default for Empirical {
    /// Always 0.
    fn default() -> Self {
        Self {
            points: [(0.0, 0.0), (0.0, 1.0)].into(),
        }
    }
}

impl Empirical {
    /// The curve through `points`. Two points with the same value form a step.
    ///
    /// # Errors
    /// If the points do not form a distribution function.
    pub fn new(points: Vec<(f64, f64)>) -> Result<Self, EmpiricalError> {
        let (Some(first), Some(last), true) = (points.first(), points.last(), points.len() > 1)
        else {
            return Err(EmpiricalError::TooFew);
        };
        for (point, (value, share)) in points.iter().enumerate() {
            if !value.is_finite() || !(0.0..=1.0).contains(share) {
                return Err(EmpiricalError::Outside { point });
            }
        }
        if let Some(at) = points
            .windows(2)
            .position(|w| w[1].0 < w[0].0 || w[1].1 < w[0].1)
        {
            return Err(EmpiricalError::Falls { point: at + 1 });
        }
        if first.1 != 0.0 || last.1 != 1.0 {
            return Err(EmpiricalError::Open);
        }
        Ok(Self { points })
    }

    /// The points of the curve.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The value at `share`, which is clamped to 0 to 1.
    pub fn quantile(&self, share: f64) -> f64 {
        let share = share.clamp(0.0, 1.0);
        let after = self.points.partition_point(|point| point.1 < share).max(1);
        let (from, to) = (
            self.points[after - 1],
            self.points[after.min(self.points.len() - 1)],
        );
        if to.1 <= from.1 {
            return to.0;
        }
        from.0 + (to.0 - from.0) * (share - from.1) / (to.1 - from.1)
    }

    /// The fraction at or below `value`.
    pub fn share_below(&self, value: f64) -> f64 {
        let after = self.points.partition_point(|point| point.0 <= value);
        if after == 0 {
            return 0.0;
        }
        let Some(to) = self.points.get(after) else {
            return 1.0;
        };
        let from = self.points[after - 1];
        from.1 + (to.1 - from.1) * (value - from.0) / (to.0 - from.0)
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        let part = |pair: &[(f64, f64)]| (pair[0].0 + pair[1].0) / 2.0 * (pair[1].1 - pair[0].1);
        self.points.windows(2).map(part).sum()
    }

    /// A random value from the distribution.
    pub fn sample(&self, generator: &mut Generator) -> f64 {
        self.quantile(generator.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn curve() -> Empirical {
        Empirical::new(vec![(0.0, 0.0), (10.0, 0.5), (10.0, 0.7), (30.0, 1.0)]).expect("a curve")
    }

    #[test]
    fn values_are_interpolated_and_steps_are_kept() {
        let curve = curve();
        assert_eq!(curve.quantile(0.25), 5.0);
        assert_eq!(curve.quantile(0.6), 10.0);
        assert_eq!(curve.quantile(0.85), 20.0);
        assert_eq!((curve.quantile(-1.0), curve.quantile(2.0)), (0.0, 30.0));
        assert_eq!(curve.share_below(9.0), 0.45);
        assert_eq!(curve.share_below(10.0), 0.7);
        assert_eq!(
            (curve.share_below(-1.0), curve.share_below(99.0)),
            (0.0, 1.0)
        );
        assert_eq!(curve.mean(), 0.5 * 5.0 + 0.2 * 10.0 + 0.3 * 20.0);
    }

    #[test]
    fn the_mean_of_samples_is_the_mean_of_the_curve() {
        let mut generator = Generator::new(9);
        let sum: f64 = (0..50_000).map(|_| curve().sample(&mut generator)).sum();
        assert!(libm::fabs(sum / 50_000.0 - curve().mean()) < 0.2);
    }

    #[test]
    fn invalid_points_are_rejected_and_identified() {
        for (points, error) in [
            (vec![(0.0, 0.0)], EmpiricalError::TooFew),
            (
                vec![(0.0, 0.0), (1.0, 1.5)],
                EmpiricalError::Outside { point: 1 },
            ),
            (
                vec![(0.0, 0.0), (f64::NAN, 1.0)],
                EmpiricalError::Outside { point: 1 },
            ),
            (
                vec![(1.0, 0.0), (0.0, 1.0)],
                EmpiricalError::Falls { point: 1 },
            ),
            (vec![(0.0, 0.1), (1.0, 1.0)], EmpiricalError::Open),
        ] {
            assert_eq!(Empirical::new(points), Err(error));
        }
    }
}
