//! Time and bytes by phase, and the transfer ratio of chains: thesis 5.4.3 to 5.4.6, Figure 5.20.

use alloc::vec;
use alloc::vec::Vec;

use crate::histograms::{LogHistogram, SecondSums, smooth_bins};
use crate::merge::{Merge as _, sums};
use crate::tables::{Captions, CellValue, Figure, ReportItems, Series, Table, mean, per_cent};
use crate::view::{LONG_MS, LogContext, SessionView, is_long, nominal_us};

sums! {
    /// Sums over sessions for one reading of A12.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct PhaseSums {
        /// Milliseconds covered by transient, stable and inactive phases.
        pub(crate) covered_ms: [u64; 3],
        /// Lengths of phases of the three kinds, ms.
        pub(crate) lengths_ms: [LogHistogram; 3],
        /// Sessions that begin with a transient phase.
        pub(crate) start_transient: u64,
        /// Sessions with a stable phase.
        pub(crate) with_stable: u64,
        /// Sessions without one that are too short for it.
        pub(crate) short: u64,
        /// Transient phases after the first of a session.
        pub(crate) successors: u64,
        /// Chains in first transient phases; see [`firsts`](Self::firsts).
        pub(crate) chains_first: u64,
        /// Number of first transient phases.
        pub(crate) firsts: u64,
        /// Chains in later transient phases.
        pub(crate) chains_later: u64,
    }
}

sums! {
    /// Phases of all sessions.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct PhaseShares {
        sessions: u64,
        sessions_ms: u64,
        /// Without audio, and of all files.
        pub(crate) readings: [PhaseSums; 2],
        /// Bytes in short and in long chains of any file.
        bytes: [u64; 2],
        /// Nominal time and time of open-ended and of chunk chains, by whole seconds of their duration.
        nominal_us: [SecondSums; 2],
        took_ms: [SecondSums; 2],
    }
}

impl PhaseShares {
    /// Adds a session.
    pub(crate) fn add(&mut self, log: &LogContext, view: &SessionView<'_>) {
        self.sessions += 1;
        self.sessions_ms += view.span.ms();
        for chain in view.chains {
            let ms = chain.duration_ms().max(0);
            self.bytes[usize::from(is_long(chain))] += chain.length;
            let type_ = usize::from(!chain.is_open);
            let second = (ms / 1000) as usize;
            // A ratio needs a duration, and durations have a resolution of one second.
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
        let stable = phases
            .stable
            .iter()
            .map(|place| &view.chains[*place as usize]);
        let has_stable = !phases.stable.is_empty();
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
        let [transients, stables, inactives] = &mut sums.lengths_ms;
        phases
            .transient
            .iter()
            .for_each(|cluster| transients.add(cluster.span.ms()));
        stable.for_each(|chain| stables.add(chain.duration_ms().max(0) as u64));
        phases
            .inactive
            .iter()
            .for_each(|span| inactives.add(span.ms()));
        sums.covered_ms.merge(phases.covered_ms);
    }

    /// Shares (of 1) of the time of all sessions, for a reading: transient, stable, inactive.
    pub(crate) fn time_shares(&self, reading: usize) -> [f64; 3] {
        let share = |ms: u64| per_cent(ms as f64, self.sessions_ms as f64) / 100.0;
        self.readings[reading].covered_ms.map(share)
    }

    /// Share (of 1) of the bytes in short chains.
    pub(crate) fn transient_bytes_share(&self) -> f64 {
        per_cent(self.bytes[0] as f64, (self.bytes[0] + self.bytes[1]) as f64) / 100.0
    }

    /// Number of sessions counted.
    pub(crate) const fn sessions(&self) -> u64 {
        self.sessions
    }

    /// Tables of time, bytes and counts by phase, and Figure 5.20.
    pub(crate) fn finish(&self, captions: &Captions) -> ReportItems {
        ReportItems {
            tables: vec![
                self.time_table(captions.table("table-phases")),
                self.count_table(captions.table("table-phase-counts")),
            ],
            figures: vec![self.transfer_figure(captions.figure("figure-5.20"))],
        }
    }

    fn time_table(&self, table: Table) -> Table {
        let shares = [self.time_shares(0), self.time_shares(1)];
        let transient = self.transient_bytes_share() * 100.0;
        let has_bytes = self.bytes.iter().sum::<u64>() > 0;
        let bytes = [
            has_bytes.then_some(transient),
            has_bytes.then_some(100.0 - transient),
            None,
        ];
        table.filled([0, 1, 2].map(|kind| {
            let length = |reading: usize| -> CellValue {
                let mean = self.readings[reading].lengths_ms[kind].mean();
                mean.map(|ms| ms / 1000.0).into()
            };
            [
                (shares[0][kind] * 100.0).into(),
                (shares[1][kind] * 100.0).into(),
                bytes[kind].into(),
                length(0),
                length(1),
            ]
        }))
    }

    fn count_table(&self, table: Table) -> Table {
        let share = |count: u64| per_cent(count as f64, self.sessions as f64);
        let chains = |sum: u64, count| mean(sum as f64, count).unwrap_or(0.0);
        let [without_audio, all] = self.readings.each_ref().map(|of| {
            let [transient, stable, inactive] = of
                .lengths_ms
                .each_ref()
                .map(|lengths| lengths.count() as f64);
            [
                transient,
                of.successors as f64,
                stable,
                inactive,
                share(of.start_transient),
                share(of.with_stable),
                share(of.short),
                chains(of.chains_first, of.firsts),
                chains(of.chains_later, of.successors),
            ]
        });
        let rows = without_audio.into_iter().zip(all);
        table.filled(rows.map(|(without_audio, all)| [without_audio.into(), all.into()]))
    }

    fn transfer_figure(&self, mut figure: Figure) -> Figure {
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
