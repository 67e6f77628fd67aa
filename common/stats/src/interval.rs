//! An estimate and its uncertainty.

use core::fmt;

/// The confidence of every table and chart of the project unless stated otherwise: 95 %, as in
/// thesis Table 3.5.
pub const USUAL_CONFIDENCE: f64 = 0.95;

/// An estimate with its confidence interval, in the unit of the measured quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfidenceInterval {
    /// The estimate.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The fraction of repeated experiments whose interval contains the true value.
    pub confidence: f64,
}

impl ConfidenceInterval {
    /// Half the width: the number after ± if the interval is symmetric.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Applies a monotonically increasing function to both ends and the estimate, for example to
    /// transform logarithms back to ratios.
    pub(crate) fn map(self, rising: impl Fn(f64) -> f64) -> Self {
        Self {
            estimate: rising(self.estimate),
            low: rising(self.low),
            high: rising(self.high),
            confidence: self.confidence,
        }
    }
}

impl fmt::Display for ConfidenceInterval {
    /// `2.33 [2.20, 2.47]`, with the precision of the formatter, or two decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(2);
        write!(
            f,
            "{:.decimals$} [{:.decimals$}, {:.decimals$}]",
            self.estimate, self.low, self.high
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    fn interval(low: f64, high: f64) -> ConfidenceInterval {
        ConfidenceInterval {
            estimate: (low + high) / 2.0,
            low,
            high,
            confidence: USUAL_CONFIDENCE,
        }
    }

    #[test]
    fn an_interval_prints_the_estimate_first() {
        assert_eq!(interval(1.0, 2.0).half_width(), 0.5);
        assert_eq!(format!("{}", interval(1.0, 2.0)), "1.50 [1.00, 2.00]");
        assert_eq!(format!("{:.0}", interval(10.0, 20.0)), "15 [10, 20]");
    }
}
