//! Properties of chains: thesis Table 5.4, Figures 5.11 to 5.13, and survival distances.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use headlong_chains::{Chain, FitPoints, LengthCounts, PowerLaw, SEGMENT_STARTS, Survival};

use crate::merge::{Merge as _, sums, with_totals};
use crate::observations::ChainRow;
use crate::tables::{Captions, CellValue, Figure, ReportItems, Series, Table, mean, per_cent};
use crate::view::{LogContext, SessionView, nominal_us};

/// Most points of a distribution, equally spaced on a logarithmic axis.
const POINTS_MAX: usize = 700;

sums! {
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    struct ChainSum {
        chains: u64,
        requests: u64,
        bytes: u64,
        us: u128,
    }
}

/// Classes of chains by start, as in Figure 5.12.
const STARTS: [&str; 3] = [
    "open-ended, at offset zero",
    "chunks, at offset zero",
    "elsewhere",
];

sums! {
    /// Chains by kind, and their lengths.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct ChainStatistics {
        /// Open-ended first, then chunks; by kind.
        by_kind: [[ChainSum; 3]; 2],
        mixed: u64,
        /// By [`STARTS`].
        lengths: [LengthCounts; 3],
    }
}

impl ChainStatistics {
    /// Adds a session.
    pub(crate) fn add(&mut self, log: &LogContext, view: &SessionView<'_>) {
        for chain in view.chains {
            let info = log.file(chain.file);
            self.by_kind[usize::from(!chain.is_open)][info.kind as usize].merge(ChainSum {
                chains: 1,
                requests: u64::from(chain.requests),
                bytes: chain.length,
                us: u128::from(nominal_us(chain.length, info.kbps)),
            });
            self.mixed += u64::from(chain.is_mixed);
            self.lengths[start_class(chain)].add(chain.length);
        }
    }

    /// The sums by type and kind.
    pub(crate) fn rows(&self) -> [[ChainRow; 3]; 2] {
        self.by_kind.map(|kinds| {
            kinds.map(|sum| ChainRow {
                chains: sum.chains,
                requests: sum.requests,
                bytes: sum.bytes,
                seconds: sum.us as f64 / 1e6,
            })
        })
    }

    /// The shares of thesis 5.3.2, per cent: chains at offset zero; open-ended ones there of
    /// exactly 768 KiB, and shorter; chunk ones there below 16 KiB, and 128 KiB; the others below
    /// 768 KiB.
    pub(crate) fn zero_shares(&self) -> [f64; 6] {
        let [open, chunk, rest] = self
            .lengths
            .clone()
            .map(|mut lengths| lengths.runs().to_vec());
        let of = |runs: &[(u64, u64)], keep: &dyn Fn(u64) -> bool| {
            per_cent(count_where(runs, keep), count(runs) as f64)
        };
        let zero = (count(&open) + count(&chunk)) as f64;
        [
            per_cent(zero, zero + count(&rest) as f64),
            of(&open, &|length| length == 786_432),
            of(&open, &|length| length < 786_432),
            of(&chunk, &|length| length < 16_384),
            of(&chunk, &|length| length < 131_072),
            of(&rest, &|length| length < 786_432),
        ]
    }

    /// All lengths.
    pub(crate) fn all_lengths(&self) -> LengthCounts {
        let mut all = LengthCounts::default();
        self.lengths
            .iter()
            .for_each(|lengths| all.merge(lengths.clone()));
        all
    }

    /// Table 5.4 and Figures 5.11 to 5.13.
    pub(crate) fn finish(&mut self, captions: &Captions) -> ReportItems {
        let mut all = self.all_lengths();
        let fitted = segments(all.runs());
        let rounded = match all.is_rounded() {
            true => {
                " The log has more than four million distinct lengths, so they were rounded to 0.02 %."
            }
            false => "",
        };
        let survival = captions.table("table-survival").telling(rounded);
        ReportItems {
            tables: vec![
                self.chain_table(captions.table("table-5.4")),
                self.length_table(captions.table("table-chain-lengths"), all.runs()),
                survival_table(survival, &fitted),
            ],
            figures: vec![
                cumulative(captions.figure("figure-5.11"), all.runs()),
                self.at_offset_zero(captions.figure("figure-5.12")),
                survival_figure(captions.figure("figure-5.13"), all.runs(), &fitted),
            ],
        }
    }

    fn chain_table(&self, table: Table) -> Table {
        let rows = with_totals(&self.by_kind);
        let whole = rows[rows.len() - 1];
        table.filled(rows.iter().map(|sum| {
            let per_chain = |value: f64| mean(value, sum.chains).into();
            [
                per_cent(sum.chains as f64, whole.chains as f64).into(),
                per_chain(sum.requests as f64),
                per_chain(sum.bytes as f64 / 1e6),
                // Without a known bit rate, chains have no nominal duration.
                match sum.us {
                    0 => CellValue::None,
                    us => per_chain(us as f64 / 1e6),
                },
            ]
        }))
    }

    fn length_table(&self, table: Table, all: &[(u64, u64)]) -> Table {
        let chains = count(all) as f64;
        let longer = |limit| per_cent(count_where(all, |length| length > limit), chains);
        let bytes = |keep: &dyn Fn(u64) -> bool| -> f64 {
            let kept = all.iter().filter(|(length, _)| keep(*length));
            kept.map(|(length, count)| *length as f64 * *count as f64)
                .sum()
        };
        let bytes_in = |keep: &dyn Fn(u64) -> bool| per_cent(bytes(keep), bytes(&|_| true));
        let [zero, open_768k, open_below, chunk_16k, chunk_128k, rest] = self.zero_shares();
        let values = [
            chains,
            100.0 - longer(1_000_000),
            longer(10_000_000),
            bytes_in(&|length| length > 10_000_000),
            bytes_in(&|length| length < 1_000_000),
            longer(20_000_000),
            longer(450_000_000),
            zero,
            open_768k,
            open_below,
            chunk_16k,
            chunk_128k,
            rest,
            per_cent(self.mixed as f64, chains),
        ];
        table.filled(values.map(|value| [value.into()]))
    }

    fn at_offset_zero(&mut self, figure: Figure) -> Figure {
        let starts = STARTS.into_iter().zip(&mut self.lengths);
        starts.fold(figure, |figure, (name, lengths)| {
            let points = cumulative_points(lengths.runs(), |_| 1.0);
            match points.is_empty() {
                true => figure,
                false => figure.series(Series::new(name, points)),
            }
        })
    }
}

/// One of the three fitted segments of lengths (thesis 5.3.3).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FittedSegment {
    /// Its index among the three.
    pub(crate) place: usize,
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

/// Index into [`STARTS`].
fn start_class(chain: &Chain) -> usize {
    match (chain.start, chain.is_open) {
        (0, true) => 0,
        (0, false) => 1,
        _ => 2,
    }
}

fn count(runs: &[(u64, u64)]) -> u64 {
    runs.iter().map(|(_, count)| count).sum()
}

fn count_where(runs: &[(u64, u64)], keep: impl Fn(u64) -> bool) -> f64 {
    let kept = runs.iter().filter(|(length, _)| keep(*length));
    kept.map(|(_, count)| *count).sum::<u64>() as f64
}

/// Length, and the per cent of the weight at lengths up to it, at lengths that are distinct on a
/// logarithmic axis.
fn cumulative_points(runs: &[(u64, u64)], weight: impl Fn(u64) -> f64) -> Vec<(f64, f64)> {
    let total: f64 = runs
        .iter()
        .map(|(length, count)| weight(*length) * *count as f64)
        .sum();
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
        return Vec::new();
    };
    let step = libm::pow(
        last.0 as f64 / first.0.max(1) as f64,
        1.0 / POINTS_MAX as f64,
    );
    let (mut so_far, mut next) = (0.0, 0.0);
    let mut points = Vec::new();
    let mut shown = 0.0;
    for (place, (length, count)) in runs.iter().enumerate() {
        so_far += weight(*length) * *count as f64;
        let share = per_cent(so_far, total);
        // Keeps every jump: 84 % of one class of chains have the same length.
        if *length as f64 >= next || place + 1 == runs.len() || share - shown > 0.5 {
            points.push((*length as f64, share));
            next = *length as f64 * step;
            shown = share;
        }
    }
    points
}

fn cumulative(figure: Figure, runs: &[(u64, u64)]) -> Figure {
    figure
        .series(Series::new("chains", cumulative_points(runs, |_| 1.0)))
        .series(Series::new(
            "bytes requested",
            cumulative_points(runs, |length| length as f64),
        ))
}

fn survival_figure(mut figure: Figure, runs: &[(u64, u64)], fitted: &[FittedSegment]) -> Figure {
    // The largest length is left out: its share is zero, which a logarithmic axis cannot show.
    let longer = cumulative_points(runs, |_| 1.0).into_iter();
    let longer = longer
        .map(|(length, share)| (length, 100.0 - share))
        .filter(|(_, s)| *s > 1e-9);
    figure = figure.series(Series::new("measured", longer));
    for segment in fitted {
        let (from, to) = segment.ends(runs);
        let at = |x: f64| (x, 100.0 * segment.law.at(x));
        let name = format!("c = {:.3}", segment.law.c);
        figure = figure.series(Series::new(&name, [at(from), at(to)]).reference());
    }
    figure
}

/// Rows of the segments that have a fitted law.
fn survival_table(mut table: Table, fitted: &[FittedSegment]) -> Table {
    for segment in fitted {
        let law = &segment.law;
        let distances = [0.45, 0.5, 0.9].map(|chance| law.multiplier(chance).into());
        let row = &mut table.rows[segment.place].values;
        row.extend([law.a.into(), law.c.into()]);
        row.extend(distances);
        row.push(law.points.into());
    }
    table.rows.retain(|row| !row.values.is_empty());
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jump_in_a_distribution_is_kept() {
        let mut runs: Vec<(u64, u64)> = (1..100_000).map(|length| (length * 100, 1)).collect();
        runs[7864].1 = 500_000;
        let points = cumulative_points(&runs, |_| 1.0);
        assert!(points.len() < POINTS_MAX + 300, "{}", points.len());
        assert!(points.iter().any(|(length, _)| *length == 786_500.0));
        assert_eq!(points.last().map(|point| point.1), Some(100.0));
    }
}
