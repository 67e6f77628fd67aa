//! What chains are like: thesis Table 5.4 and Figures 5.11 to 5.13, and survival distances.

use headlong_chains::Chain;

use super::counting::Lengths;
use super::observing::{Rows, row_of};
use super::outcome::{Axis, Figure, Form, Outcome, Series, Table, mean, per_cent};
use super::survival::{Segment, segments};
use super::view::{KINDS, Log, SessionView, kind_index, kind_name, nominal_us};

/// Most points of a distribution that are kept, equally far apart on a logarithmic axis.
const POINTS_MAX: usize = 700;
/// 1 MB of Table 5.4 (A17).
const MEBI: f64 = (1 << 20) as f64;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    chains: u64,
    requests: u64,
    bytes: u64,
    us: u128,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.chains += other.chains;
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.us += other.us;
    }
}

/// Where a chain starts, as Figure 5.12 tells chains apart.
const STARTS: [&str; 3] = [
    "open-ended, at offset zero",
    "chunks, at offset zero",
    "elsewhere",
];

/// Chains by kind, and their lengths.
#[derive(Debug, Clone, Default)]
pub struct Chaining {
    /// Open-ended first, then chunks; by kind.
    by_kind: [[Sum; 3]; 2],
    mixed: u64,
    /// By [`STARTS`].
    lengths: [Lengths; 3],
}

impl Chaining {
    /// One session more.
    pub fn add(&mut self, log: &Log, view: &SessionView<'_>) {
        for chain in view.chains {
            let info = log.file(chain.file);
            self.by_kind[usize::from(!chain.is_open)][kind_index(info.kind)].add(&Sum {
                chains: 1,
                requests: u64::from(chain.requests),
                bytes: chain.length,
                us: u128::from(nominal_us(chain.length, info.kbps)),
            });
            self.mixed += u64::from(chain.is_mixed);
            self.lengths[start_class(chain)].add(chain.length);
        }
    }

    /// Those of another part too.
    pub fn merge(&mut self, other: Self) {
        for (mine, other) in self
            .by_kind
            .iter_mut()
            .flatten()
            .zip(other.by_kind.iter().flatten())
        {
            mine.add(other);
        }
        self.mixed += other.mixed;
        for (mine, other) in self.lengths.iter_mut().zip(other.lengths) {
            mine.merge(other);
        }
    }

    /// The sums by type and kind.
    pub(super) fn rows(&self) -> Rows {
        self.by_kind
            .map(|kinds| kinds.map(|sum| row_of(sum.chains, sum.requests, sum.bytes, sum.us)))
    }

    /// What thesis 5.3.2 tells, of 1: chains at offset zero; open-ended ones there of exactly 768
    /// KiB, and shorter; chunk ones there below 16 KiB, and 128 KiB; the others below 768 KiB.
    pub(super) fn zero_shares(&self) -> [f64; 6] {
        let [open, chunk, rest] = self.lengths.each_ref().map(|lengths| {
            let mut lengths = lengths.clone();
            lengths.runs().to_vec()
        });
        let of = |runs: &[(u64, u64)], keep: &dyn Fn(u64) -> bool| {
            per_cent(count_where(runs, keep), count(runs) as f64) / 100.0
        };
        let zero = (count(&open) + count(&chunk)) as f64;
        [
            per_cent(zero, zero + count(&rest) as f64) / 100.0,
            of(&open, &|length| length == 786_432),
            of(&open, &|length| length < 786_432),
            of(&chunk, &|length| length < 16_384),
            of(&chunk, &|length| length < 131_072),
            of(&rest, &|length| length < 786_432),
        ]
    }

    /// All lengths.
    pub fn all_lengths(&self) -> Lengths {
        let mut all = Lengths::default();
        self.lengths
            .iter()
            .for_each(|lengths| all.merge(lengths.clone()));
        all
    }

    /// Table 5.4 and Figures 5.11 to 5.13.
    pub fn finish(&mut self) -> Outcome {
        let mut all = self.all_lengths();
        let fitted = segments(all.runs());
        let mut tables = vec![self.chain_table(), self.length_table(all.runs())];
        tables.push(survival_table(&fitted, all.is_rounded()));
        Outcome {
            tables,
            figures: vec![
                cumulative(all.runs()),
                self.at_offset_zero(),
                survival_figure(all.runs(), &fitted),
            ],
        }
    }

    fn chain_table(&self) -> Table {
        let mut table = Table::new(
            "table-5.4",
            "Chains",
            "A chain is what one viewer reads of one file byte to byte, each request at most 40 s after \
             the one before. Its type is that of the request at its lowest offset. MB are 2^20 bytes; \
             NTT is nominal title time.",
            &[
                ("share", "%"),
                ("requests", "Requests/chain"),
                ("mb", "MB/chain"),
                ("ntt", "NTT/chain (s)"),
            ],
        );
        let mut whole = Sum::default();
        self.by_kind.iter().flatten().for_each(|sum| whole.add(sum));
        let mut push = |key: &str, name: &str, sum: &Sum| {
            let per_chain = |value: f64| mean(value, sum.chains).into();
            let values = [
                per_cent(sum.chains as f64, whole.chains as f64).into(),
                per_chain(sum.requests as f64),
                per_chain(sum.bytes as f64 / MEBI),
                per_chain(sum.us as f64 / 1e6),
            ];
            table.push(key, name, values);
        };
        for (kinds, (key, name)) in self
            .by_kind
            .iter()
            .zip([("open", "Open"), ("chunk", "Chunk")])
        {
            let mut total = Sum::default();
            for (sum, kind) in kinds.iter().zip(KINDS.map(kind_name)) {
                push(&format!("{key}-{kind}"), &format!("{name} {kind}"), sum);
                total.add(sum);
            }
            push(&format!("{key}-total"), &format!("{name} total"), &total);
        }
        push("total", "Grand total", &whole);
        table
    }

    fn length_table(&mut self, all: &[(u64, u64)]) -> Table {
        let mut table = Table::new(
            "table-chain-lengths",
            "Lengths of chains",
            "What the text of thesis 5.3 tells of Figures 5.11 to 5.13. Here 1 MB is 10^6 bytes.",
            &[("value", "Value")],
        );
        let [open, chunk, _] = self
            .lengths
            .each_mut()
            .map(|lengths| lengths.runs().to_vec());
        let chains = count(all) as f64;
        let below = |runs: &[(u64, u64)], limit| {
            per_cent(count_where(runs, |l| l < limit), count(runs) as f64)
        };
        let longer = |limit| per_cent(count_where(all, |l| l > limit), chains);
        let sum = |runs: &[(u64, u64)], keep: &dyn Fn(u64) -> bool| -> f64 {
            let kept = runs.iter().filter(|(length, _)| keep(*length));
            kept.map(|(length, count)| *length as f64 * *count as f64)
                .sum()
        };
        let bytes = sum(all, &|_| true);
        let bytes_in = |keep: &dyn Fn(u64) -> bool| per_cent(sum(all, keep), bytes);
        let exact = per_cent(count_where(&open, |l| l == 786_432), count(&open) as f64);
        let zero = (count(&open) + count(&chunk)) as f64;
        let mixed = per_cent(self.mixed as f64, chains);
        let elsewhere = self.lengths[2].runs();
        let rows = [
            ("chains", "Chains", chains),
            (
                "up-to-1mb",
                "Chains of 1 MB or less (%)",
                100.0 - longer(1_000_000),
            ),
            (
                "over-10mb",
                "Chains longer than 10 MB (%)",
                longer(10_000_000),
            ),
            (
                "bytes-over-10mb",
                "Bytes in chains longer than 10 MB (%)",
                bytes_in(&|l| l > 10_000_000),
            ),
            (
                "bytes-under-1mb",
                "Bytes in chains shorter than 1 MB (%)",
                bytes_in(&|l| l < 1_000_000),
            ),
            (
                "over-20mb",
                "Chains longer than 20 MB (%)",
                longer(20_000_000),
            ),
            (
                "over-450mb",
                "Chains longer than 450 MB (%)",
                longer(450_000_000),
            ),
            (
                "at-zero",
                "Chains that start at offset zero (%)",
                per_cent(zero, chains),
            ),
            (
                "open-768k",
                "Of open-ended ones at zero: exactly 768 KB (%)",
                exact,
            ),
            (
                "open-under-768k",
                "Of open-ended ones at zero: shorter than 768 KB (%)",
                below(&open, 786_432),
            ),
            (
                "chunk-under-16k",
                "Of chunk ones at zero: shorter than 16 KB (%)",
                below(&chunk, 16_384),
            ),
            (
                "chunk-under-128k",
                "Of chunk ones at zero: shorter than 128 KB (%)",
                below(&chunk, 131_072),
            ),
            (
                "rest-under-768k",
                "Of the others: shorter than 768 KB (%)",
                below(elsewhere, 786_432),
            ),
            ("mixed", "Chains with requests of both types (%)", mixed),
        ];
        for (key, name, value) in rows {
            table.push(key, name, [value.into()]);
        }
        table
    }

    fn at_offset_zero(&mut self) -> Figure {
        let figure = Figure::new(
            "figure-5.12",
            "Chains that start at offset zero",
            Form::Steps,
            Axis::new("Length of the chain", "bytes").log(),
            Axis::new("Chains no longer", "%"),
        )
        .reading(
            "Files begin with a table of segments, which players read before anything else. Chains \
             that start there are short, and are known by their start.",
        );
        STARTS
            .into_iter()
            .zip(&mut self.lengths)
            .fold(figure, |figure, (name, lengths)| {
                let points = cumulative_points(lengths.runs(), |_| 1.0);
                match points.is_empty() {
                    true => figure,
                    false => figure.series(Series::new(name, points)),
                }
            })
    }
}

/// Which of [`STARTS`].
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

/// Length and per cent of the weight in lengths up to it, at lengths that a logarithmic axis shows
/// apart.
fn cumulative_points(runs: &[(u64, u64)], weight: impl Fn(u64) -> f64) -> Vec<(f64, f64)> {
    let total: f64 = runs
        .iter()
        .map(|(length, count)| weight(*length) * *count as f64)
        .sum();
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
        return Vec::new();
    };
    let step = (last.0 as f64 / first.0.max(1) as f64).powf(1.0 / POINTS_MAX as f64);
    let (mut so_far, mut next) = (0.0, 0.0);
    let mut points = Vec::new();
    let mut shown = 0.0;
    for (place, (length, count)) in runs.iter().enumerate() {
        so_far += weight(*length) * *count as f64;
        let share = per_cent(so_far, total);
        // Never over a jump: 84 % of one class of chains have one and the same length.
        if *length as f64 >= next || place + 1 == runs.len() || share - shown > 0.5 {
            points.push((*length as f64, share));
            next = *length as f64 * step;
            shown = share;
        }
    }
    points
}

fn cumulative(runs: &[(u64, u64)]) -> Figure {
    Figure::new(
        "figure-5.11",
        "Chains ordered by length",
        Form::Steps,
        Axis::new("Length of the chain", "bytes").log(),
        Axis::new("In chains no longer", "%"),
    )
    .reading(
        "The further apart the two curves, the more of the bytes are in few long chains, and the more \
         reading ahead can save.",
    )
    .series(Series::new("chains", cumulative_points(runs, |_| 1.0)))
    .series(Series::new("bytes requested", cumulative_points(runs, |length| length as f64)))
}

fn survival_figure(runs: &[(u64, u64)], fitted: &[Segment]) -> Figure {
    // The largest is left out: nothing is longer, and zero has no place on this axis.
    let longer = cumulative_points(runs, |_| 1.0).into_iter();
    let longer = longer
        .map(|(length, share)| (length, 100.0 - share))
        .filter(|(_, s)| *s > 1e-9);
    let mut figure = Figure::new(
        "figure-5.13",
        "Chains that are longer",
        Form::Lines,
        Axis::new("Length of the chain", "bytes").log(),
        Axis::new("Chains that are longer", "%").log(),
    )
    .reading(
        "A straight line here is a power law S(x) = A x^-c: the longer a chain already is, the further \
         it will still go. Fitted in three segments, with equal weight for each distinct length.",
    )
    .series(Series::new("measured", longer));
    for segment in fitted {
        let (from, to) = segment.ends(runs);
        let at = |x: f64| (x, 100.0 * segment.law.at(x));
        let name = format!("c = {:.3}", segment.law.c);
        figure = figure.series(Series::new(&name, [at(from), at(to)]).reference());
    }
    figure
}

fn survival_table(fitted: &[Segment], is_rounded: bool) -> Table {
    let rounded = match is_rounded {
        true => {
            " There are more than four million different lengths, so they were rounded to 0.02 %."
        }
        false => "",
    };
    let mut table = Table::new(
        "table-survival",
        "Survival of chains",
        format!(
            "S(x) = A x^-c (Eq. 5.1), least squares of ln S on ln x. With probability P a chain that is \
             x long goes on for at least (P^(-1/c) - 1) x more (Eq. 5.3).{rounded}"
        ),
        &[
            ("a", "A"),
            ("c", "c"),
            ("d45", "Distance at P = 0.45 (x)"),
            ("d50", "at P = 0.5 (x)"),
            ("d90", "at P = 0.9 (x)"),
            ("lengths", "Distinct lengths"),
        ],
    );
    let names = [
        ("short", "Below 1 MB"),
        ("middle", "1 to 200 MB"),
        ("long", "200 MB and more"),
    ];
    for segment in fitted {
        let (key, name) = names[segment.place()];
        let law = &segment.law;
        table.push(
            key,
            name,
            [
                law.a.into(),
                law.c.into(),
                law.multiplier(0.45).into(),
                law.multiplier(0.5).into(),
                law.multiplier(0.9).into(),
                law.points.into(),
            ],
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_in_a_distribution_is_kept() {
        let mut runs: Vec<(u64, u64)> = (1..100_000).map(|length| (length * 100, 1)).collect();
        runs[7864].1 = 500_000;
        let points = cumulative_points(&runs, |_| 1.0);
        assert!(points.len() < POINTS_MAX + 300, "{}", points.len());
        assert!(points.iter().any(|(length, _)| *length == 786_500.0));
        assert_eq!(points.last().map(|point| point.1), Some(100.0));
    }
}
