//! `headlong simulate EXPERIMENT`: the bench commands in virtual time.
//!
//! Searches of different servers are independent, so they run on all available threads; tables,
//! pages and records are those of the bench.
//!
//! Invariant: records and tables do not depend on the number of threads.

use std::num::NonZeroUsize;

use headlong_player::ExportedCall;
use headlong_units::Duration;

use crate::command::{
    BenchError, BenchOptions, CommandOutcome, ComparisonScope, finish, publish_runs,
};
use crate::compare::ComparisonResult;
use crate::experiment::{Experiment, ExperimentCell};
use crate::record::RunRecord;
use crate::report::runs_table;
use crate::search::in_parallel;
use crate::search_driver::ServerLimit;
use crate::virtual_run::VirtualBench;
use headlong_report::say;

/// Parameters of virtual runs.
#[derive(Debug, Clone)]
pub struct VirtualOptions {
    /// See [`VirtualBench::new`].
    pub turnaround: Duration,
    /// See [`VirtualBench::new`].
    pub replay: String,
    /// Concurrent searches.
    pub threads: NonZeroUsize,
}

impl VirtualOptions {
    /// Makes the runs of an experiment.
    pub fn bench(&self, experiment: &Experiment) -> VirtualBench {
        VirtualBench::new(experiment, self.turnaround, &self.replay)
    }
}

/// The cells that can be simulated; the others are reported.
pub(crate) fn imitable<'c>(
    bench: &VirtualBench,
    cells: &'c [ExperimentCell],
) -> Result<Vec<&'c ExperimentCell>, BenchError> {
    let lacks = bench.lacks(cells);
    for lack in &lacks {
        say!("left out: {lack}");
    }
    let lacking = |cell: &&ExperimentCell| !lacks.iter().any(|lack| lack.cell == cell.name());
    let left: Vec<&ExperimentCell> = cells.iter().filter(lacking).collect();
    match left.is_empty() {
        true => Err(BenchError::Missing(
            lacks.iter().map(ToString::to_string).collect(),
        )),
        false => Ok(left),
    }
}

/// Runs at some rates with some seeds. `on_run` receives each record and, if the runner keeps them,
/// its calls. Cells that cannot be simulated are reported.
///
/// # Errors
/// If none of them can be simulated, or a result cannot be written.
pub fn simulate_runs(
    experiment: &Experiment,
    cells: &[ExperimentCell],
    runs: &[(f64, u64)],
    bench: VirtualBench,
    options: &BenchOptions,
    mut on_run: impl FnMut(&ExperimentCell, &RunRecord, Vec<ExportedCall>),
) -> Result<CommandOutcome, BenchError> {
    let cells = imitable(&bench, cells)?;
    let mut driver = options.driver_of(experiment, bench, 1)?;
    let mut records = Vec::new();
    for cell in cells {
        for (rate, seed) in runs {
            let record = driver.run(cell, *rate, *seed, false)?;
            on_run(cell, &record, driver.runner().take_calls());
            records.push(record);
        }
    }
    publish_runs(&records, options, || {
        match experiment.simulation.counts_calls {
            // The figures of the calls have been printed.
            true => String::new(),
            false => runs_table(&records).to_markdown(),
        }
    })
}

/// The limits of these servers, and their ratios.
///
/// # Errors
/// If none of them can be simulated, or a result cannot be written.
pub fn simulate(
    experiment: &Experiment,
    cells: &[ExperimentCell],
    how: &VirtualOptions,
    options: &BenchOptions,
) -> Result<CommandOutcome, BenchError> {
    let compared = limits(experiment, cells, how, options)?;
    finish(experiment, &compared, options, ComparisonScope::Part)
}

/// The limits of the cells that can be simulated; the others are reported.
///
/// # Errors
/// If none of them can be simulated, or a record cannot be written.
pub fn limits(
    experiment: &Experiment,
    cells: &[ExperimentCell],
    how: &VirtualOptions,
    options: &BenchOptions,
) -> Result<ComparisonResult, BenchError> {
    let cells = imitable(&how.bench(experiment), cells)?;
    let search = |cell: &&ExperimentCell| limits_of(experiment, cell, how, options);
    let mut limits = Vec::new();
    for of_cell in in_parallel(&cells, how.threads, search, |_, _| {}) {
        limits.extend(of_cell?);
    }
    // In the order of `compare`: by repeat.
    limits.sort_by_key(|limit| limit.repeat);
    Ok(ComparisonResult { limits })
}

/// The limits of one server, in the order of repeats.
fn limits_of(
    experiment: &Experiment,
    cell: &ExperimentCell,
    how: &VirtualOptions,
    options: &BenchOptions,
) -> Result<Vec<ServerLimit>, BenchError> {
    let driver = options.driver_of(experiment, how.bench(experiment), 1)?;
    let mut driver = driver.in_virtual_time();
    let mut limits: Vec<ServerLimit> = Vec::new();
    for repeat in 0..experiment.repeats {
        let known = limits.iter().rev().find_map(|limit| limit.found.rate);
        let start = known.unwrap_or_else(|| cell.rate_start());
        limits.push(driver.search(cell, start, repeat)?);
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const TEXT: &str = r#"
name = "small"
time_scale = 10
repeats = 2
memory = "256MiB"
[drive]
preset = "wd-red-wd10efrx"
size = "4GB"
[files]
catalogue = "youtube-sd"
set.title.sd.count = 60
set.title.hd.count = 4
[phases]
ramp_up = "20s"
measured = "40s"
ramp_down = "10s"
[search]
resolution = "20%"
probes_max = 3
[workload.sd]
preset = "youtube-sd"
rate = "10MiB/s"
[server.headlong]
kind = "headlong"
config = { admission = "accept" }
[server.nginx]
kind = "nginx"
"#;

    #[test]
    fn result_does_not_depend_on_thread_count() {
        let experiment = Experiment::from_text(Path::new("x.toml"), TEXT, false).expect("right");
        let found = |threads| {
            let folder = tempfile::tempdir().expect("a folder");
            let options = BenchOptions {
                headlong: Path::new("").into(),
                store: Path::new("").into(),
                results: folder.path().into(),
                resumes: false,
                report: None,
                json: true,
                command_line: String::new(),
            };
            let how = VirtualOptions {
                turnaround: Duration::ZERO,
                replay: "headlong simulate x.toml".into(),
                threads: NonZeroUsize::new(threads).expect("some"),
            };
            let compared = limits(&experiment, &experiment.cells(), &how, &options);
            compared.expect("it runs").limits
        };
        let (one, two) = (found(1), found(2));
        assert_eq!(one.len(), 4);
        assert!(one == two, "{one:#?}\n{two:#?}");
        let order: Vec<(&str, u32)> = one.iter().map(|l| (&*l.server, l.repeat)).collect();
        let expected = [("headlong", 0), ("nginx", 0), ("headlong", 1), ("nginx", 1)];
        assert_eq!(order, expected);
    }
}
