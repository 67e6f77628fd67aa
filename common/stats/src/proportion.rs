//! Shares of things that either happened or did not: failed sessions of all sessions.

use crate::interval::ConfidenceInterval;
use crate::normal::normal_quantile;

/// So many of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Proportion {
    /// How many it happened to.
    pub hits: u64,
    /// Of how many. Fewer than `hits` is read as `hits`.
    pub total: u64,
}

impl Proportion {
    /// The share, if there is anything to share.
    pub fn share(&self) -> Option<f64> {
        let total = self.total.max(self.hits);
        (total > 0).then(|| self.hits as f64 / total as f64)
    }

    /// The share with its confidence interval after Wilson (1927): unlike mean ± t x deviation, it
    /// stays between 0 and 1 and says something even when nothing failed. `None` if there is
    /// nothing to share or `confidence` is not between 0 and 1.
    pub fn interval(&self, confidence: f64) -> Option<ConfidenceInterval> {
        let share = self.share()?;
        if !(confidence > 0.0 && confidence < 1.0) {
            return None;
        }
        let total = self.total.max(self.hits) as f64;
        let z = normal_quantile((1.0 + confidence) / 2.0);
        let scale = 1.0 + z * z / total;
        let centre = (share + z * z / (2.0 * total)) / scale;
        let variance = share * (1.0 - share) / total + z * z / (4.0 * total * total);
        let half = z * libm::sqrt(variance) / scale;
        Some(ConfidenceInterval {
            estimate: share,
            // Rounding must not push an end past the estimate itself.
            low: (centre - half).clamp(0.0, share),
            high: (centre + half).clamp(share, 1.0),
            confidence,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::USUAL_CONFIDENCE;
    use proptest::prelude::*;

    #[test]
    fn intervals_are_the_published_ones() {
        // Newcombe 1998, "Two-sided confidence intervals for the single proportion", Table I,
        // method 3.
        for (hits, total, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let interval = Proportion { hits, total }
                .interval(USUAL_CONFIDENCE)
                .expect("a total");
            assert!(libm::fabs(interval.low - low) < 5e-5, "{interval:.5}");
            assert!(libm::fabs(interval.high - high) < 5e-5, "{interval:.5}");
        }
    }

    #[test]
    fn of_nothing_there_is_no_share() {
        assert_eq!(Proportion::default().share(), None);
        assert_eq!(Proportion::default().interval(USUAL_CONFIDENCE), None);
        assert_eq!(Proportion { hits: 1, total: 2 }.interval(0.0), None);
        assert_eq!(Proportion { hits: 3, total: 2 }.share(), Some(1.0));
    }

    proptest! {
        #[test]
        fn intervals_stay_within_all_and_nothing(hits: u32, total: u32, confidence in 0.01..0.999f64) {
            let proportion = Proportion { hits: hits.into(), total: total.into() };
            if let Some(interval) = proportion.interval(confidence) {
                prop_assert!(0.0 <= interval.low && interval.low <= interval.estimate);
                prop_assert!(interval.estimate <= interval.high && interval.high <= 1.0);
            }
        }
    }
}
