//! The first prefetch of a chain, optimised for a table (thesis 5.6.1, Table 5.6).
//!
//! For a first size `s`, the benefit is the bytes of it that viewers consume, the cost the bytes
//! they do not, plus a seek for every longer chain; a seek counts as the bytes that could be
//! transferred in its time. The best size has the lowest ratio of cost to benefit.

use headlong_engine::ChainGrowth;
use serde::Serialize;

use crate::table::{ChainClass, ChainTable};

/// The best first size of a class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FirstSize {
    /// The class.
    pub class: &'static str,
    /// Number of chains of that class.
    pub chains: usize,
    /// The size with the lowest ratio, bytes; the smallest of equal ones. `None` without chains.
    pub best_bytes: Option<u64>,
    /// Its cost divided by its benefit.
    pub ratio: Option<f64>,
    /// The published size, bytes.
    pub published_bytes: u64,
    /// The ratio of the published size on this table.
    pub published_ratio: Option<f64>,
    /// Share of the chains up to the best size.
    pub within: Option<f64>,
}

/// Table 5.6 for a table of chains.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FirstSizes {
    /// One for each class.
    pub classes: Vec<FirstSize>,
    /// Bytes that a seek counts for.
    pub seek_bytes: f64,
}

impl FirstSizes {
    /// The best size of a class, or the published one if the table has no such chain.
    pub fn of(&self, class: ChainClass) -> u64 {
        let first = self
            .classes
            .iter()
            .find(|first| first.class == class.name());
        first.map_or(published(class), |first| {
            first.best_bytes.unwrap_or(first.published_bytes)
        })
    }
}

/// Thesis Table 5.6.
const fn published(class: ChainClass) -> u64 {
    match class {
        ChainClass::OpenAtZero => ChainGrowth::NETFLIX.first_open_at_zero_bytes,
        ChainClass::ChunkAtZero => ChainGrowth::NETFLIX.first_chunk_at_zero_bytes,
        ChainClass::Later => ChainGrowth::NETFLIX.first_later_bytes,
    }
}

/// Finds the best first size of each class up to `size_max` bytes; a seek costs as much as
/// transferring `seek_bytes`.
///
/// Between two consecutive chain lengths the ratio is a quotient of two linear functions and has
/// its minimum at an end; so evaluating all lengths, and one byte less, gives the exact result.
pub fn first_sizes(table: &ChainTable, seek_bytes: f64, size_max: u64) -> FirstSizes {
    let classes = ChainClass::ALL.iter().map(|class| {
        let mut lengths: Vec<u64> = table.lengths_of(*class).collect();
        lengths.sort_unstable();
        let costs = SizeCosts::new(&lengths, seek_bytes);
        let best = costs.best(size_max);
        let published_bytes = published(*class);
        FirstSize {
            class: class.name(),
            chains: lengths.len(),
            best_bytes: best.map(|best| best.0),
            ratio: best.map(|best| best.1),
            published_bytes,
            published_ratio: (!lengths.is_empty()).then(|| costs.ratio(published_bytes)),
            within: best.map(|best| {
                lengths.partition_point(|length| *length <= best.0) as f64 / lengths.len() as f64
            }),
        }
    });
    FirstSizes {
        classes: classes.collect(),
        seek_bytes,
    }
}

struct SizeCosts<'l> {
    /// Ascending.
    lengths: &'l [u64],
    /// Prefix sums.
    sums: Vec<u128>,
    seek_bytes: f64,
}

impl<'l> SizeCosts<'l> {
    fn new(lengths: &'l [u64], seek_bytes: f64) -> Self {
        let mut sums = Vec::with_capacity(lengths.len() + 1);
        let mut sum = 0;
        sums.push(sum);
        for length in lengths {
            sum += u128::from(*length);
            sums.push(sum);
        }
        Self {
            lengths,
            sums,
            seek_bytes,
        }
    }

    fn ratio(&self, size: u64) -> f64 {
        let within = self.lengths.partition_point(|length| *length <= size);
        self.ratio_of(size, within)
    }

    /// The ratio of a size, with the number of chains up to that size.
    fn ratio_of(&self, size: u64, within: usize) -> f64 {
        let longer = (self.lengths.len() - within) as u128;
        let taken = self.sums[within];
        let benefit = taken + longer * u128::from(size);
        let wasted = within as u128 * u128::from(size) - taken;
        (wasted as f64 + longer as f64 * self.seek_bytes) / benefit as f64
    }

    fn best(&self, size_max: u64) -> Option<(u64, f64)> {
        let mut best: Option<(u64, f64)> = None;
        let mut look = |size: u64, within: usize| {
            if size == 0 || size > size_max {
                return;
            }
            let ratio = self.ratio_of(size, within);
            if best.is_none_or(|best| ratio < best.1) {
                best = Some((size, ratio));
            }
        };
        let mut before = 0;
        for run in self.lengths.chunk_by(|one, other| one == other) {
            look(run[0] - 1, before);
            before += run.len();
            look(run[0], before);
        }
        if before > 0 {
            let within = self.lengths.partition_point(|length| *length <= size_max);
            look(size_max, within);
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive_ratio(lengths: &[u64], size: u64, seek_bytes: f64) -> f64 {
        let benefit: u64 = lengths.iter().map(|length| (*length).min(size)).sum();
        let wasted: u64 = lengths
            .iter()
            .map(|length| size.saturating_sub(*length))
            .sum();
        let seeks = lengths.iter().filter(|length| **length > size).count();
        (wasted as f64 + seeks as f64 * seek_bytes) / benefit as f64
    }

    proptest! {
        #[test]
        fn found_size_has_best_ratio(
            mut lengths in prop::collection::vec(1_u64..300, 1..40),
            seek_bytes in 0.0_f64..500.0,
        ) {
            lengths.sort_unstable();
            let costs = SizeCosts::new(&lengths, seek_bytes);
            let (best, ratio) = costs.best(1_000).expect("a size");
            prop_assert!((ratio - naive_ratio(&lengths, best, seek_bytes)).abs() < 1e-12);
            for size in 1..400 {
                let other = naive_ratio(&lengths, size, seek_bytes);
                prop_assert!(ratio <= other + 1e-12, "{size} has {other}, {best} {ratio}");
            }
        }
    }

    #[test]
    fn equal_chains_are_read_whole_if_seeks_are_expensive() {
        let lengths = vec![786_432; 100];
        assert_eq!(
            SizeCosts::new(&lengths, 3e6).best(1 << 30),
            Some((786_432, 0.0))
        );
        assert_eq!(SizeCosts::new(&[], 3e6).best(1 << 30), None);
    }
}
