//! Figures for records: rounding, ratios, and summaries of distributions.

use headlong_units::Duration;
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

/// Summary of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DistributionSummary {
    /// Number of values.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
}

impl DistributionSummary {
    pub(crate) fn of(times: &Histogram) -> Self {
        let milliseconds = |time: Duration| round(time.0 as f64 / 1e6, 3);
        Self {
            count: times.count() as usize,
            mean: milliseconds(times.mean()),
            p50: milliseconds(times.quantile(0.5)),
            p90: milliseconds(times.quantile(0.9)),
            p99: milliseconds(times.quantile(0.99)),
            p999: milliseconds(times.quantile(0.999)),
            max: milliseconds(times.max()),
        }
    }
}

/// Ratio rounded to four decimals; zero if `whole` is zero.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        round(part / whole, 4)
    } else {
        0.0
    }
}

pub(crate) fn round(value: f64, places: i32) -> f64 {
    let scale = 10_f64.powi(places);
    (value * scale).round() / scale
}

/// Whether a count is left out of a record.
pub(crate) fn is_none(number: &u64) -> bool {
    *number == 0
}

/// Whether a figure is left out of a record.
pub(crate) fn is_zero(number: &f64) -> bool {
    *number == 0.0
}
