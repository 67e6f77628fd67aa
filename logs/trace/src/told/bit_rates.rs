//! Which bit rates are tried before one is settled on: thesis Figures 5.17 and 5.18.

use std::cmp::Ordering;

use headlong_chains::{Chain, Kind};

use super::outcome::{Axis, Figure, Form, Outcome, Series, Table, per_cent};
use super::view::{Cluster, Log, RateClass, SessionView, nominal_us};

/// Below this share, in per cent, a bit rate is not shown (thesis Figure 5.17).
const SHOWN_MIN: f64 = 0.5;

/// What becomes of the stable bit rate after a transient phase.
const CHANGES: [&str; 3] = ["decreases", "remains", "increases"];

/// Nominal time fetched in transient phases, by the bit rate of the stable phase that follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransientRates {
    classes: usize,
    /// First transient phases, then later ones by [`CHANGES`]: `[stable][tried]`, microseconds.
    matrices: [Vec<u64>; 4],
    /// How many phases each is of.
    counts: [u64; 4],
}

impl TransientRates {
    /// Nothing yet.
    pub fn new(log: &Log) -> Self {
        let classes = log.rates.classes().len();
        Self {
            classes,
            matrices: std::array::from_fn(|_| vec![0; classes * classes]),
            counts: [0; 4],
        }
    }

    /// One session more; by chains that are not of audio.
    pub fn add(&mut self, log: &Log, view: &SessionView<'_>) {
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
            // A phase that is followed by another transient one before anything is stable belongs
            // to the same search; the last before the stable phase is the one that led to it.
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
        log: &Log,
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

    /// Those of another part too.
    pub fn merge(&mut self, other: &Self) {
        for (mine, other) in self.matrices.iter_mut().zip(&other.matrices) {
            mine.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        }
        for (mine, other) in self.counts.iter_mut().zip(other.counts) {
            *mine += other;
        }
    }

    /// Of the later transient phases between two stable ones, shares of 1: decreases, remains,
    /// increases.
    pub fn changes(&self) -> [f64; 3] {
        let total: u64 = self.counts[1..].iter().sum();
        [1, 2, 3].map(|matrix| per_cent(self.counts[matrix] as f64, total as f64) / 100.0)
    }

    /// Figures 5.17 and 5.18, and how often the bit rate changes.
    pub fn finish(&self, log: &Log) -> Outcome {
        let mut table = Table::new(
            "table-changes",
            "Bit rate before and after a later transient phase",
            "Transient phases that lie between two stable ones, by what the bit rate of the stable \
             phase does.",
            &[("count", "Phases"), ("share", "%")],
        );
        for (place, name) in CHANGES.into_iter().enumerate() {
            let share = self.changes()[place] * 100.0;
            table.push(name, name, [self.counts[place + 1].into(), share.into()]);
        }
        let titles = [
            (
                "figure-5.17",
                "First transient phase of sessions with a stable phase".to_string(),
            ),
            (
                "figure-5.18",
                "Later transient phases after which the bit rate decreases".to_string(),
            ),
            (
                "figure-5.18-remains",
                "Later transient phases after which it remains".to_string(),
            ),
            (
                "figure-5.18-increases",
                "Later transient phases after which it increases".to_string(),
            ),
        ];
        let figures = titles.into_iter().enumerate();
        Outcome {
            tables: vec![table],
            figures: figures
                .map(|(matrix, (id, title))| self.bubbles(log, id, &title, matrix))
                .collect(),
        }
    }

    fn bubbles(&self, log: &Log, id: &str, title: &str, matrix: usize) -> Figure {
        let all = log.rates.classes();
        let is_shown = |(_, class): &(usize, &RateClass)| class.kind != Kind::Audio;
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
        Figure::new(
            id,
            title,
            Form::Bubbles,
            Axis::new("Bit rate of the stable phase that follows", "kbps").named(names.clone()),
            Axis::new("Bit rate tried", "kbps").named(names),
        )
        .reading(format!(
            "Each column sums to 100 %: where the nominal time fetched in the transient phase came \
             from, by the bit rate settled on. Areas are shares; crosses are 0.5 to 5 %; c is combined \
             content. {} phases.",
            self.counts[matrix]
        ))
        .series(Series::of("share (%)", points))
    }
}
