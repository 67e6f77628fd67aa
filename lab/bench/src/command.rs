//! The bench commands: run, search, compare; their result files and output.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::slice;

use headlong_report::{Page, say};
use serde_json::json;

use crate::compare::{ComparisonResult, compare};
use crate::experiment::{Experiment, ExperimentCell};
use crate::record::{OutcomeName, RecordFolder, RunRecord};
use crate::report::{comparison_page, run_page, runs_table, tables};
use crate::rig::{RigError, missing};
use crate::run::Bench;
use crate::search::SearchResult;
use crate::search_driver::{Runner, SearchDriver, ServerLimit};

/// Options of the bench apart from the experiment.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// The program `headlong`.
    pub headlong: PathBuf,
    /// Folder of the filled drives.
    pub store: PathBuf,
    /// Folder of the records and the report.
    pub results: PathBuf,
    /// Skips runs that already have a record.
    pub resumes: bool,
    /// Path of the report, if not in the results folder.
    pub report: Option<PathBuf>,
    /// Prints JSON instead of tables on standard output.
    pub json: bool,
    /// The command line, shown in the report.
    pub command_line: String,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOutcome {
    /// A valid result.
    Done,
    /// The measurement is invalid.
    Refused,
    /// A ratio is below its required value.
    Missed,
    /// A search used up its runs before the limit was known.
    Unsettled,
}

impl CommandOutcome {
    /// The worse of two: an invalid result is worse than a missed ratio.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let worst_first = [Self::Refused, Self::Unsettled, Self::Missed];
        let found = worst_first
            .into_iter()
            .find(|ending| [self, other].contains(ending));
        found.unwrap_or(Self::Done)
    }

    /// For searches and the ratios of their results.
    fn of_ratios(
        experiment: &Experiment,
        compared: &ComparisonResult,
        scope: ComparisonScope,
    ) -> Self {
        let ratios = compared.ratios(experiment);
        let mut ending = match ratios.iter().all(|ratio| ratio.holds()) {
            true => Self::of_searches(&compared.limits),
            false => Self::Missed,
        };
        for (baseline, workload) in compared.without_ratio(experiment) {
            if scope == ComparisonScope::Part && !compared.were_looked_for(baseline, workload) {
                continue;
            }
            // A missing ratio cannot hold.
            ending = ending.and(Self::Refused);
            say!(
                "under {workload}, no rate of {} or none of {} was found: the required ratio \
                 cannot be checked",
                baseline.subject,
                baseline.name
            );
        }
        ending
    }

    /// For searches alone: refused if none has a result, unsettled if one was not ended.
    #[must_use]
    pub fn of_searches(limits: &[ServerLimit]) -> Self {
        let has_result = |found: &SearchResult| found.rate.is_some() || found.failed.is_some();
        // A search limited by the machine is a result, and is reported as such.
        let is_over = |found: &SearchResult| found.is_settled || found.is_machine_limited();
        match limits {
            limits if !limits.iter().any(|limit| has_result(&limit.found)) => Self::Refused,
            limits if limits.iter().all(|limit| is_over(&limit.found)) => Self::Done,
            _ => Self::Unsettled,
        }
    }
}

/// Reason for the lack of a result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The machine failed.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// The machine lacks a requirement.
    #[error("the bench cannot run here; missing: {}", .0.join("; "))]
    Missing(Vec<String>),
    /// A result file cannot be written.
    #[error("{0}: {1}")]
    Result(String, std::io::Error),
    /// The report cannot be written.
    #[error(transparent)]
    Page(#[from] headlong_report::WriteError),
}

impl BenchOptions {
    /// The search driver for these servers, if the machine meets their requirements.
    ///
    /// # Errors
    /// If a requirement is missing, or the results folder cannot be created.
    pub fn driver<'e>(
        &self,
        experiment: &'e Experiment,
        cells: &[ExperimentCell],
        searches: usize,
    ) -> Result<SearchDriver<'e, Bench>, BenchError> {
        let missing = missing(experiment, cells);
        if !missing.is_empty() {
            return Err(BenchError::Missing(missing));
        }
        let bench = Bench::new(experiment, &self.headlong, &self.store)?;
        self.driver_of(experiment, bench, searches)
    }

    /// The search driver with this runner.
    ///
    /// # Errors
    /// If the results folder cannot be created.
    pub(crate) fn driver_of<'e, R: Runner>(
        &self,
        experiment: &'e Experiment,
        runner: R,
        searches: usize,
    ) -> Result<SearchDriver<'e, R>, BenchError> {
        let records = RecordFolder::open(&self.results);
        let records = Some(records.map_err(|error| self.failed(error))?);
        let driver = SearchDriver::new(experiment, runner, records, self.resumes, searches);
        Ok(driver)
    }

    /// Creates the results folder, if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created.
    fn make_results(&self) -> Result<(), BenchError> {
        std::fs::create_dir_all(&self.results).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: std::io::Error) -> BenchError {
        BenchError::Result(self.results.display().to_string(), error)
    }

    /// Writes a result as `results.json` next to the report.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, result: &serde_json::Value) -> Result<(), BenchError> {
        self.make_results()?;
        let written = std::fs::write(self.results.join("results.json"), result.to_string());
        written.map_err(|error| self.failed(error))
    }

    /// Writes the report, and prints the result as JSON or as text.
    ///
    /// # Errors
    /// If the report cannot be written.
    pub fn publish(
        &self,
        page: Page,
        result: &serde_json::Value,
        text: &str,
    ) -> Result<(), BenchError> {
        page.write(&self.report())?;
        print(self, result, || {
            format!("{text}\nReport: {}\n", self.report().display())
        });
        Ok(())
    }

    /// Path of the report.
    pub fn report(&self) -> PathBuf {
        let usual = || self.results.join("report.html");
        self.report.clone().unwrap_or_else(usual)
    }
}

/// One run.
///
/// # Errors
/// If the machine failed, or a result cannot be written.
pub fn run(
    experiment: &Experiment,
    cell: &ExperimentCell,
    rate: f64,
    seed: u64,
    options: &BenchOptions,
) -> Result<CommandOutcome, BenchError> {
    let mut driver = options.driver(experiment, slice::from_ref(cell), 1)?;
    let record = driver.run(cell, rate, seed, false)?;
    publish_runs(slice::from_ref(&record), options, || {
        runs_table([&record]).to_markdown()
    })
}

/// Writes the report of some runs and prints them: JSON of a single one is its record.
pub(crate) fn publish_runs(
    records: &[RunRecord],
    options: &BenchOptions,
    text: impl Fn() -> String,
) -> Result<CommandOutcome, BenchError> {
    run_page(records, &options.command_line).write(&options.report())?;
    let value = match records {
        [only] => serde_json::to_value(only),
        all => serde_json::to_value(all),
    };
    print(options, &value.unwrap_or_default(), text);
    let is_refused = |record: &RunRecord| record.verdict.outcome == OutcomeName::Refused;
    Ok(match records.iter().any(is_refused) {
        true => CommandOutcome::Refused,
        false => CommandOutcome::Done,
    })
}

/// Searches the limit of one server.
///
/// # Errors
/// If the machine failed, or a result cannot be written.
pub fn search(
    experiment: &Experiment,
    cell: &ExperimentCell,
    start: f64,
    options: &BenchOptions,
) -> Result<CommandOutcome, BenchError> {
    let mut driver = options.driver(experiment, slice::from_ref(cell), 1)?;
    let limit = driver.search(cell, start, 0)?;
    let limits = vec![limit];
    let ending = CommandOutcome::of_searches(&limits);
    finish(
        experiment,
        &ComparisonResult { limits },
        options,
        ComparisonScope::Part,
    )?;
    Ok(ending)
}

/// Searches all limits and computes their ratios.
///
/// # Errors
/// If the machine failed, or a result cannot be written.
pub fn compare_all(
    experiment: &Experiment,
    options: &BenchOptions,
) -> Result<CommandOutcome, BenchError> {
    let cells = experiment.cells();
    let searches = cells.len() * experiment.repeats as usize;
    let mut driver = options.driver(experiment, &cells, searches)?;
    let compared = compare(experiment, &mut driver)?;
    finish(experiment, &compared, options, ComparisonScope::Whole)
}

/// Which part of an experiment was selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComparisonScope {
    /// All comparisons.
    Whole,
    /// Some of them: a ratio whose other side was not selected is not missing.
    Part,
}

/// Writes all results, and checks that all ratios hold.
pub(crate) fn finish(
    experiment: &Experiment,
    compared: &ComparisonResult,
    options: &BenchOptions,
    scope: ComparisonScope,
) -> Result<CommandOutcome, BenchError> {
    let page = comparison_page(experiment, compared, &options.command_line);
    page.write(&options.report())?;
    print(options, &summary(experiment, compared), || {
        let page = options.report();
        tables(experiment, compared) + &format!("Report: {}\n", page.display())
    });
    Ok(CommandOutcome::of_ratios(experiment, compared, scope))
}

/// The result as JSON.
pub fn summary(experiment: &Experiment, compared: &ComparisonResult) -> serde_json::Value {
    let limits: Vec<_> = compared.limits.iter().map(limit_summary).collect();
    json!({
        "schema": "headlong-bench-compare-1",
        "experiment": experiment.name,
        "limits": limits,
        "ratios": compared.ratios(experiment),
    })
}

fn limit_summary(limit: &ServerLimit) -> serde_json::Value {
    let delivered = |record: &RunRecord| record.verdict.delivered;
    json!({
        "workload": limit.workload,
        "server": limit.server,
        "repeat": limit.repeat,
        "rate": limit.found.rate,
        "fails_at": limit.found.failed,
        "is_settled": limit.found.is_settled,
        "is_machine_limited": limit.found.is_machine_limited(),
        "machine": limit.machine,
        "probes": limit.found.probes,
        "asked_for": limit.best.as_ref().and_then(|best| best.verdict.asked_for),
        "delivered": limit.best.as_ref().map(delivered),
    })
}

/// Prints the result, as JSON or as text.
pub fn print(options: &BenchOptions, value: &serde_json::Value, text: impl Fn() -> String) {
    let text = match options.json {
        true => format!("{value}\n"),
        false => text(),
    };
    // A closed pipe is not an error: the result is in its file.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Default folder of the filled drives: below the user's cache folder.
pub fn default_store() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Path::new(&variable("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    cache.unwrap_or_else(home).join("headlong/drives")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(rate: Option<f64>, refused: Option<f64>, is_settled: bool) -> ServerLimit {
        ServerLimit {
            workload: "sd".into(),
            server: "a".into(),
            repeat: 0,
            found: SearchResult {
                rate,
                failed: None,
                refused,
                is_settled,
                probes: 3,
            },
            best: None,
            failed: None,
            machine: None,
        }
    }

    #[test]
    fn missing_required_ratio_does_not_hold() {
        let text = "name = \"x\"\n[drive]\npreset = \"wd-red-wd10efrx\"\n\
                    [files]\ncatalogue = \"youtube-sd\"\n[workload.sd]\npreset = \"youtube-sd\"\n\
                    [server.a]\nkind = \"headlong\"\n[server.b]\nkind = \"nginx\"\n\
                    [baseline.best]\nsubject = \"a\"\nservers = [\"b\"]\nat_least = { sd = 2 }\n";
        let experiment = Experiment::from_text(Path::new("x.toml"), text, false).expect("right");
        let of = |server: &str, rate| ServerLimit {
            server: server.into(),
            ..limit(rate, None, true)
        };
        let both = |a, b| vec![of("a", a), of("b", b)];
        let (whole, part) = (ComparisonScope::Whole, ComparisonScope::Part);
        let cases = [
            (both(Some(5.0), Some(2.0)), whole, CommandOutcome::Done),
            (both(Some(3.0), Some(2.0)), whole, CommandOutcome::Missed),
            (both(Some(5.0), None), whole, CommandOutcome::Refused),
            (both(None, Some(2.0)), part, CommandOutcome::Refused),
            (vec![of("a", Some(5.0))], whole, CommandOutcome::Refused),
            (vec![of("a", Some(5.0))], part, CommandOutcome::Done),
        ];
        for (limits, scope, ending) in cases {
            let compared = ComparisonResult { limits };
            let found = CommandOutcome::of_ratios(&experiment, &compared, scope);
            assert_eq!(found, ending, "{scope:?} {compared:?}");
        }
    }

    #[test]
    fn unsettled_search_does_not_succeed() {
        let settled = limit(Some(5.0), None, true);
        let open = limit(Some(5.0), None, false);
        let bounded = limit(Some(5.0), Some(9.0), false);
        let nothing = limit(None, None, false);
        let cases = [
            (vec![settled.clone()], CommandOutcome::Done),
            (vec![settled.clone(), bounded], CommandOutcome::Done),
            (vec![open.clone()], CommandOutcome::Unsettled),
            (vec![settled, open], CommandOutcome::Unsettled),
            (vec![nothing], CommandOutcome::Refused),
        ];
        for (limits, ending) in cases {
            assert_eq!(CommandOutcome::of_searches(&limits), ending, "{limits:?}");
        }
    }
}
