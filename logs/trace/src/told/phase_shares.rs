//! Time and bytes by phase, and how much faster than play a chain is fetched: thesis 5.4.3 to
//! 5.4.6, Figure 5.20.

use super::counting::{BySecond, LogHistogram, smooth_bins};
use super::outcome::{Axis, Figure, Form, Outcome, Series, Table, Value, mean, per_cent};
use super::seconds::LONG_MS;
use super::view::{Log, READINGS, SessionView, Span, nominal_us, union_ms};

/// One reading of A12: sums over sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Milliseconds covered by transient, stable and inactive phases.
    pub covered_ms: [u64; 3],
    /// How long phases of the three kinds are, ms.
    pub lengths_ms: [LogHistogram; 3],
    /// Sessions that begin in a transient phase.
    pub start_transient: u64,
    /// Sessions with a stable phase.
    pub with_stable: u64,
    /// Of those without, the ones too short to have one.
    pub short: u64,
    /// Transient phases after the first of a session.
    pub successors: u64,
    /// Chains in a transient phase, and how many there are in the first and in later ones.
    pub chains_first: u64,
    /// See [`chains_first`](Self::chains_first).
    pub firsts: u64,
    /// Chains in later transient phases.
    pub chains_later: u64,
}

/// Names of the three kinds of phases, as [`Reading`] orders them.
const PHASES: [&str; 3] = ["transient", "stable", "inactive"];

/// Phases of all sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PhaseShares {
    sessions: u64,
    sessions_ms: u64,
    /// Without audio, and of all files.
    pub readings: [Reading; 2],
    /// Bytes in short and in long chains of any file.
    bytes: [u64; 2],
    /// Of open-ended and of chunk chains by whole seconds of their duration: nominal time, time.
    nominal_us: [BySecond; 2],
    took_ms: [BySecond; 2],
}

impl PhaseShares {
    /// One session more.
    pub fn add(&mut self, log: &Log, view: &SessionView<'_>) {
        self.sessions += 1;
        self.sessions_ms += view.span.ms();
        for chain in view.chains {
            let ms = (chain.end_ms - chain.start_ms).max(0);
            self.bytes[usize::from(ms > LONG_MS)] += chain.length;
            let type_ = usize::from(!chain.is_open);
            let second = (ms / 1000) as usize;
            // A rate needs a time, and only whole seconds are told apart.
            if second > 0 {
                let us = nominal_us(chain.length, log.file(chain.file).kbps);
                self.nominal_us[type_].add(second, us);
                self.took_ms[type_].add(second, ms as u64);
            }
        }
        for reading in 0..2 {
            self.add_reading(view, reading);
        }
    }

    fn add_reading(&mut self, view: &SessionView<'_>, which: usize) {
        let (phases, sums) = (view.phases[which], &mut self.readings[which]);
        let stable = phases.stable.iter().map(|place| {
            let chain = &view.chains[*place as usize];
            Span {
                start_ms: chain.start_ms,
                end_ms: chain.end_ms,
            }
        });
        let mut spans = [
            phases
                .transient
                .iter()
                .map(|cluster| cluster.span)
                .collect(),
            stable.collect::<Vec<_>>(),
            phases.inactive.clone(),
        ];
        let has_stable = !spans[1].is_empty();
        sums.start_transient += u64::from(phases.starts_transient);
        sums.with_stable += u64::from(has_stable);
        sums.short += u64::from(!has_stable && view.span.ms() as i64 <= LONG_MS);
        for (place, cluster) in phases.transient.iter().enumerate() {
            let chains = cluster.chains.len() as u64;
            match place {
                0 => {
                    (sums.firsts, sums.chains_first) = (sums.firsts + 1, sums.chains_first + chains)
                }
                _ => {
                    (sums.successors, sums.chains_later) =
                        (sums.successors + 1, sums.chains_later + chains)
                }
            }
        }
        for (kind, spans) in spans.iter_mut().enumerate() {
            spans
                .iter()
                .for_each(|span| sums.lengths_ms[kind].add(span.ms()));
            sums.covered_ms[kind] += union_ms(spans);
        }
    }

    /// Those of another part too.
    pub fn merge(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.sessions_ms += other.sessions_ms;
        for (mine, other) in self.readings.iter_mut().zip(&other.readings) {
            for kind in 0..3 {
                mine.covered_ms[kind] += other.covered_ms[kind];
                mine.lengths_ms[kind].merge(&other.lengths_ms[kind]);
            }
            mine.start_transient += other.start_transient;
            mine.with_stable += other.with_stable;
            mine.short += other.short;
            mine.successors += other.successors;
            mine.chains_first += other.chains_first;
            mine.firsts += other.firsts;
            mine.chains_later += other.chains_later;
        }
        for kind in 0..2 {
            self.bytes[kind] += other.bytes[kind];
            self.nominal_us[kind].merge(&other.nominal_us[kind]);
            self.took_ms[kind].merge(&other.took_ms[kind]);
        }
    }

    /// Of 1 of the time of all sessions, for a reading: transient, stable, inactive.
    pub fn time_shares(&self, reading: usize) -> [f64; 3] {
        let share = |ms: u64| per_cent(ms as f64, self.sessions_ms as f64) / 100.0;
        self.readings[reading].covered_ms.map(share)
    }

    /// Of 1 of all bytes: those in short chains.
    pub fn transient_bytes_share(&self) -> f64 {
        per_cent(self.bytes[0] as f64, (self.bytes[0] + self.bytes[1]) as f64) / 100.0
    }

    /// Sessions that were counted.
    pub const fn sessions(&self) -> u64 {
        self.sessions
    }

    /// Tables of time, bytes and counts by phase, and Figure 5.20.
    pub fn finish(&self) -> Outcome {
        Outcome {
            tables: vec![self.time_table(), self.count_table()],
            figures: vec![self.transfer_figure()],
        }
    }

    fn time_table(&self) -> Table {
        let mut table = Table::new(
            "table-phases",
            "Time and bytes by phase",
            "Shares of the sum of session lengths; phases of different kinds may overlap, and gaps of 10 \
             to 40 s belong to none. The thesis does not say whether audio counts, so both readings \
             are here. Bytes: of chains of any file.",
            &[
                ("time", "Time, without audio (%)"),
                ("time-all", "Time, all files (%)"),
                ("bytes", "Bytes (%)"),
                ("mean", "Mean length, without audio (s)"),
                ("mean-all", "Mean length, all files (s)"),
            ],
        );
        let shares = [self.time_shares(0), self.time_shares(1)];
        let transient = self.transient_bytes_share() * 100.0;
        let has_bytes = self.bytes.iter().sum::<u64>() > 0;
        let bytes = [
            has_bytes.then_some(transient),
            has_bytes.then_some(100.0 - transient),
            None,
        ];
        for (kind, name) in PHASES.into_iter().enumerate() {
            let length = |reading: usize| -> Value {
                let mean = self.readings[reading].lengths_ms[kind].mean();
                mean.map(|ms| ms / 1000.0).into()
            };
            table.push(
                name,
                name,
                [
                    (shares[0][kind] * 100.0).into(),
                    (shares[1][kind] * 100.0).into(),
                    bytes[kind].into(),
                    length(0),
                    length(1),
                ],
            );
        }
        table
    }

    fn count_table(&self) -> Table {
        let mut table = Table::new(
            "table-phase-counts",
            "Counts of phases",
            "A transient phase is a cluster of chains of at most 40 s with gaps of less than 10 s; a \
             stable phase is a chain of more than 40 s; an inactive phase is 40 s or more without any \
             chain under way.",
            &[("without-audio", READINGS[0]), ("all", READINGS[1])],
        );
        type Number = fn(&Reading, f64) -> f64;
        let rows: [(&str, &str, Number); 9] = [
            ("clusters", "Transient phases", |r, _| {
                r.lengths_ms[0].count() as f64
            }),
            (
                "successors",
                "of them not the first of their session",
                |r, _| r.successors as f64,
            ),
            ("stable", "Stable phases", |r, _| {
                r.lengths_ms[1].count() as f64
            }),
            ("inactive", "Inactive phases", |r, _| {
                r.lengths_ms[2].count() as f64
            }),
            (
                "start-transient",
                "Sessions that begin in a transient phase (%)",
                |r, n| per_cent(r.start_transient as f64, n),
            ),
            ("with-stable", "Sessions with a stable phase (%)", |r, n| {
                per_cent(r.with_stable as f64, n)
            }),
            ("short", "Sessions too short for one (%)", |r, n| {
                per_cent(r.short as f64, n)
            }),
            (
                "chains-first",
                "Chains in a first transient phase",
                |r, _| mean(r.chains_first as f64, r.firsts).unwrap_or(0.0),
            ),
            ("chains-later", "Chains in a later one", |r, _| {
                mean(r.chains_later as f64, r.successors).unwrap_or(0.0)
            }),
        ];
        for (key, name, number) in rows {
            let values =
                [0, 1].map(|which| number(&self.readings[which], self.sessions as f64).into());
            table.push(key, name, values);
        }
        table
    }

    fn transfer_figure(&self) -> Figure {
        let mut figure = Figure::new(
            "figure-5.20",
            "Play time by the time a chain took",
            Form::Lines,
            Axis::new("Duration of the chain", "s").log(),
            Axis::new("Transfer ratio", "").log(),
        )
        .reading(
            "Nominal play time of what was fetched over the time that it took. 1 is pacing; above 1 \
             the buffer fills. Chains of the same duration (bins of 1 %) together.",
        );
        for (name, (us, ms)) in ["open-ended", "chunks"]
            .into_iter()
            .zip(self.nominal_us.iter().zip(&self.took_ms))
        {
            let bins = smooth_bins(us.len()).skip(1);
            let points: Vec<_> = bins
                .filter_map(|(from, until)| {
                    let ratio = mean(us.sum(from, until) as f64 / 1000.0, ms.sum(from, until))?;
                    Some(((from + until) as f64 / 2.0, ratio))
                })
                .collect();
            if !points.is_empty() {
                figure = figure.series(Series::new(name, points));
            }
        }
        figure
    }
}
