//! Overload: whether a disk keeps delivering when more viewers arrive than it can serve, in virtual
//! time.
//!
//! Measures goodput, the bytes of calls answered completely in time, over the load. First the limit
//! of each workload is searched; then viewers with 1 to 3 times that demand arrive, under each
//! admission rule. Each load is compared with the best of its row: the same seed, workload and
//! rule.
//!
//! Invariant: the runs depend only on the choice, so that a journal can skip finished ones.

use std::io::{Error, ErrorKind};
use std::time::Instant as WallInstant;

use headlong_bench::grid::{
    GridAxis, GridPoint, GridRow, Sweep, SweepError, SweepJournal, SweepQuantity, combinations,
};
use headlong_bench::{BenchError, BenchOptions, CommandOutcome, RunRecord, VirtualCell};
use headlong_drive::preset;
use headlong_report::{Axis, Cell, Chart, Page, Section, Series, Table};
use headlong_sim::{
    MeasuredWindow, Placement, RunFigures, VirtualExperiment, WorldSetup, settings,
};
use headlong_units::{Duration, GIB, Instant};
use headlong_workload::Specification;
use serde::Serialize;

use crate::report::{FOOTER, PaperReport, RunChoice};

/// Explanation of the figures.
const WORDS: &str = "Goodput is the bytes of calls answered completely in time. Offered is the \
                     long-run demand of all arriving viewers relative to the limit: the highest \
                     rate at which no call fails. Shares are relative to the best of the row, for \
                     each set of viewers separately; a set that got everything it asked for counts \
                     as 100 %.";

/// Offered load, relative to the limit.
const LOADS: [f64; 6] = [1.0, 1.1, 1.25, 1.5, 2.0, 3.0];
/// Name, preset, and starting rate of the search, MiB/s.
const WORKLOADS: [(&str, &str, f64); 2] = [("SD", "youtube-sd", 92.0), ("HD", "youtube-hd", 104.0)];
const ADMISSIONS: [&str; 2] = ["refuse", "accept"];
/// How viewers are identified: a name, and keys of the workload's specification.
const IDENTITIES: [(&str, &[(&str, &str)]); 2] = [
    ("session ids", &[]),
    ("what they read", &[("requests.identity", "none")]),
];
const DRIVE: &str = "wd-red-wd10efrx";
/// Memory for pieces on a server with 4 GiB in total.
const MEMORY_BYTES: u64 = 7 * GIB / 2;

/// Extent of a reproduction.
#[derive(Debug, Clone, Copy)]
struct OverloadScope {
    seeds: u32,
    ramp: Duration,
    measured: Duration,
    resolution_mib_s: f64,
}

const FULL: OverloadScope = OverloadScope {
    seeds: 10,
    ramp: Duration::from_secs(600),
    measured: Duration::from_secs(600),
    resolution_mib_s: 1.0,
};

const QUICK: OverloadScope = OverloadScope {
    seeds: 2,
    ramp: Duration::from_secs(420),
    measured: Duration::from_secs(300),
    resolution_mib_s: 2.0,
};

/// Runs the experiment, writes the page and prints the tables. `progress` receives the number of
/// finished points and of all.
///
/// # Errors
/// If a result cannot be written.
pub fn hold(
    choice: &RunChoice,
    options: &BenchOptions,
    progress: impl FnMut(usize, usize),
) -> Result<CommandOutcome, BenchError> {
    let started = WallInstant::now();
    let mut effort = if choice.is_quick { QUICK } else { FULL };
    effort.seeds = choice.seeds(effort.seeds);
    let at = |error: Error| BenchError::Result(options.results.display().to_string(), error);
    options.make_results()?;
    let file = options.results.join("hold.jsonl");
    if !options.resumes
        && let Err(error) = std::fs::remove_file(&file)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(at(error));
    }
    let mut run = OverloadRun {
        journal: SweepJournal::open(&file).map_err(bench_error)?,
        sweep: Sweep {
            aim: SweepQuantity::Rates(Vec::new()),
            seed: choice.seed,
            seeds: effort.seeds,
            threads: choice.threads(),
        },
        effort,
        done: 0,
        progress,
    };
    let mut series = Vec::new();
    for (name, preset, guess_mib_s) in WORKLOADS {
        series.extend(run.workload(name, preset, guess_mib_s)?);
    }
    let held = OverloadResult {
        schema: "headlong-hold-1",
        is_quick: choice.is_quick,
        seeds: choice.all_seeds(effort.seeds),
        seconds: started.elapsed().as_secs_f64(),
        series,
    };
    held.report(&options.command_line).publish(options)
}

/// State of the experiment.
struct OverloadRun<T> {
    journal: SweepJournal,
    sweep: Sweep,
    effort: OverloadScope,
    done: usize,
    progress: T,
}

impl<T: FnMut(usize, usize)> OverloadRun<T> {
    /// All rows of one workload: its limit, then every load.
    fn workload(
        &mut self,
        name: &'static str,
        preset: &str,
        guess_mib_s: f64,
    ) -> Result<Vec<AdmissionSeries>, BenchError> {
        let aim = SweepQuantity::Maximum {
            guess_mib_s,
            resolution_mib_s: self.effort.resolution_mib_s,
        };
        let ends = point(preset, IDENTITIES[0].0, "accept", self.effort);
        let found = self.rows(&[ends], aim)?;
        // If no rate passed, the guess is used.
        let limit = found.iter().find_map(|row| row.rate_mib_s);
        let limit_mib_s = limit.unwrap_or(guess_mib_s);
        let axes = [
            axis("identity", IDENTITIES.map(|(name, _)| name)),
            axis("admission", ADMISSIONS),
        ];
        let combined = combinations(&axes);
        let points: Vec<GridPoint> = combined
            .iter()
            .map(|values| point(preset, &values[0], &values[1], self.effort))
            .collect();
        let mut series: Vec<AdmissionSeries> = combined
            .iter()
            .map(|values| AdmissionSeries {
                workload: name,
                identity: values[0].clone(),
                admission: values[1].clone(),
                limit_mib_s,
                loads: Vec::new(),
            })
            .collect();
        for load in LOADS {
            let rows = self.rows(&points, SweepQuantity::Rates(vec![limit_mib_s * load]))?;
            for (series, row) in series.iter_mut().zip(&rows) {
                series.loads.push(OfferedLoad::of(load, row));
            }
        }
        Ok(series)
    }

    fn rows(
        &mut self,
        points: &[GridPoint],
        aim: SweepQuantity,
    ) -> Result<Vec<GridRow>, BenchError> {
        let sweep = Sweep {
            aim,
            ..self.sweep.clone()
        };
        let all = WORKLOADS.len() * (1 + LOADS.len() * IDENTITIES.len() * ADMISSIONS.len());
        let (before, progress) = (self.done, &mut self.progress);
        let rows = sweep.run(points, Some(&mut self.journal), |done, _| {
            progress(before + done, all);
        });
        self.done += points.len();
        rows.map_err(bench_error)
    }
}

fn axis<const N: usize>(name: &str, values: [&str; N]) -> GridAxis {
    GridAxis {
        name: name.to_owned(),
        values: values.map(str::to_owned).to_vec(),
    }
}

/// The world of a preset with an identity and an admission rule, by their names.
fn point(preset: &str, identity: &str, admission: &str, effort: OverloadScope) -> GridPoint {
    let world = world(preset, identity, admission, effort);
    let mut replay = format!(
        "headlong simulate {preset} --set simulation.placement=spread --set \
         server.admission={admission}"
    );
    for (key, value) in keys(identity) {
        replay += &format!(" --set workload.{key}={value}");
    }
    GridPoint {
        values: [preset, identity, admission].map(str::to_owned).to_vec(),
        cell: VirtualCell::of_options(world, preset, &replay),
    }
}

/// Keys of the workload's specification for an identity.
fn keys(identity: &str) -> &'static [(&'static str, &'static str)] {
    let known = IDENTITIES.iter().find(|(name, _)| *name == identity);
    known.map_or(&[], |(_, keys)| keys)
}

fn world(
    workload: &str,
    identity: &str,
    admission: &str,
    effort: OverloadScope,
) -> VirtualExperiment {
    let keys = keys(identity).iter();
    let keys = keys.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let keys: Vec<(String, String)> = keys.collect();
    let from = Instant::ZERO + effort.ramp;
    let mut setup = WorldSetup {
        placement: Placement::Spread,
        window: MeasuredWindow {
            from,
            to: from + effort.measured,
        },
        ..WorldSetup::default()
    };
    setup.engine.memory_bytes = MEMORY_BYTES;
    for (key, value) in [("admission", admission), ("prefetch", "auto")] {
        settings::set(&mut setup.engine, key, value).expect("a setting of the engine");
    }
    VirtualExperiment {
        workload: Specification::preset(workload, &keys).expect("a preset of this repository"),
        drive: preset(DRIVE).expect("a preset of this repository"),
        setup,
        steps: Vec::new(),
    }
}

/// Converts to an error of the bench.
fn bench_error(error: SweepError) -> BenchError {
    match error {
        SweepError::World(error) => error.into(),
        SweepError::Journal { path, source } => {
            BenchError::Result(path.display().to_string(), source)
        }
    }
}

/// Share of the best of its row that must be delivered at every load.
const SHARE_MIN: f64 = 0.97;

/// One set of viewers at one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct ViewerSet {
    seed: u64,
    /// Bytes of calls answered completely in time, MiB/s.
    goodput_mib_s: f64,
    /// Admitted calls that failed.
    failures: u64,
    /// Refused calls.
    refused: u64,
    /// Finished calls.
    calls: u64,
}

impl ViewerSet {
    fn of(record: &RunFigures) -> Self {
        Self {
            seed: record.seed,
            goodput_mib_s: record.served_mib_s,
            failures: record.failures - record.refused,
            refused: record.refused,
            calls: record.calls,
        }
    }

    /// Failed calls among those admitted.
    fn failed_percent(&self) -> f64 {
        let let_in = self.calls.saturating_sub(self.refused).max(1);
        100.0 * self.failures as f64 / let_in as f64
    }

    /// Whether everything requested was delivered.
    fn is_all(&self) -> bool {
        self.failures + self.refused == 0
    }
}

/// One load, all sets of viewers.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct OfferedLoad {
    /// Relative to the limit.
    load: f64,
    offered_mib_s: f64,
    sets: Vec<ViewerSet>,
}

impl OfferedLoad {
    fn of(load: f64, row: &GridRow) -> Self {
        let records = row.records.iter().filter_map(RunRecord::figures);
        Self {
            load,
            offered_mib_s: row.rate_mib_s.unwrap_or(0.0),
            sets: records.map(ViewerSet::of).collect(),
        }
    }

    fn mean(&self, figure: impl Fn(&ViewerSet) -> f64) -> f64 {
        let sum: f64 = self.sets.iter().map(figure).sum();
        sum / self.sets.len().max(1) as f64
    }
}

/// One row of the tables: the loads of a workload with one admission rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct AdmissionSeries {
    workload: &'static str,
    identity: String,
    admission: String,
    limit_mib_s: f64,
    loads: Vec<OfferedLoad>,
}

impl AdmissionSeries {
    /// Each set's goodput at a load relative to its maximum over all loads; a set that got
    /// everything counts as 1.
    fn shares<'s>(&'s self, load: &'s OfferedLoad) -> impl Iterator<Item = f64> + 's {
        load.sets.iter().enumerate().map(|(index, set)| {
            let same = self.loads.iter().filter_map(|load| load.sets.get(index));
            let best = same.map(|set| set.goodput_mib_s).fold(0.0, f64::max);
            match set.is_all() || best == 0.0 {
                true => 1.0,
                false => set.goodput_mib_s / best,
            }
        })
    }

    /// The smallest share of any set at a load.
    fn least(&self, load: &OfferedLoad) -> f64 {
        self.shares(load).fold(1.0, f64::min)
    }

    /// The smallest share over the sets at a load, relative to each set's maximum with as many
    /// viewers or fewer.
    fn kept(&self, load: &OfferedLoad) -> f64 {
        let shares = load.sets.iter().enumerate().map(|(index, set)| {
            let fewer = self.loads.iter().filter(|other| other.load <= load.load);
            let same = fewer.filter_map(|other| other.sets.get(index));
            let most = same.map(|set| set.goodput_mib_s).fold(0.0, f64::max);
            match most > 0.0 {
                true => set.goodput_mib_s / most,
                false => 1.0,
            }
        });
        shares.fold(1.0, f64::min)
    }

    /// The smallest share of any set at any load.
    fn worst(&self) -> f64 {
        let least = self.loads.iter().map(|load| self.least(load));
        least.fold(1.0, f64::min)
    }
}

/// The whole result.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct OverloadResult {
    schema: &'static str,
    is_quick: bool,
    seeds: Vec<u64>,
    seconds: f64,
    series: Vec<AdmissionSeries>,
}

impl OverloadResult {
    fn report(&self, command: &str) -> PaperReport {
        let seeds: Vec<String> = self.seeds.iter().map(ToString::to_string).collect();
        let tables = self.tables();
        PaperReport {
            name: "hold",
            lead: format!("Sets of viewers, by seed: {}\n\n", seeds.join(", ")),
            page: self.page(&tables, command),
            tables,
            json: serde_json::to_value(self).unwrap_or_default(),
            outcome: match self.holds() {
                true => CommandOutcome::Done,
                false => CommandOutcome::Missed,
            },
        }
    }

    /// Whether every set of viewers got the required share at every load.
    fn holds(&self) -> bool {
        self.series.iter().all(|series| series.worst() >= SHARE_MIN)
    }

    /// Tables with a column for each load.
    fn tables(&self) -> Vec<Table> {
        type LoadFigure = fn(&AdmissionSeries, &OfferedLoad) -> f64;
        let required = SHARE_MIN * 100.0;
        let figures: [(String, LoadFigure, usize); 4] = [
            (
                "Goodput, MiB/s, mean of all sets".to_owned(),
                |_, load| load.mean(|set| set.goodput_mib_s),
                1,
            ),
            (
                format!(
                    "Share of the best of the row, %, minimum over all sets; at least \
                     {required:.0} is required"
                ),
                |series, load| series.least(load) * 100.0,
                1,
            ),
            (
                "Share of the best with as many viewers or fewer, %, minimum over all sets".into(),
                |series, load| series.kept(load) * 100.0,
                1,
            ),
            (
                "Failed calls among those admitted, %, mean over all sets".to_owned(),
                |_, load| load.mean(ViewerSet::failed_percent),
                2,
            ),
        ];
        let loads = self.series.first().map_or(&[][..], |series| &series.loads);
        let heads = ["Viewers", "Told apart by", "Admission", "Limit (MiB/s)"].map(str::to_owned);
        let heads = heads
            .into_iter()
            .chain(loads.iter().map(|load| format!("{} x", load.load)));
        let heads: Vec<String> = heads.collect();
        let table = |(caption, figure, decimals): (String, LoadFigure, usize)| {
            let mut table = Table::new(heads.clone()).caption(caption);
            for series in &self.series {
                let first = [
                    series.workload.into(),
                    series.identity.as_str().into(),
                    series.admission.as_str().into(),
                    Cell::number(series.limit_mib_s, 0),
                ];
                let loads = series.loads.iter();
                let cells = loads.map(|load| Cell::number(figure(series, load), decimals));
                table.push(first.into_iter().chain(cells));
            }
            table
        };
        figures.into_iter().map(table).collect()
    }

    fn page(&self, tables: &[Table], command: &str) -> Page {
        let mut section = Section::new("Goodput over the load").text(WORDS);
        for of_workload in self
            .series
            .chunk_by(|one, other| one.workload == other.workload)
        {
            let x = Axis::new("Offered load, relative to the limit", "").from(0.0);
            let y = Axis::new("Goodput", "MiB/s").from(0.0);
            let mut chart = Chart::lines(of_workload[0].workload, x, y);
            for series in of_workload {
                let point = |load: &OfferedLoad| (load.load, load.mean(|set| set.goodput_mib_s));
                let name = format!("{}, {}", series.admission, series.identity);
                chart = chart.series(Series::new(name, series.loads.iter().map(point)));
            }
            section = section.figure(chart);
        }
        let section = tables
            .iter()
            .cloned()
            .fold(section, Section::table)
            .command(command);
        let (seeds, seconds) = (self.seeds.len(), self.seconds);
        Page::new("Overload")
            .lead(format!("{seeds} sets of viewers, run time {seconds:.0} s."))
            .section(section)
            .footer(FOOTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_valid_worlds() {
        for (_, preset, _) in WORKLOADS {
            for (identity, _) in IDENTITIES {
                for admission in ADMISSIONS {
                    let world = world(preset, identity, admission, QUICK);
                    let wrong: Vec<_> = world.setup.engine.check().collect();
                    assert!(wrong.is_empty(), "{preset}: {wrong:?}");
                }
            }
        }
    }

    /// Rows of one set of viewers with these goodputs and failures.
    fn held(goodputs: &[(f64, u64)]) -> OverloadResult {
        let load = |(index, (goodput_mib_s, failures)): (usize, &(f64, u64))| OfferedLoad {
            load: 1.0 + index as f64,
            offered_mib_s: 90.0 * (1.0 + index as f64),
            sets: vec![ViewerSet {
                seed: 7,
                goodput_mib_s: *goodput_mib_s,
                failures: *failures,
                refused: 0,
                calls: 1000,
            }],
        };
        OverloadResult {
            schema: "headlong-hold-1",
            is_quick: true,
            seeds: vec![7],
            seconds: 1.0,
            series: vec![AdmissionSeries {
                workload: "SD",
                identity: "session ids".to_owned(),
                admission: "accept".to_owned(),
                limit_mib_s: 90.0,
                loads: goodputs.iter().enumerate().map(load).collect(),
            }],
        }
    }

    #[test]
    fn load_is_compared_with_best_of_row() {
        let held = held(&[(88.0, 4), (100.0, 9), (97.5, 9)]);
        let series = &held.series[0];
        let least: Vec<f64> = series.loads.iter().map(|load| series.least(load)).collect();
        assert_eq!(least, [0.88, 1.0, 0.975]);
        assert!(!held.holds());
    }

    #[test]
    fn kept_share_is_relative_to_smaller_loads() {
        let held = held(&[(88.0, 4), (100.0, 9), (97.5, 9)]);
        let series = &held.series[0];
        let kept: Vec<f64> = series.loads.iter().map(|load| series.kept(load)).collect();
        assert_eq!(kept, [1.0, 1.0, 0.975]);
    }

    #[test]
    fn set_that_gets_everything_counts_as_full_share() {
        assert!(held(&[(80.0, 0), (100.0, 9), (98.0, 9)]).holds());
    }

    #[test]
    fn tables_have_row_per_rule_and_column_per_load() {
        let text = held(&[(88.0, 4), (100.0, 9)]).report("headlong").text();
        assert!(text.starts_with("Sets of viewers, by seed: 7\n"), "{text}");
        let row = |cells: &str| {
            format!("| SD      | session ids   | accept    |            90 | {cells} |")
        };
        for (cells, count) in [
            ("88.0 | 100.0", 2),
            ("100.0 | 100.0", 1),
            ("0.40 | 0.90", 1),
        ] {
            let found = text
                .replace("  ", " ")
                .matches(&row(cells).replace("  ", " "))
                .count();
            assert_eq!(found, count, "{cells} in:\n{text}");
        }
    }
}
