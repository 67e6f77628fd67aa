//! Runs in virtual time: the same experiments, with the engine, the viewers and the drive as cores.
//!
//! The one idea: what decides a real run decides a virtual one. The server's configuration is read
//! by the server's own reader, the sessions are those that `headlong workload generate` would write,
//! the drive is the one that `headlong disk emulate` would play; and the record has the same form, so
//! that tables, pages and searches take either. What the kernel adds to an emulated drive goes by
//! the wall clock (the scheduler's half a second, the way from the drive to the server), so it is
//! longer in the model's time, by the time scale, here as there.
//!
//! Invariants: same experiment, rate and seed, same record, byte for byte: no clock is read here; what
//! cannot be imitated is told before anything is run.

#[cfg(test)]
mod tests;
mod world;

use headlong_sim::{Measure, Record, ServerKind as Origin, Setup as Made};
use headlong_units::{Duration, KIB};
use serde_json::{Value, json};

use crate::disk_trace::DiskPattern;
use crate::experiment::{Cell, Experiment};
use crate::facts::{CpuUse, Machine};
use crate::quality::Viewed;
use crate::record::{DiskFacts, OutcomeName, RunRecord, SCHEMA, ServerFacts, Setup, Verdict};
use crate::rig::{MemoryUse, QueueSettings, RigError};
use crate::run::settings;
use crate::search_driver::Runner;

/// What the machine of a virtual run is called in its record.
pub(crate) const VIRTUAL: &str = "virtual time";
/// Whether a record is of a run in virtual time.
pub fn is_virtual(record: &RunRecord) -> bool {
    record.setup.machine.kernel == VIRTUAL
}

/// Largest request of a loop device, in KiB.
const LOOP_REQUEST_KB: u32 = 1280;

/// Makes runs in virtual time.
#[derive(Debug, Clone)]
pub struct VirtualBench {
    experiment: Experiment,
    turnaround: Duration,
    /// How the experiment is named in replay lines.
    replay: String,
}

/// Why a pair of server and workload has no virtual form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cell} has no form in virtual time: {why}")]
pub struct NotVirtual {
    /// Which.
    pub cell: String,
    /// What about it.
    pub why: String,
}

impl VirtualBench {
    /// Runs of this experiment. `turnaround` is the time on the wall from the end of a request in the
    /// emulated drive until the server knows of it; `replay` is the command that repeats a run, up to
    /// the server's name.
    pub fn new(experiment: &Experiment, turnaround: Duration, replay: &str) -> Self {
        Self {
            experiment: experiment.clone(),
            turnaround,
            replay: replay.to_owned(),
        }
    }

    /// What cannot be imitated, of all these.
    pub fn lacks<'c>(&self, cells: impl IntoIterator<Item = &'c Cell>) -> Vec<NotVirtual> {
        let cells = cells.into_iter();
        cells.filter_map(|cell| self.world(cell).err()).collect()
    }

    /// Reads that the server has outstanding at the drive at most, if it is headlong.
    pub(crate) fn reads_at_a_time(&self, cell: &Cell) -> Option<u32> {
        let setup = self.world(cell).ok()?.setup;
        match setup.server {
            Origin::Headlong => Some(setup.engine.outstanding_reads_max),
            Origin::Vanilla(_) => None,
        }
    }

    /// The command that repeats a run.
    pub fn replay_line(&self, cell: &Cell, rate: f64, seed: u64) -> String {
        format!(
            "{} --server {} --workload {} --rate {}B/s --seed {seed}",
            self.replay,
            cell.server_name,
            cell.workload_name,
            rate.round()
        )
    }

    fn attempt(
        &self,
        cell: &Cell,
        rate: f64,
        seed: u64,
        ends_at_failure: bool,
    ) -> Result<RunRecord, String> {
        let mut world = self.world(cell).map_err(|lack| lack.to_string())?;
        let is_strict = self.experiment.search.failures_max == 0.0;
        world.setup.stops_at_failed_session = ends_at_failure && is_strict;
        let seen = world.observe(rate / MIB, seed);
        let seen = seen.map_err(|error| error.to_string())?;
        Ok(self.record(cell, rate, seed, &world.setup, &seen))
    }

    fn record(&self, cell: &Cell, rate: f64, seed: u64, setup: &Made, seen: &Measure) -> RunRecord {
        let figures = Record::new(rate / MIB, seed, seen);
        let [steady, failed] = [seen.sessions_steady, seen.sessions_steady_failed];
        let failure_share = failed as f64 / (steady as f64).max(1.0);
        let mut load = serde_json::to_value(&figures).unwrap_or_default();
        load["schema"] = "headlong-simulate-1".into();
        load["sessions_steady"] = steady.into();
        let rules = &self.experiment.search;
        let short = rules.quality.shortfall(&viewed(seen));
        let mut refused_because = short.unknown;
        if steady == 0 {
            refused_because.push("no session was wholly in steady state; measure longer".into());
        }
        let has_failed = failure_share > rules.failures_max || !short.missed.is_empty();
        let outcome = match (refused_because.is_empty(), has_failed) {
            (false, _) => OutcomeName::Refused,
            (true, true) => OutcomeName::Failed,
            (true, false) => OutcomeName::Passed,
        };
        RunRecord {
            schema: SCHEMA.to_owned(),
            experiment: self.experiment.name.clone(),
            server: cell.server_name.clone(),
            workload: cell.workload_name.clone(),
            rate,
            seed,
            time_scale: self.experiment.time_scale,
            started_unix: 0,
            wall_seconds: 0.0,
            verdict: Verdict {
                outcome,
                refused_because,
                limit: None,
                failure_share,
                missed: short.missed,
                delivered: seen.delivered_bytes() as f64 / seen.length().as_secs_f64().max(1e-9),
            },
            load,
            server_facts: server_facts(setup, seen),
            disk: DiskFacts {
                counters: counters(seen),
                pattern: pattern(seen),
            },
            cpu: CpuUse::default(),
            setup: Setup {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                machine: Machine {
                    kernel: VIRTUAL.to_owned(),
                    ..Machine::default()
                },
                experiment: settings(&self.experiment, cell),
                queue: QueueSettings {
                    scheduler: cell.kernel.scheduler.clone(),
                    read_ahead_kb: cell.kernel.read_ahead_kb,
                    max_sectors_kb: (setup.request_bytes_max / KIB) as u32,
                    max_hw_sectors_kb: LOOP_REQUEST_KB,
                    is_rotational: true,
                },
                commands: vec![self.replay_line(cell, rate, seed)],
                files: [].into(),
            },
        }
    }
}

const MIB: f64 = 1_048_576.0;

impl Runner for VirtualBench {
    fn run(
        &mut self,
        cell: &Cell,
        rate: f64,
        seed: u64,
        ends_at_failure: bool,
    ) -> Result<RunRecord, RigError> {
        let made = self.attempt(cell, rate, seed, ends_at_failure);
        made.map_err(|words| RigError::Failed {
            what: self.replay_line(cell, rate, seed),
            words,
        })
    }
}

/// What viewers saw, of those who came within the window and left.
fn viewed(seen: &Measure) -> Viewed {
    let mut all = Viewed::default();
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

fn server_facts(setup: &Made, seen: &Measure) -> ServerFacts {
    let stats = &seen.stats_whole;
    let cache = seen.cache.unwrap_or_default();
    let pool = match setup.server {
        Origin::Headlong => setup.engine.memory_bytes,
        Origin::Vanilla(_) => 0,
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
        // Named as in the server's own status.
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

/// Named as the emulated drive names them.
fn counters(seen: &Measure) -> Value {
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

fn pattern(seen: &Measure) -> DiskPattern {
    let excerpt = seen.pattern.excerpt.iter().copied().collect();
    let sequences = &seen.pattern.sequences;
    DiskPattern::of_sequences(sequences, seen.length(), Some(seen.drive.busy), excerpt)
}
