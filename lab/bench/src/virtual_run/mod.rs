//! Runs of an experiment in virtual time, with the engine, the viewers and the drive as pure cores.
//!
//! Inputs and outputs are those of a real run. The server's configuration is parsed by the server's
//! own reader, the sessions are those of `headlong workload generate`, the drive is the model of
//! `headlong disk emulate`; and the record has the same form, so that tables, pages and searches
//! accept either. Times that the kernel adds to an emulated drive (mq-deadline's half a second, the
//! path from the drive to the server) are wall time, so in model time they are multiplied by the
//! time scale, here as in a real run.
//!
//! Invariants: same experiment, rate and seed, same record, byte for byte: no clock is read here;
//! settings that cannot be simulated are reported before any run.

#[cfg(test)]
mod tests;
mod world;

use headlong_player::ExportedCall;
use headlong_report::shell_word;
use headlong_sim::{RunFigures, RunMeasurements, ServerModel, VirtualExperiment, WorldSetup};
use headlong_units::{Duration, KIB};
use serde_json::{Value, json};

use crate::cpu_usage::{CpuUsage, MachineInfo};
use crate::disk_trace::DiskPattern;
use crate::experiment::{BlockQueueSettings, Experiment, ExperimentCell, SearchRules};
use crate::load_result::{PlaybackQuality, QualityShortfall, RampViewers};
use crate::record::{
    DiskFacts, LoadFigures, OutcomeName, RunRecord, RunSetup, RunVerdict, SCHEMA, ServerFacts,
};
use crate::rig::{MemoryUse, QueueSettings, RigError};
use crate::run_identity::{of_run, own_build, settings};
use crate::run_phases::RunPhase;
use crate::search::{CompletedSearch, LimitSearch, Probe};
use crate::search_driver::Runner;

/// Name of the machine in the record of a virtual run.
pub(crate) const VIRTUAL: &str = "virtual time";

/// Largest request of a loop device, in KiB.
const LOOP_REQUEST_KB: u32 = 1280;

/// Makes runs in virtual time.
#[derive(Debug, Clone)]
pub struct VirtualBench {
    experiment: Experiment,
    turnaround: Duration,
    /// See [`Runner::build`].
    build: String,
    /// Name of the experiment in replay lines.
    replay: String,
    /// The calls of the last run, if they are kept.
    each_call: Option<Vec<ExportedCall>>,
}

/// Why a server under a workload cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cell} cannot be simulated: {why}")]
pub struct NotSimulatable {
    /// Name of the cell.
    pub cell: String,
    /// The reason.
    pub why: String,
}

impl VirtualBench {
    /// Runs of this experiment. `turnaround` is the wall time from the end of a request in the
    /// emulated drive until its completion reaches the server; `replay` is the command that repeats
    /// a run, up to the server's name.
    pub fn new(experiment: &Experiment, turnaround: Duration, replay: &str) -> Self {
        Self {
            experiment: experiment.clone(),
            turnaround,
            // Not part of the experiment, but it affects all runs.
            build: format!("{}, {VIRTUAL}, turnaround {turnaround}", own_build()),
            replay: replay.to_owned(),
            each_call: None,
        }
    }

    /// The same, with each call of a run if `keeps_calls`.
    #[must_use]
    pub fn with_calls(mut self, keeps_calls: bool) -> Self {
        self.each_call = keeps_calls.then(Vec::new);
        self
    }

    /// Takes the calls of the last run; none unless they are kept.
    pub(crate) fn take_calls(&mut self) -> Vec<ExportedCall> {
        self.each_call
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// The cells that cannot be simulated, with reasons.
    pub fn lacks<'c>(
        &self,
        cells: impl IntoIterator<Item = &'c ExperimentCell>,
    ) -> Vec<NotSimulatable> {
        let cells = cells.into_iter();
        cells.filter_map(|cell| self.world(cell).err()).collect()
    }

    /// Largest number of outstanding reads of the server, if it is headlong.
    pub(crate) fn reads_at_a_time(&self, cell: &ExperimentCell) -> Option<u32> {
        let setup = self.world(cell).ok()?.setup;
        match setup.server {
            ServerModel::Headlong => Some(setup.engine.outstanding_reads_max),
            ServerModel::Vanilla(_) => None,
        }
    }

    /// The command that repeats a run.
    pub fn replay_line(&self, cell: &ExperimentCell, rate: f64, seed: u64) -> String {
        replay_line(&self.replay_words(cell), rate, seed)
    }

    /// A server under a workload, ready to run.
    ///
    /// # Errors
    /// If the cell cannot be simulated.
    pub fn cell(&self, cell: &ExperimentCell) -> Result<VirtualCell, NotSimulatable> {
        Ok(VirtualCell {
            experiment: self.experiment.name.clone(),
            server: cell.server_name.clone(),
            workload: cell.workload_name.clone(),
            world: self.world(cell)?,
            rules: (!self.experiment.simulation.counts_calls).then_some(self.experiment.search),
            limit: LimitSearch::of(&self.experiment, cell.rate_start()),
            time_scale: self.experiment.time_scale,
            settings: settings(&self.experiment, cell, &self.build),
            kernel: cell.kernel.clone(),
            replay: self.replay_words(cell),
        })
    }

    fn replay_words(&self, cell: &ExperimentCell) -> String {
        let [server, workload] = [&cell.server_name, &cell.workload_name].map(shell_word);
        format!("{} --server {server} --workload {workload}", self.replay)
    }
}

/// The command line of a run: the common part, its rate and seed.
fn replay_line(words: &str, rate: f64, seed: u64) -> String {
    format!("{words} --rate {}B/s --seed {seed}", rate.round())
}

/// A server under a workload in virtual time, from an experiment or from options.
#[derive(Debug, Clone)]
pub struct VirtualCell {
    experiment: String,
    server: String,
    workload: String,
    world: VirtualExperiment,
    /// Pass criteria; without any, a failed call in the measured period fails the run.
    rules: Option<SearchRules>,
    /// The search for its limit.
    limit: LimitSearch,
    time_scale: u32,
    settings: Value,
    kernel: BlockQueueSettings,
    replay: String,
}

impl VirtualCell {
    /// A headlong server in a world described by a program. A run fails if a call fails in the
    /// measured period (thesis 4.4.3). `replay` is the command that repeats a run, up to its rate.
    pub fn of_options(world: VirtualExperiment, workload: &str, replay: &str) -> Self {
        let settings = json!({
            "drive": format!("{:?}", world.drive),
            "setup": format!("{:?}", world.setup),
            "workload": format!("{:?}", world.workload),
        });
        Self {
            experiment: "simulate".to_owned(),
            server: "headlong".to_owned(),
            workload: workload.to_owned(),
            rules: None,
            limit: LimitSearch::without_failure(60.0 * MIB, MIB, 1),
            time_scale: 1,
            settings,
            kernel: BlockQueueSettings {
                scheduler: "none".to_owned(),
                read_ahead_kb: 0,
                max_sectors_kb: None,
            },
            replay: replay.to_owned(),
            world,
        }
    }

    /// The world to simulate, except for rate and seed.
    pub fn world(&self) -> &VirtualExperiment {
        &self.world
    }

    /// Settings that determine a run besides its rate and seed.
    pub(crate) fn settings(&self) -> &Value {
        &self.settings
    }

    /// The search for its limit, by the rules of its experiment.
    pub(crate) fn limit(&self) -> &LimitSearch {
        &self.limit
    }

    /// Makes one run at the given rate in bytes per second; with `ends_at_failure` it ends as soon
    /// as it has failed.
    ///
    /// # Errors
    /// If the world cannot be made.
    pub fn run(&self, rate: f64, seed: u64, ends_at_failure: bool) -> Result<RunRecord, RigError> {
        self.observe(rate, seed, ends_at_failure, false)
            .map(|(record, _)| record)
    }

    fn observe(
        &self,
        rate: f64,
        seed: u64,
        ends_at_failure: bool,
        keeps_calls: bool,
    ) -> Result<(RunRecord, Vec<ExportedCall>), RigError> {
        let mut world = self.world.clone();
        world.setup.keeps_calls = keeps_calls;
        match self.rules {
            None => world.setup.stops_at_failure = ends_at_failure,
            Some(rules) => {
                let is_strict = rules.failures_max == 0.0;
                world.setup.stops_at_failed_session = ends_at_failure && is_strict;
            }
        }
        let seen = world.observe(rate / MIB, seed);
        let mut seen = seen.map_err(|error| RigError::Failed {
            what: replay_line(&self.replay, rate, seed),
            words: error.to_string(),
        })?;
        let calls = std::mem::take(&mut seen.each_call);
        let settings = of_run(self.settings.clone(), ends_at_failure);
        Ok((
            self.record(rate, seed, settings, &world.setup, &seen),
            calls,
        ))
    }

    /// Searches the highest rate that passes, with seeds from `seed` on.
    ///
    /// # Errors
    /// If the world cannot be made.
    pub fn search(
        &self,
        search: LimitSearch,
        seed: u64,
    ) -> Result<CompletedSearch<RunRecord>, RigError> {
        let run = |probe: &Probe| self.run(probe.rate, seed + u64::from(probe.seed_index), true);
        let make = |probes: &[Probe]| probes.iter().map(run).collect::<Result<Vec<_>, _>>();
        search.run(1, make, RunRecord::outcome)
    }

    fn record(
        &self,
        rate: f64,
        seed: u64,
        settings: Value,
        setup: &WorldSetup,
        seen: &RunMeasurements,
    ) -> RunRecord {
        let figures = RunFigures::new(rate / MIB, seed, seen);
        let (part, whole, most, short) = match self.rules {
            None => (
                figures.failures,
                seen.calls.ended,
                0.0,
                QualityShortfall::default(),
            ),
            Some(rules) => {
                let mut short = rules.quality.shortfall(&viewed(seen));
                let ramp = RampViewers {
                    sessions: figures.ramp_sessions,
                    failed: figures.ramp_failures,
                };
                short.missed.extend(ramp.shortfall());
                let [steady, failed] = [seen.sessions_steady, seen.sessions_steady_failed];
                (failed, steady, rules.failures_max, short)
            }
        };
        let ramp_failures = figures.ramp_failures;
        let failure_share = part as f64 / (whole as f64).max(1.0);
        let mut refused_because = short.unknown;
        if self.rules.is_some() && whole == 0 {
            refused_because.push("no session was wholly in steady state; measure longer".into());
        }
        let has_failed = failure_share > most || !short.missed.is_empty();
        let outcome = match (refused_because.is_empty(), has_failed) {
            (false, _) => OutcomeName::Refused,
            (true, true) => OutcomeName::Failed,
            (true, false) => OutcomeName::Passed,
        };
        let seconds = seen.length().as_secs_f64().max(1e-9);
        let of_a_second = |bytes: u64| bytes as f64 / seconds;
        RunRecord {
            schema: SCHEMA.to_owned(),
            experiment: self.experiment.clone(),
            server: self.server.clone(),
            workload: self.workload.clone(),
            rate,
            seed,
            time_scale: self.time_scale,
            started_unix: 0,
            wall_seconds: 0.0,
            verdict: RunVerdict {
                outcome,
                refused_because,
                limit: None,
                failure_share,
                ramp_failures,
                missed: short.missed,
                asked_for: Some(of_a_second(seen.asked_for_bytes())),
                delivered: of_a_second(seen.delivered_bytes()),
            },
            load: LoadFigures::Virtual(Box::new(figures)),
            server_facts: server_facts(setup, seen),
            disk: DiskFacts {
                others: Vec::new(),
                counters: counters(seen),
                pattern: pattern(seen),
                ssd_counters: None,
            },
            climbed: None,
            phases: RunPhase::of_virtual(setup, seen),
            cpu: CpuUsage::default(),
            setup: RunSetup {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                machine: MachineInfo {
                    kernel: VIRTUAL.to_owned(),
                    ..MachineInfo::default()
                },
                experiment: settings,
                queue: QueueSettings {
                    scheduler: self.kernel.scheduler.clone(),
                    read_ahead_kb: self.kernel.read_ahead_kb,
                    max_sectors_kb: (setup.request_bytes_max / KIB) as u32,
                    max_hw_sectors_kb: LOOP_REQUEST_KB,
                    is_rotational: true,
                },
                commands: vec![replay_line(&self.replay, rate, seed)],
                files: [].into(),
            },
        }
    }
}

const MIB: f64 = 1_048_576.0;
impl Runner for VirtualBench {
    fn build(&self) -> &str {
        &self.build
    }

    fn run(
        &mut self,
        cell: &ExperimentCell,
        rate: f64,
        seed: u64,
        ends_at_failure: bool,
    ) -> Result<RunRecord, RigError> {
        let made = self.cell(cell).map_err(|lack| RigError::Failed {
            what: self.replay_line(cell, rate, seed),
            words: lack.to_string(),
        })?;
        let (record, calls) =
            made.observe(rate, seed, ends_at_failure, self.each_call.is_some())?;
        self.each_call = self.each_call.is_some().then_some(calls);
        Ok(record)
    }
}

/// Playback quality of viewers that arrived within the window and have left.
fn viewed(seen: &RunMeasurements) -> PlaybackQuality {
    let mut all = PlaybackQuality::default();
    let (mut rated, mut bits) = (0_u64, 0_u128);
    for class in &seen.viewing {
        all.sessions += class.sessions;
        all.stalled += class.stalled;
        all.gave_up += class.gave_up;
        rated += class.bit_rates.0;
        bits += class.bit_rates.1;
    }
    all.bit_rate = (rated > 0).then(|| bits as f64 / rated as f64);
    all
}

fn server_facts(setup: &WorldSetup, seen: &RunMeasurements) -> ServerFacts {
    let stats = &seen.stats_whole;
    let cache = seen.cache.unwrap_or_default();
    let pool = match setup.server {
        ServerModel::Headlong => setup.engine.memory_bytes,
        ServerModel::Vanilla(_) => 0,
    };
    ServerFacts {
        memory: MemoryUse {
            peak_bytes: cache.bytes + pool,
            page_cache_bytes: cache.bytes,
            active_file_bytes: cache.active_bytes,
            anonymous_bytes: pool,
        },
        died: None,
        last_words: String::new(),
        // Field names of the server's own status.
        status: json!({ "devices": [{ "counters": {
            "busy_seconds": stats.busy_time.as_secs_f64(),
            "bytes_read": stats.bytes_read,
            "bytes_requested": stats.bytes_requested,
            "bytes_reused": stats.bytes_reused,
            "bytes_sent": stats.bytes_sent,
            "bytes_from_ram": stats.bytes_from_ram,
            "cache_evicted_bytes": stats.cache_evicted_bytes,
            "job_bytes": stats.job_bytes,
            "jobs": stats.jobs,
            "jobs_late": stats.jobs_late,
            "prefetch_evicted_bytes": stats.prefetch_evicted_bytes,
            "reads": stats.reads,
            "reads_done": stats.reads_done,
            "requests": stats.requests,
            "wasted_bytes": stats.wasted_bytes,
        } }] }),
    }
}

/// Counters with the field names of the emulated drive.
fn counters(seen: &RunMeasurements) -> Value {
    let drive = &seen.drive_whole;
    let parts = &drive.parts;
    json!({ "counters": {
        "busy_ns": drive.busy.0,
        "elapsed_ns": seen.ended_at().0,
        "parts": {
            "cleaning_ns": parts.cleaning.0,
            "overhead_ns": parts.overhead.0,
            "rotation_ns": parts.rotation.0,
            "seek_ns": parts.seek.0,
            "transfer_ns": parts.transfer.0,
        },
        "reads": {
            "bytes": drive.bytes,
            "requests": drive.requests,
            "seeks": drive.repositions,
        },
    } })
}

fn pattern(seen: &RunMeasurements) -> DiskPattern {
    let excerpt = seen.pattern.excerpt.iter().copied().collect();
    let sequences = &seen.pattern.sequences;
    // Of several disks, the first is evaluated.
    let busy = seen
        .disks
        .first()
        .map_or(seen.drive.busy, |disk| disk.drive.busy);
    DiskPattern::of_sequences(sequences, seen.length(), Some(busy), excerpt)
}
