//! Power laws of chain lengths, as shown in tables and figures.

use alloc::vec::Vec;

use headlong_chains::{FitPoints, PowerLaw, SEGMENT_STARTS, Survival};

/// One of the three fitted segments of lengths (thesis 5.3.3).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FittedSegment {
    place: usize,
    /// Its law.
    pub(crate) law: PowerLaw,
}

/// The segments with enough lengths for a fit.
pub(crate) fn segments(runs: &[(u64, u64)]) -> Vec<FittedSegment> {
    let fit = Survival::of(runs).fit(FitPoints::Distinct);
    let laws = fit.segments.into_iter().enumerate();
    laws.filter_map(|(place, law)| {
        let law = law.filter(|law| law.a.is_finite() && law.c.is_finite())?;
        Some(FittedSegment { place, law })
    })
    .collect()
}

impl FittedSegment {
    /// Its index among the three.
    pub(crate) const fn place(&self) -> usize {
        self.place
    }

    /// The smallest and largest of these lengths that lie in the segment and at which its law is a
    /// probability.
    pub(crate) fn ends(&self, runs: &[(u64, u64)]) -> (f64, f64) {
        let from = SEGMENT_STARTS[self.place].max(1);
        let to = SEGMENT_STARTS
            .get(self.place + 1)
            .copied()
            .unwrap_or(u64::MAX);
        let mut inside = runs
            .iter()
            .map(|run| run.0)
            .filter(|length| (from..to).contains(length));
        let first = inside.next().unwrap_or(from);
        let last = inside.next_back().unwrap_or(first) as f64;
        // Below this length the law would exceed 1.
        let all_longer = libm::pow(self.law.a, 1.0 / self.law.c);
        ((first as f64).max(all_longer).min(last), last)
    }
}
