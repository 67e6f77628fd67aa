//! Makes runs until the limit of a server is known. Records are stored as runs end, and recorded
//! runs are not repeated.

use std::time::{Duration, Instant};

use crate::experiment::{Experiment, ExperimentCell};
use crate::record::{OutcomeName, RecordFolder, RunKey, RunRecord};
use crate::rig::RigError;
use crate::run_identity::{key, of_run, settings};
use crate::search::{LimitSearch, Probe, SearchResult};
use crate::step_load::StepLoadResult;
use headlong_report::say;

/// Distance of the seeds of consecutive repeats.
const SEEDS_PER_REPEAT: u64 = 1000;
/// Overhead of a run beyond its phases: cold caches, start, stop.
const RUN_OVERHEAD: Duration = Duration::from_secs(8);
/// Typical number of runs of a search with a fair first guess.
const PROBES: f64 = 5.0;
/// Typical duration of a virtual run.
const VIRTUAL_RUN: Duration = Duration::from_secs(3);
/// Share of the offered bytes that viewers of a steady state request at least.
const ASKED_SHARE_MIN: f64 = 0.8;
const MIB: f64 = 1_048_576.0;

/// Makes runs: the bench, or a stand-in for it.
pub trait Runner {
    /// Identifies the build that makes the runs: records of other builds are not reused.
    fn build(&self) -> &str;

    /// Makes one run at the given rate in bytes per second; with `ends_at_failure` it may end as
    /// soon as it has failed.
    ///
    /// # Errors
    /// If the machine failed.
    fn run(
        &mut self,
        cell: &ExperimentCell,
        rate: f64,
        seed: u64,
        ends_at_failure: bool,
    ) -> Result<RunRecord, RigError>;
}

/// Result of one search: one server under one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerLimit {
    /// Name of the workload.
    pub workload: String,
    /// Name of the server.
    pub server: String,
    /// Index of the repeat, from 0.
    pub repeat: u32,
    /// The result.
    pub found: SearchResult,
    /// The last run at the found rate.
    pub best: Option<RunRecord>,
    /// The run that failed closest above it.
    pub failed: Option<RunRecord>,
    /// Why a run was refused, if one was.
    pub machine: Option<String>,
}

impl ServerLimit {
    /// A single run, in the form of a limit.
    pub(crate) fn of_run(cell: &ExperimentCell, record: RunRecord) -> Self {
        let passed = record.verdict.outcome == OutcomeName::Passed;
        Self {
            workload: cell.workload_name.clone(),
            server: cell.server_name.clone(),
            repeat: 0,
            found: SearchResult {
                rate: passed.then_some(record.rate),
                failed: None,
                refused: None,
                is_settled: false,
                probes: 1,
            },
            best: Some(record),
            failed: None,
            machine: None,
        }
    }
}

/// Makes runs, stores their records, and reports progress.
#[derive(Debug)]
pub struct SearchDriver<'a, R> {
    experiment: &'a Experiment,
    runner: R,
    records: Option<RecordFolder>,
    resumes: bool,
    progress: SearchProgress,
}

impl<'a, R: Runner> SearchDriver<'a, R> {
    /// Records of finished runs are stored in `records`; with `resumes`, recorded runs are not made
    /// again. `searches` is their number, for the estimate of the remaining time.
    pub fn new(
        experiment: &'a Experiment,
        runner: R,
        records: Option<RecordFolder>,
        resumes: bool,
        searches: usize,
    ) -> Self {
        let progress = SearchProgress::new(experiment, searches);
        Self {
            experiment,
            runner,
            records,
            resumes,
            progress,
        }
    }

    /// The same, for runs that take seconds whatever their phases.
    #[must_use]
    pub fn in_virtual_time(mut self) -> Self {
        self.progress.run_guess = VIRTUAL_RUN;
        self
    }

    /// The maker of the runs.
    pub fn runner(&mut self) -> &mut R {
        &mut self.runner
    }

    /// Makes one run, or finds its record. A refused run is repeated once.
    ///
    /// # Errors
    /// If the machine failed, or a record cannot be stored.
    pub fn run(
        &mut self,
        cell: &ExperimentCell,
        rate: f64,
        seed: u64,
        ends_at_failure: bool,
    ) -> Result<RunRecord, RigError> {
        let key = self.key(cell, rate, seed, ends_at_failure);
        let kept = self.records.as_ref().filter(|_| self.resumes);
        if let Some(record) = kept.and_then(|records| records.find(&key)) {
            self.progress.print_run(&record, "from its record");
            return Ok(record);
        }
        let mut record = self.made(cell, rate, seed, ends_at_failure)?;
        if record.verdict.outcome == OutcomeName::Refused {
            record = self.made(cell, rate, seed, ends_at_failure)?;
        }
        Ok(record)
    }

    fn key(&self, cell: &ExperimentCell, rate: f64, seed: u64, ends_at_failure: bool) -> RunKey {
        let settings = settings(self.experiment, cell, self.runner.build());
        key(cell, rate, seed, of_run(settings, ends_at_failure))
    }

    fn made(
        &mut self,
        cell: &ExperimentCell,
        rate: f64,
        seed: u64,
        ends_at_failure: bool,
    ) -> Result<RunRecord, RigError> {
        let record = self.runner.run(cell, rate, seed, ends_at_failure)?;
        let seconds = format!("{:.0} s", record.wall_seconds);
        self.progress.made += 1;
        self.progress.print_run(&record, &seconds);
        if let Some(records) = &self.records {
            let kept = records.keep(&self.key(cell, rate, seed, ends_at_failure), &record);
            kept.map_err(|error| RigError::io(records.folder().display(), error))?;
        }
        Ok(record)
    }

    /// Searches the limit of a server, beginning at `start` bytes per second.
    ///
    /// # Errors
    /// If the machine failed, or a record cannot be stored.
    pub fn search(
        &mut self,
        cell: &ExperimentCell,
        start: f64,
        repeat: u32,
    ) -> Result<ServerLimit, RigError> {
        self.progress.begin(cell);
        let first_seed = self.experiment.seed + u64::from(repeat) * SEEDS_PER_REPEAT;
        if self.experiment.climb.is_some() {
            let from = self.experiment.first_rate(cell);
            return self.climb(cell, from, (repeat, first_seed));
        }
        let search = LimitSearch::of(self.experiment, start);
        let make = |probes: &[Probe]| {
            let run = |probe: &Probe| {
                let seed = first_seed + u64::from(probe.seed_index);
                self.run(cell, probe.rate, seed, true)
            };
            probes.iter().map(run).collect::<Result<Vec<_>, _>>()
        };
        let mut searched = search.run(1, make, RunRecord::outcome)?;
        let refused = searched
            .refused
            .map(|record| record.verdict.refused_because);
        let limit = ServerLimit {
            workload: cell.workload_name.clone(),
            server: cell.server_name.clone(),
            repeat,
            found: searched.found,
            best: searched.passed.pop(),
            failed: searched.failed,
            machine: refused.map(|reasons| reasons.join("; ")),
        };
        self.progress.end(&limit);
        Ok(limit)
    }
}

impl<R: Runner> SearchDriver<'_, R> {
    /// Finds the limit within one run with rising rates.
    fn climb(
        &mut self,
        cell: &ExperimentCell,
        from: f64,
        (repeat, seed): (u32, u64),
    ) -> Result<ServerLimit, RigError> {
        let record = self.run(cell, from, seed, true)?;
        let is_refused = record.verdict.outcome == OutcomeName::Refused;
        let found = record.climbed.as_ref().map(StepLoadResult::found);
        let found = found.filter(|_| !is_refused).unwrap_or(SearchResult {
            rate: None,
            failed: None,
            refused: is_refused.then_some(from),
            is_settled: false,
            probes: 1,
        });
        let machine = is_refused.then(|| record.verdict.refused_because.join("; "));
        let limit = ServerLimit {
            workload: cell.workload_name.clone(),
            server: cell.server_name.clone(),
            repeat,
            found,
            best: Some(record),
            failed: None,
            machine,
        };
        self.progress.end(&limit);
        Ok(limit)
    }
}

/// Estimated duration of a run.
pub(crate) fn run_guess(experiment: &Experiment) -> Duration {
    let phases = experiment.phases.whole().as_secs_f64();
    Duration::from_secs_f64(phases / f64::from(experiment.time_scale)) + RUN_OVERHEAD
}

/// Estimated number of runs of a search.
pub(crate) fn runs_guess(experiment: &Experiment) -> f64 {
    experiment.climb.map_or(PROBES, |_| 1.0)
}

/// Progress output.
#[derive(Debug)]
struct SearchProgress {
    started: Instant,
    searches: usize,
    begun: usize,
    made: u32,
    run_guess: Duration,
    runs_guess: f64,
    /// Whether virtual runs fail by calls instead of sessions.
    counts_calls: bool,
}

impl SearchProgress {
    fn new(experiment: &Experiment, searches: usize) -> Self {
        Self {
            started: Instant::now(),
            searches,
            begun: 0,
            made: 0,
            run_guess: run_guess(experiment),
            runs_guess: runs_guess(experiment),
            counts_calls: experiment.simulation.counts_calls,
        }
    }

    fn begin(&mut self, cell: &ExperimentCell) {
        self.begun += 1;
        let left = self.left().as_secs().div_ceil(60);
        let (begun, all) = (self.begun, self.searches);
        say!("[{begun}/{all}] {}; about {left} min left", cell.name());
    }

    /// Estimate by the mean number of runs so far, or by the typical one.
    fn left(&self) -> Duration {
        let done = self.begun.saturating_sub(1);
        let (per_search, per_run) = match (done, self.made) {
            (0, _) | (_, 0) => (self.runs_guess, self.run_guess),
            (done, made) => {
                let made = f64::from(made);
                (made / done as f64, self.started.elapsed().div_f64(made))
            }
        };
        per_run.mul_f64(per_search * (self.searches - done.min(self.searches)) as f64)
    }

    fn print_run(&self, record: &RunRecord, how_long: &str) {
        let verdict = &record.verdict;
        let what = match verdict.outcome {
            OutcomeName::Passed => "passed".to_owned(),
            OutcomeName::Failed if !verdict.missed.is_empty() => {
                format!("failed: {}", verdict.missed.join("; "))
            }
            OutcomeName::Failed => {
                let of = match self.counts_calls && record.is_virtual() {
                    true => "calls",
                    false => "sessions",
                };
                let percent = verdict.failure_share * 100.0;
                match percent < 0.01 {
                    true => format!("failed, less than 0.01 % of {of}"),
                    false => format!("failed, {percent:.2} % of {of}"),
                }
            }
            OutcomeName::Refused => format!("refused: {}", verdict.refused_because.join("; ")),
        };
        let ramp = match verdict.ramp_failures {
            0 => String::new(),
            failures => format!(", {failures} failed in the ramp"),
        };
        let pattern = &record.disk.pattern;
        let busy = pattern.busy_share;
        let busy = busy.map_or(String::new(), |share| {
            format!(" and busy {:.0} %", share * 100.0)
        });
        let in_seeks = pattern.kib_per_sequence();
        let in_seeks = in_seeks.map_or(String::new(), |kib| format!(" in {kib:.0} KiB a seek"));
        let asked_for = verdict.asked_for.map_or(String::new(), |rate| {
            format!("asked for {:.1}, ", rate / MIB)
        });
        say!(
            "  offered {:.2} MiB/s: {what}{ramp}; {asked_for}delivered {:.1}, drive {:.1} MiB/s{in_seeks}{busy}, \
             CPU {:.0} %; {how_long}",
            record.rate / MIB,
            verdict.delivered / MIB,
            pattern.rate() / MIB,
            record.cpu.machine_share * 100.0,
        );
        let is_short = verdict
            .asked_for
            .is_some_and(|asked| asked < ASKED_SHARE_MIN * record.rate);
        if is_short && verdict.outcome == OutcomeName::Passed {
            say!(
                "    too few viewers had arrived, which flatters the server: use a longer ramp \
                 (phases.ramp_up), or sessions.resume_time"
            );
        }
        if record.is_virtual() && verdict.outcome != OutcomeName::Passed {
            say!("    again: {}", record.setup.commands.join("; "));
        }
    }

    fn end(&self, limit: &ServerLimit) {
        let rate = match limit.found.rate {
            Some(rate) => format!("{:.2} MiB/s", rate / MIB),
            None => "no rate passed".to_owned(),
        };
        let how = match (limit.found.is_settled, limit.found.is_machine_limited()) {
            (true, _) => String::new(),
            (_, true) => "; the machine was the limit, not the drive".to_owned(),
            _ => "; not settled".to_owned(),
        };
        say!("  = {rate}{how} ({}, {})", limit.server, limit.workload);
    }
}
