//! The commands of the bench: what each makes, keeps and prints.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::slice;

use serde_json::json;

use crate::compare::{Compared, compare};
use crate::experiment::{Cell, Experiment};
use crate::record::{OutcomeName, Records, RunRecord};
use crate::report::{
    MarkdownError, comparison_page, limits_table, ratios_table, run_page, runs_table,
    write_markdown,
};
use crate::rig::{RigError, missing};
use crate::run::Bench;
use crate::search_driver::{Limit, SearchDriver};

/// How the bench is to be used, apart from the experiment.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program `headlong`.
    pub headlong: PathBuf,
    /// Where filled drives are kept.
    pub store: PathBuf,
    /// Where records and the page go.
    pub results: PathBuf,
    /// Runs whose records are there are not made again.
    pub resumes: bool,
    /// Where the page goes, if not among the records.
    pub report: Option<PathBuf>,
    /// A page of the documentation that gets the tables.
    pub markdown: Option<PathBuf>,
    /// JSON instead of tables on standard output.
    pub json: bool,
    /// What was typed, for the page.
    pub command_line: String,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With a result.
    Done,
    /// What was measured does not count.
    Refused,
    /// A ratio is below what must be reached.
    Missed,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Of the machine.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// Of what is missing on it.
    #[error("the bench cannot run here; missing: {}", .0.join("; "))]
    Missing(Vec<String>),
    /// Of a result's file.
    #[error("{0}: {1}")]
    Result(String, std::io::Error),
    /// Of the page.
    #[error(transparent)]
    Page(#[from] headlong_report::WriteError),
    /// Of the documentation.
    #[error(transparent)]
    Markdown(#[from] MarkdownError),
}

impl Options {
    /// What runs the searches of these servers, if the machine can.
    ///
    /// # Errors
    /// If something that it needs is missing, or the results' folder cannot be made.
    pub fn driver<'e>(
        &self,
        experiment: &'e Experiment,
        cells: &[Cell],
        searches: usize,
    ) -> Result<SearchDriver<'e, Bench>, BenchError> {
        let missing = missing(experiment, cells);
        if !missing.is_empty() {
            return Err(BenchError::Missing(missing));
        }
        let failed = |error| BenchError::Result(self.results.display().to_string(), error);
        let records = Records::open(&self.results).map_err(failed)?;
        let bench = Bench::new(experiment, &self.headlong, &self.store)?;
        Ok(SearchDriver::new(
            experiment,
            bench,
            Some(records),
            self.resumes,
            searches,
        ))
    }

    /// Where the page goes.
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
    cell: &Cell,
    rate: f64,
    seed: u64,
    options: &Options,
) -> Result<Ending, BenchError> {
    let mut driver = options.driver(experiment, slice::from_ref(cell), 1)?;
    let record = driver.run(cell, rate, seed, false)?;
    run_page(slice::from_ref(&record), &options.command_line).write(&options.report())?;
    let table = || runs_table([&record]).to_markdown();
    print(
        options,
        &serde_json::to_value(&record).unwrap_or_default(),
        table,
    );
    Ok(match record.verdict.outcome {
        OutcomeName::Refused => Ending::Refused,
        _ => Ending::Done,
    })
}

/// The limit of one server.
///
/// # Errors
/// If the machine failed, or a result cannot be written.
pub fn search(
    experiment: &Experiment,
    cell: &Cell,
    start: f64,
    options: &Options,
) -> Result<Ending, BenchError> {
    let mut driver = options.driver(experiment, slice::from_ref(cell), 1)?;
    let limit = driver.search(cell, start, 0)?;
    let has_result = limit.found.rate.is_some() || limit.found.failed.is_some();
    let compared = Compared {
        limits: vec![limit],
    };
    finish(experiment, &compared, options)?;
    Ok(if has_result {
        Ending::Done
    } else {
        Ending::Refused
    })
}

/// All limits, and their ratios.
///
/// # Errors
/// If the machine failed, or a result cannot be written.
pub fn compare_all(experiment: &Experiment, options: &Options) -> Result<Ending, BenchError> {
    let cells = experiment.cells();
    let searches = cells.len() * experiment.repeats as usize;
    let mut driver = options.driver(experiment, &cells, searches)?;
    let compared = compare(experiment, &mut driver)?;
    finish(experiment, &compared, options)?;
    let ratios = compared.ratios(experiment);
    Ok(match ratios.iter().all(|ratio| ratio.holds()) {
        true => Ending::Done,
        false => Ending::Missed,
    })
}

/// Writes what was found everywhere it belongs.
pub(crate) fn finish(
    experiment: &Experiment,
    compared: &Compared,
    options: &Options,
) -> Result<(), BenchError> {
    let page = comparison_page(experiment, compared, &options.command_line);
    page.write(&options.report())?;
    if let Some(file) = &options.markdown {
        write_markdown(file, experiment, compared, &options.command_line)?;
    }
    let tables = || {
        let ratios = compared.ratios(experiment);
        let mut text = String::new();
        if !ratios.is_empty() {
            text += &format!("{}\n", ratios_table(&ratios).to_markdown());
        }
        for workload in compared.workloads(experiment) {
            let table = limits_table(compared, workload).caption(format!("Workload {workload}:"));
            text += &format!("{}\n", table.to_markdown());
        }
        text + &format!("The page: {}\n", options.report().display())
    };
    print(options, &summary(experiment, compared), tables);
    Ok(())
}

/// What was found, as JSON.
pub fn summary(experiment: &Experiment, compared: &Compared) -> serde_json::Value {
    let limits: Vec<_> = compared.limits.iter().map(limit_summary).collect();
    json!({
        "schema": "headlong-bench-compare-1",
        "experiment": experiment.name,
        "limits": limits,
        "ratios": compared.ratios(experiment),
    })
}

fn limit_summary(limit: &Limit) -> serde_json::Value {
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
        "delivered": limit.best.as_ref().map(delivered),
    })
}

/// Prints the result, as JSON or as text.
pub fn print(options: &Options, value: &serde_json::Value, text: impl Fn() -> String) {
    let text = match options.json {
        true => format!("{value}\n"),
        false => text(),
    };
    // Who stopped reading has had enough; the result is in its file.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Where filled drives are kept if nobody says: below the user's cache folder.
pub fn default_store() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Path::new(&variable("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    cache.unwrap_or_else(home).join("headlong/drives")
}
