//! Overload: whether a disk keeps delivering when more viewers arrive than it can serve, in virtual
//! time.
//!
//! Measures goodput, the bytes of calls answered completely in time, over the load. First the limit
//! of each workload is searched; then viewers with 1 to 3 times that demand arrive, under each
//! admission rule. Each load is compared with the best of its row: the same seed, workload and
//! rule.
//!
//! Invariant: the runs depend only on the choice, so that a journal can skip finished ones.

mod page;
mod results;

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::time::Instant as WallInstant;

use headlong_bench::grid::{
    GridAxis, GridPoint, GridRow, Sweep, SweepError, SweepJournal, SweepQuantity, combinations,
};
use headlong_bench::{BenchError, BenchOptions, CommandOutcome, VirtualCell};
use headlong_drive::preset;
use headlong_sim::{MeasuredWindow, Placement, VirtualExperiment, WorldSetup, settings};
use headlong_units::{Duration, GIB, Instant};
use headlong_workload::Specification;

use results::{AdmissionSeries, OfferedLoad, OverloadResult};

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

/// Parameters of the experiment.
#[derive(Debug, Clone)]
pub struct OverloadExperiment {
    /// Fewer sets of viewers, a shorter time.
    pub is_quick: bool,
    /// Seed of the first set of viewers.
    pub seed: u64,
    /// Number of sets of viewers; ten if `None`, and two if quick.
    pub seeds: Option<NonZeroU32>,
    /// Concurrent simulations; the number of processors if `None`.
    pub threads: Option<NonZeroUsize>,
}

/// Runs the experiment, writes the page and prints the tables. `progress` receives the number of
/// finished points and of all.
///
/// # Errors
/// If a result cannot be written.
pub fn hold(
    holding: &OverloadExperiment,
    options: &BenchOptions,
    progress: impl FnMut(usize, usize),
) -> Result<CommandOutcome, BenchError> {
    let started = WallInstant::now();
    let usual = if holding.is_quick { QUICK } else { FULL };
    let effort = OverloadScope {
        seeds: holding.seeds.map_or(usual.seeds, NonZeroU32::get),
        ..usual
    };
    let at = |error| BenchError::Result(options.results.display().to_string(), error);
    options.make_results()?;
    let file = options.results.join("hold.jsonl");
    if !options.resumes {
        remove(&file).map_err(at)?;
    }
    let processors = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let mut run = OverloadRun {
        journal: SweepJournal::open(&file).map_err(bench_error)?,
        sweep: Sweep {
            aim: SweepQuantity::Rates(Vec::new()),
            seed: holding.seed,
            seeds: effort.seeds,
            threads: holding.threads.unwrap_or_else(processors),
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
        is_quick: holding.is_quick,
        seeds: (holding.seed..).take(effort.seeds as usize).collect(),
        seconds: started.elapsed().as_secs_f64(),
        series,
    };
    page::publish(&held, options)
}

fn remove(file: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
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
}
