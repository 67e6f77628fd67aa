//! Survival of the table's chains, and the growth derived from it (thesis 5.3.3).

use headlong_chains::{FitPoints, Survival};
use headlong_engine::ChainGrowth;
use serde::Serialize;

use crate::first_sizes::FirstSizes;
use crate::table::{ChainClass, ChainTable};

/// The survival probability for which FirstGrow's growth is defined (thesis 5.6.1).
pub const SURVIVAL: f64 = 0.45;
/// The published multiplier (thesis 5.3.3).
pub const MULTIPLIER: f64 = 3.35;
/// Resolution of the growth.
const PARTS: u64 = 1_000;
/// Multipliers outside this range are useless as a growth: prefetches would hardly grow, or the
/// next one would be the whole title.
const USEFUL: std::ops::RangeInclusive<f64> = 0.05..=1_000.0;
/// With a smaller growth the second prefetch would be smaller than the first, but prefetches never
/// shrink.
const GROWTH_MIN: f64 = 1.0;

/// One of the three power laws, `S(x) = a x^-c`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SurvivalLaw {
    /// Start of its segment, bytes.
    pub from_bytes: u64,
    /// A of Eq. 5.1.
    pub a: f64,
    /// c of Eq. 5.1.
    pub c: f64,
    /// Number of lengths in the fit.
    pub points: usize,
    /// Share of the variance explained.
    pub r_squared: f64,
}

impl SurvivalLaw {
    /// The share of chains longer than this, by the law.
    pub fn at(&self, length: f64) -> f64 {
        self.a * length.powf(-self.c)
    }
}

/// The survival of chains and the growth derived from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SurvivalFit {
    /// Probability of the multiplier.
    pub survival: f64,
    /// How far a chain continues with that probability, in multiples of its length: least squares
    /// over all distinct lengths from 1 MB to 200 MB.
    pub multiplier: Option<f64>,
    /// The same from 200 points equally spaced in ln x.
    pub multiplier_grid: Option<f64>,
    /// The published one.
    pub published_multiplier: f64,
    /// The laws of the segments after the first.
    pub laws: Vec<SurvivalLaw>,
    /// Length in bytes, and share of longer chains: eight points per decade.
    pub longer: Vec<(u64, f64)>,
}

/// Fits the lengths of all chains.
pub fn survival(table: &ChainTable) -> SurvivalFit {
    let mut lengths = table.lengths().to_vec();
    lengths.sort_unstable();
    let counted: Vec<(u64, u64)> = lengths
        .chunk_by(|one, other| one == other)
        .map(|run| (run[0], run.len() as u64))
        .collect();
    let survival = Survival::of(&counted);
    let fit = survival.fit(FitPoints::Distinct);
    let starts = headlong_chains::SEGMENT_STARTS.iter().zip(fit.segments);
    let laws = starts.filter_map(|(from_bytes, law)| {
        let law = law?;
        Some(SurvivalLaw {
            from_bytes: *from_bytes,
            a: law.a,
            c: law.c,
            points: law.points,
            r_squared: law.r_squared,
        })
    });
    let eighths = (16..=88).map(|eighth| 10_f64.powf(f64::from(eighth) / 8.0) as u64);
    let longer = eighths.map(|length| (length, survival.at(length)));
    let finite = |multiplier: Option<f64>| multiplier.filter(|number| number.is_finite());
    SurvivalFit {
        survival: SURVIVAL,
        multiplier: finite(fit.growth(SURVIVAL)),
        multiplier_grid: finite(survival.fit(FitPoints::Grid).growth(SURVIVAL)),
        published_multiplier: MULTIPLIER,
        laws: laws.collect(),
        longer: longer.take_while(|point| point.1 > 0.0).collect(),
    }
}

impl SurvivalFit {
    fn useful(&self) -> Option<f64> {
        self.multiplier.filter(|times| USEFUL.contains(times))
    }

    /// Whether the fit is valid but gives a growth below 1: then a fitted rule uses 1.
    pub fn is_raised(&self) -> bool {
        self.useful().is_some_and(|times| times < GROWTH_MIN)
    }

    /// FirstGrow's parameters for this workload; the published growth if the fit is invalid.
    pub fn growth(&self, first: &FirstSizes) -> ChainGrowth {
        let useful = self.useful().map(|times| times.max(GROWTH_MIN));
        ChainGrowth {
            first_open_at_zero_bytes: first.of(ChainClass::OpenAtZero),
            first_chunk_at_zero_bytes: first.of(ChainClass::ChunkAtZero),
            first_later_bytes: first.of(ChainClass::Later),
            times: useful.map_or(ChainGrowth::NETFLIX.times, |times| {
                ((times * PARTS as f64).round() as u64, PARTS)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChainRow, first_sizes};

    /// S(x) = (x / 1 MB)^-c from 1 MB, at quantiles.
    fn of_law(c: f64) -> ChainTable {
        let rows = (1..4_000_u32).map(|index| {
            let share = f64::from(index) / 4_000.0;
            ChainRow {
                session: 0,
                file: 0,
                start: 1,
                length: (1e6 * share.powf(-1.0 / c)) as u64,
                start_ms: 0,
                end_ms: 1,
                is_open: false,
                bit_rate: None,
                disk: 0,
            }
        });
        ChainTable::new(rows).expect("chains")
    }

    #[test]
    fn growth_below_one_is_raised() {
        let table = of_law(1.5);
        let fit = survival(&table);
        assert!(fit.multiplier.expect("a fit") < 0.9 && fit.is_raised());
        let growth = fit.growth(&first_sizes(&table, 3e6, 1 << 30));
        assert_eq!(growth.times, (1_000, 1_000));
    }

    #[test]
    fn power_law_chains_give_its_multiplier() {
        let table = of_law(0.543);
        let fit = survival(&table);
        let multiplier = fit.multiplier.expect("a fit");
        assert!((multiplier - MULTIPLIER).abs() < 0.05, "{multiplier}");
        let growth = fit.growth(&first_sizes(&table, 3e6, 1 << 30));
        assert_eq!(growth.times.1, 1_000);
        assert!(!fit.is_raised());
        assert_eq!(growth.first_chunk_at_zero_bytes, 131_073);
    }

    #[test]
    fn single_chain_uses_published_growth() {
        let row = ChainRow {
            session: 0,
            file: 0,
            start: 0,
            length: 10,
            start_ms: 0,
            end_ms: 1,
            is_open: true,
            bit_rate: None,
            disk: 0,
        };
        let table = ChainTable::new([row]).expect("a chain");
        let fit = survival(&table);
        assert_eq!(fit.multiplier, None);
        let growth = fit.growth(&first_sizes(&table, 3e6, 1 << 30));
        assert_eq!(growth.times, (67, 20));
        assert_eq!(growth.first_open_at_zero_bytes, 10);
    }
}
