//! The sequence of prefetch sizes of a rule for a chain.

use headlong_engine::{ChainGrowth, ChainShape, Policy, SizingConfig, prefetch_bytes_with};
use headlong_units::BitRate;

use crate::drive::Megabyte;
use crate::table::{ChainClass, ChainFeatures, ChainTable};

/// How long a chain's buffer is held after its end, ms: the gap that ends a chain (thesis 5.6.2).
pub(crate) const HOLD_MS: u64 = 40_000;
/// Bit rate to which nominal sizes refer (thesis 5.6.3).
const REFERENCE: BitRate = BitRate::from_kbps(2_000);
/// Largest number of different sizes of a chain; a rule that needs more does not grow.
const GROWING_MAX: usize = 4_096;

/// A rule with its parameters fitted to a workload, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Algorithm {
    /// The rule.
    pub policy: Policy,
    /// First sizes and growth fitted to the table itself, replacing the published ones.
    pub fitted: Option<ChainGrowth>,
}

impl Algorithm {
    /// The rule with published parameters, as the server uses it.
    pub const fn plain(policy: Policy) -> Self {
        Self {
            policy,
            fitted: None,
        }
    }

    /// Its name in tables and on the command line.
    pub fn name(&self) -> String {
        match self.fitted {
            None => self.policy.name().to_owned(),
            Some(_) => format!("{}-fitted", self.policy.name()),
        }
    }

    /// Whether the rule depends on a chain's start and growth.
    pub const fn grows(policy: Policy) -> bool {
        matches!(policy, Policy::FirstGrow | Policy::FirstGrowSr)
    }
}

/// An algorithm with its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizingRule {
    /// The rule.
    pub algorithm: Algorithm,
    /// The size itself, the size or the largest size at 2,000 kbit/s, or the largest size (thesis
    /// 5.6.3), bytes.
    pub size_bytes: u64,
}

impl SizingRule {
    /// The rule at a size in MB, rounded to bytes.
    pub fn new(algorithm: Algorithm, size_mb: f64, megabyte: Megabyte) -> Self {
        let bytes = (size_mb * megabyte.bytes() as f64 + 0.5).floor();
        Self {
            algorithm,
            // NaN and negative sizes become the minimum.
            size_bytes: (bytes as u64).max(1),
        }
    }

    fn size(&self, shape: ChainFeatures, prefetched_bytes: u64) -> u64 {
        let sizing = SizingConfig {
            policy: self.algorithm.policy,
            reference_bytes: self.size_bytes,
            reference_bit_rate: REFERENCE,
        };
        let chain = ChainShape {
            start_offset: u64::from(shape.class == ChainClass::Later),
            open_ended: shape.class == ChainClass::OpenAtZero,
            prefetched_bytes,
        };
        let growth = self.algorithm.fitted.unwrap_or(ChainGrowth::NETFLIX);
        prefetch_bytes_with(&sizing, &growth, chain, 0, shape.bit_rate)
    }

    /// All sizes of a chain of this shape.
    fn plan(&self, shape: ChainFeatures) -> (Vec<u64>, u64) {
        let last = self.size(shape, u64::MAX);
        let mut growing = Vec::new();
        let mut sum: u64 = 0;
        while growing.len() < GROWING_MAX {
            let size = self.size(shape, sum);
            if size == last {
                break;
            }
            growing.push(size);
            sum = sum.saturating_add(size);
        }
        (growing, last)
    }
}

/// The sizes of a chain: some different ones, then a constant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizePlan<'p> {
    pub(crate) growing: &'p [u64],
    pub(crate) last: u64,
}

/// A rule's sizes for each shape of a table.
pub(crate) struct ShapePlans(Vec<(Vec<u64>, u64)>);

impl ShapePlans {
    pub(crate) fn new(table: &ChainTable, rule: &SizingRule) -> Self {
        Self(table.shapes.iter().map(|shape| rule.plan(*shape)).collect())
    }

    #[inline]
    pub(crate) fn plan(&self, table: &ChainTable, chain: usize) -> SizePlan<'_> {
        let (growing, last) = &self.0[table.shape_of[chain] as usize];
        SizePlan {
            growing,
            last: *last,
        }
    }

    /// The largest size.
    pub(crate) fn size_max(&self) -> u64 {
        self.0.iter().map(|(_, last)| *last).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_by_table_5_6_up_to_largest() {
        let rule = SizingRule::new(Algorithm::plain(Policy::FirstGrow), 7.0, Megabyte::Binary);
        let shape = |class| ChainFeatures {
            class,
            bit_rate: None,
        };
        assert_eq!(
            rule.plan(shape(ChainClass::ChunkAtZero)),
            (vec![131_073, 439_095, 1_910_063], 7 << 20)
        );
        assert_eq!(
            rule.plan(shape(ChainClass::OpenAtZero)).0,
            [1_049_212, 3_514_860]
        );
        assert_eq!(rule.plan(shape(ChainClass::Later)).0, [2_936_037]);
        let small = SizingRule::new(rule.algorithm, 0.1, Megabyte::Decimal);
        assert_eq!(
            small.plan(shape(ChainClass::ChunkAtZero)),
            (vec![], 100_000)
        );
    }
}
