//! Bit rates tried before a stable phase: thesis Figures 5.17 and 5.18.

use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

use headlong_chains::{Chain, ContentKind};

use crate::merge::sums;
use crate::tables::{Captions, Figure, ReportItems, Series, per_cent};
use crate::view::{Cluster, LogContext, RateClass, SessionView, nominal_us};

/// Bit rates with a smaller share, in per cent, are not shown (thesis Figure 5.17).
const SHOWN_MIN: f64 = 0.5;

sums! {
    /// Nominal time fetched in transient phases, by the bit rate of the following stable phase.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct TransientRates {
        /// First transient phases, then later ones by the change of the stable bit rate (decreases,
        /// remains, increases): `[stable][tried]`, microseconds.
        matrices: [Vec<u64>; 4],
        /// Number of phases in each matrix.
        counts: [u64; 4],
        ; same
        classes: usize,
    }
}

impl TransientRates {
    /// An empty accumulator.
    pub(crate) fn new(log: &LogContext) -> Self {
        let classes = log.rates.classes().len();
        Self {
            classes,
            matrices: core::array::from_fn(|_| vec![0; classes * classes]),
            counts: [0; 4],
        }
    }

    /// Adds a session, without its audio chains.
    pub(crate) fn add(&mut self, log: &LogContext, view: &SessionView<'_>) {
        let phases = view.phases[0];
        let stable = || {
            phases
                .stable
                .iter()
                .map(|place| &view.chains[*place as usize])
        };
        for (place, cluster) in phases.transient.iter().enumerate() {
            let start = cluster.span.start_ms;
            let Some(next) = stable().find(|chain| chain.start_ms >= start) else {
                break;
            };
            // Consecutive transient phases without a stable phase in between belong to the same
            // search; only the last one before the stable phase counts.
            let later = phases.transient.get(place + 1);
            if place > 0 && later.is_some_and(|later| later.span.start_ms <= next.start_ms) {
                continue;
            }
            let before = stable().take_while(|chain| chain.start_ms < start).last();
            match before {
                None if place == 0 => self.add_cluster(log, view, cluster, next, 0),
                None => {}
                Some(before) => {
                    let kbps = |chain: &Chain| log.file(chain.file).kbps;
                    let matrix = match kbps(next).cmp(&kbps(before)) {
                        Ordering::Less => 1,
                        Ordering::Equal => 2,
                        Ordering::Greater => 3,
                    };
                    self.add_cluster(log, view, cluster, next, matrix);
                }
            }
        }
    }

    fn add_cluster(
        &mut self,
        log: &LogContext,
        view: &SessionView<'_>,
        cluster: &Cluster,
        stable: &Chain,
        matrix: usize,
    ) {
        self.counts[matrix] += 1;
        let column = log.rates.of_file(stable.file) * self.classes;
        for place in &cluster.chains {
            let chain = &view.chains[*place as usize];
            let us = nominal_us(chain.length, log.file(chain.file).kbps);
            let cell = column + log.rates.of_file(chain.file);
            if let Some(sum) = self.matrices[matrix].get_mut(cell) {
                *sum += us;
            }
        }
    }

    /// Shares (of 1) of the later transient phases between two stable ones after which the bit rate
    /// decreases, remains, increases.
    pub(crate) fn changes(&self) -> [f64; 3] {
        let total: u64 = self.counts[1..].iter().sum();
        [1, 2, 3].map(|matrix| per_cent(self.counts[matrix] as f64, total as f64) / 100.0)
    }

    /// Figures 5.17 and 5.18, and the frequency of bit-rate changes.
    pub(crate) fn finish(&self, log: &LogContext, captions: &Captions) -> ReportItems {
        let shares = self.changes().map(|share| share * 100.0);
        let rows = self.counts[1..].iter().zip(shares);
        let rows = rows.map(|(count, share)| [(*count).into(), share.into()]);
        let ids = [
            "figure-5.17",
            "figure-5.18",
            "figure-5.18-remains",
            "figure-5.18-increases",
        ];
        let figures = ids.into_iter().enumerate();
        let figures = figures.map(|(matrix, id)| self.bubbles(log, captions.figure(id), matrix));
        ReportItems {
            tables: vec![captions.table("table-changes").filled(rows)],
            figures: figures.collect(),
        }
    }

    fn bubbles(&self, log: &LogContext, figure: Figure, matrix: usize) -> Figure {
        let all = log.rates.classes();
        let is_shown = |(_, class): &(usize, &RateClass)| class.kind != ContentKind::Audio;
        let shown: Vec<usize> = all
            .iter()
            .enumerate()
            .filter(is_shown)
            .map(|(at, _)| at)
            .collect();
        let names: Vec<String> = shown.iter().map(|at| all[*at].name()).collect();
        let mut points = Vec::new();
        for (x, stable) in shown.iter().enumerate() {
            let column = &self.matrices[matrix][stable * self.classes..][..self.classes];
            let total: u64 = column.iter().sum();
            for (y, tried) in shown.iter().enumerate() {
                let share = per_cent(column[*tried] as f64, total as f64);
                if share >= SHOWN_MIN {
                    points.push(vec![x as f64, y as f64, share]);
                }
            }
        }
        figure
            .across(names.clone())
            .upwards(names)
            .telling(&self.counts[matrix].to_string())
            .series(Series::of("share (%)", points))
    }
}
