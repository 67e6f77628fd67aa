//! Grids of experiments: every combination of some values, at given rates or at the highest.
//!
//! Each combination is an independent job that one thread runs from beginning to end. So the rows
//! are the same for any number of threads, in the order of the grid.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use headlong_sim::RunFigures;
use headlong_stats::{ConfidenceInterval, Summary, USUAL_CONFIDENCE};

use crate::record::{LoadFigures, RunRecord};
use crate::rig::RigError;
use crate::search::in_parallel;
use crate::virtual_run::VirtualCell;

/// One dimension of the grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GridAxis {
    /// Name of the parameter.
    pub name: String,
    /// Its values, in display order.
    pub values: Vec<String>,
}

/// The quantity measured at each point of a grid.
#[derive(Debug, Clone, PartialEq)]
pub enum SweepQuantity {
    /// Results at these rates, MiB/s.
    Rates(Vec<f64>),
    /// The highest rate that passes, by the rules of each point's experiment.
    Limit,
}

/// How a grid is evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// The quantity to measure.
    pub aim: SweepQuantity,
    /// The first seed.
    pub seed: u64,
    /// Number of consecutive seeds.
    pub seeds: u32,
    /// Points evaluated concurrently.
    pub threads: NonZeroUsize,
}

/// A point of a grid.
#[derive(Debug, Clone)]
pub struct GridPoint {
    /// Its value on each axis.
    pub values: Vec<String>,
    /// The run to make there.
    pub cell: VirtualCell,
}

/// Result at a point of the grid, for one rate if rates were given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GridRow {
    /// Its value on each axis.
    pub values: Vec<String>,
    /// The given rate, or the highest that passed: `None` if none did.
    pub rate_mib_s: Option<f64>,
    /// The lowest rate that failed in a search.
    pub failed_mib_s: Option<f64>,
    /// Calls that failed at the rate, over all seeds.
    pub failures: u64,
    /// Runs that were made for it.
    pub worlds: usize,
    /// The runs at the rate, one for each seed, without their time series.
    pub records: Vec<RunRecord>,
}

impl GridRow {
    /// The mean of a figure over the seeds; `None` if no rate passed.
    pub fn mean(&self, figure: impl Fn(&RunFigures) -> f64) -> Option<f64> {
        let figures = self.records.iter().filter_map(RunRecord::figures);
        let sum: f64 = figures.map(figure).sum();
        (!self.records.is_empty()).then(|| sum / self.records.len() as f64)
    }

    /// The 95 % confidence interval of that mean; `None` for fewer than two seeds.
    pub fn interval(&self, figure: impl Fn(&RunFigures) -> f64) -> Option<ConfidenceInterval> {
        let figures = self.records.iter().filter_map(RunRecord::figures);
        figures
            .map(figure)
            .collect::<Summary>()
            .interval(USUAL_CONFIDENCE)
    }
}

/// All combinations of the axes' values, the last axis varying fastest; with no axes, a single
/// empty combination.
pub fn combinations(axes: &[GridAxis]) -> Vec<Vec<String>> {
    axes.iter().fold(vec![Vec::new()], |combined, axis| {
        let with = |before: &Vec<String>| {
            let before = before.clone();
            axis.values.iter().map(move |value| {
                let mut values = before.clone();
                values.push(value.clone());
                values
            })
        };
        combined.iter().flat_map(with).collect()
    })
}

impl Sweep {
    /// Evaluates all points; `finished` receives each with its rows, as soon as they are known.
    ///
    /// # Errors
    /// The first invalid point in their order.
    pub fn run(
        &self,
        points: &[GridPoint],
        mut finished: impl FnMut(&GridPoint, &[GridRow]),
    ) -> Result<Vec<GridRow>, RigError> {
        let found = in_parallel(
            points,
            self.threads,
            |point| self.point(point),
            |index, found| {
                if let (Some(point), Ok(rows)) = (points.get(index), found) {
                    finished(point, rows);
                }
            },
        );
        let rows: Result<Vec<_>, _> = found.into_iter().collect();
        Ok(rows?.into_iter().flatten().collect())
    }

    /// A short name of a point, which is the same in every run of the same grid.
    pub fn id(&self, point: &GridPoint) -> String {
        format!("{:016x}", fnv1a(&self.key(point)))
    }

    /// A name for everything that the result of a point depends on.
    fn key(&self, point: &GridPoint) -> String {
        let words = format!(
            "{} {:?} {:?} {} {}",
            point.cell.settings(),
            point.cell.limit(),
            self.aim,
            self.seed,
            self.seeds
        );
        format!("{} {:016x}", point.values.join(" "), fnv1a(&words))
    }

    fn point(&self, point: &GridPoint) -> Result<Vec<GridRow>, RigError> {
        if let SweepQuantity::Rates(rates) = &self.aim {
            return rates
                .iter()
                .map(|rate| self.at_rate(point, *rate))
                .collect();
        }
        let searched = point.cell.search(point.cell.limit().clone(), self.seed)?;
        let mib_s = |rate: Option<f64>| rate.map(|rate| rate / MIB);
        Ok(vec![GridRow {
            values: point.values.clone(),
            rate_mib_s: mib_s(searched.found.rate),
            failed_mib_s: mib_s(searched.found.failed),
            failures: 0,
            worlds: searched.found.probes as usize,
            records: without_series(searched.passed),
        }])
    }

    fn at_rate(&self, point: &GridPoint, rate_mib_s: f64) -> Result<GridRow, RigError> {
        let seeds = self.seed..self.seed + u64::from(self.seeds.max(1));
        let runs = seeds.map(|seed| point.cell.run(rate_mib_s * MIB, seed, false));
        let records = without_series(runs.collect::<Result<_, _>>()?);
        let figures = records.iter().filter_map(RunRecord::figures);
        Ok(GridRow {
            values: point.values.clone(),
            rate_mib_s: Some(rate_mib_s),
            failed_mib_s: None,
            failures: figures.map(|figures| figures.failures).sum(),
            worlds: records.len(),
            records,
        })
    }
}

const MIB: f64 = 1_048_576.0;

/// FNV-1a, for names that are stable between runs.
fn fnv1a(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Removes the time series of the figures: only the pages of single runs show them.
fn without_series(mut records: Vec<RunRecord>) -> Vec<RunRecord> {
    for record in &mut records {
        if let LoadFigures::Virtual(figures) = &mut record.load {
            figures.series.clear();
        }
    }
    records
}

/// A figure of a row: its name in tables and charts, and how to take it from a record.
pub type RecordFigure = (&'static str, fn(&RunFigures) -> f64);

/// The figures that tables of rows show.
pub const FIGURES: &[RecordFigure] = &[
    ("asked_for_mib_s", |r| r.asked_for_mib_s),
    ("delivered_mib_s", |r| r.delivered_mib_s),
    ("served_mib_s", |r| r.served_mib_s),
    ("refused", |r| r.refused as f64),
    ("disk_mib_s", |r| r.disk_mib_s),
    ("busy", |r| r.busy),
    ("viewers", |r| r.viewers_mean),
    ("reads_per_s", |r| r.reads as f64 / r.seconds.max(1e-9)),
    ("read_kib", |r| r.read_kib),
    ("read_ms", |r| r.read_ms),
    ("hit_ratio", |r| r.hit_ratio),
    ("waste_ratio", |r| r.waste_ratio),
    ("evicted_ratio", |r| r.evicted_ratio),
    ("prefetch_mib", |r| r.prefetch_mib),
    ("wait_p99_ms", |r| r.wait_ms.p99),
    ("response_max_ms", |r| r.response_ms.max),
];

/// The rows as comma-separated values with a header line: means over the seeds, and behind all of
/// them half the width of the interval of each, in columns `NAME_ci95`.
pub fn to_csv(axes: &[GridAxis], rows: &[GridRow]) -> String {
    let heads = axes.iter().map(|axis| quoted(&axis.name));
    let fixed = ["offered_mib_s", "failed_mib_s", "failures", "worlds"];
    let figures = FIGURES.iter().map(|(name, _)| *name);
    let named = fixed.into_iter().chain(figures).map(str::to_owned);
    let intervals = FIGURES.iter().map(|(name, _)| format!("{name}_ci95"));
    let named = named.chain(intervals);
    let mut lines = vec![heads.chain(named).collect::<Vec<_>>()];
    for row in rows {
        let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!("{rate:.3}"));
        let mut cells: Vec<String> = row.values.iter().map(|value| quoted(value)).collect();
        cells.extend([rate(row.rate_mib_s), rate(row.failed_mib_s)]);
        cells.extend([row.failures.to_string(), row.worlds.to_string()]);
        cells.extend(FIGURES.iter().map(|(_, figure)| {
            let mean = row.mean(figure);
            mean.map_or(String::new(), |mean| format!("{mean:.4}"))
        }));
        cells.extend(FIGURES.iter().map(|(_, figure)| {
            let interval = row.interval(figure);
            interval.map_or(String::new(), |of| format!("{:.4}", of.half_width()))
        }));
        lines.push(cells);
    }
    lines.iter().map(|cells| cells.join(",") + "\n").collect()
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "grid_tests.rs"]
mod tests;
