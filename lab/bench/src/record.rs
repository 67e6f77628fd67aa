//! Record of one run, with everything needed to repeat it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use headlong_sim::RunFigures;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cpu_usage::{CpuUsage, MachineInfo};
use crate::disk_trace::DiskPattern;
use crate::rig::{MemoryUse, QueueSettings};
use crate::run_phases::RunPhase;
use crate::search::RunOutcome;
use crate::step_load::StepLoadResult;

/// Name and version of the format. New fields are added under the same name.
pub const SCHEMA: &str = "headlong-bench-1";

/// Content of a record. Rates are in bytes per second of model time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the server in it.
    pub server: String,
    /// Name of the workload in it.
    pub workload: String,
    /// Offered rate: the long-run demand of the arriving viewers.
    pub rate: f64,
    /// Seed of the sessions.
    pub seed: u64,
    /// See [`crate::Experiment::time_scale`].
    pub time_scale: u32,
    /// Start time: seconds since 1970.
    pub started_unix: u64,
    /// Duration, in seconds of wall time.
    pub wall_seconds: f64,
    /// Result, as used by a search.
    pub verdict: RunVerdict,
    /// Figures of viewers and server, in their own schema.
    pub load: LoadFigures,
    /// The server as observed by the kernel.
    pub server_facts: ServerFacts,
    /// The drive.
    pub disk: DiskFacts,
    /// The steps of a run with rising rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub climbed: Option<StepLoadResult>,
    /// Viewers, server and drives by phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<RunPhase>,
    /// CPU use in the measured period.
    pub cpu: CpuUsage,
    /// Everything that determines the run.
    pub setup: RunSetup,
}

/// Figures of viewers and server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LoadFigures {
    /// Of a virtual run: includes figures that cannot be observed on a real server.
    Virtual(Box<RunFigures>),
    /// Of a real run: the load generator's result (schema `headlong-load-1`).
    Measured(Value),
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunVerdict {
    /// `passed`, `failed` or `refused`.
    pub outcome: OutcomeName,
    /// Reasons for refusing it.
    pub refused_because: Vec<String>,
    /// The bottleneck, if it was the machine instead of the drive.
    pub limit: Option<String>,
    /// Share of sessions in steady state that failed; of calls in a virtual run that counts these.
    pub failure_share: f64,
    /// Failures before the steady state, which do not count: the cost of a start.
    #[serde(default)]
    pub ramp_failures: u64,
    /// Missed quality requirements, see [`crate::QualityRules`].
    #[serde(default)]
    pub missed: Vec<String>,
    /// Asked for: bytes of requests sent in the window; absent in records of earlier versions.
    #[serde(default)]
    pub asked_for: Option<f64>,
    /// Delivered: bytes received by viewers in the window.
    pub delivered: f64,
}

/// An outcome by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeName {
    /// See [`RunOutcome::Passed`].
    Passed,
    /// See [`RunOutcome::Failed`].
    Failed,
    /// See [`RunOutcome::Refused`].
    Refused,
}

impl From<OutcomeName> for RunOutcome {
    fn from(name: OutcomeName) -> Self {
        match name {
            OutcomeName::Passed => Self::Passed,
            OutcomeName::Failed => Self::Failed,
            OutcomeName::Refused => Self::Refused,
        }
    }
}

/// The server as observed by the kernel, and its own status.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerFacts {
    /// Memory, page cache included.
    pub memory: MemoryUse,
    /// Exit status, if it ended by itself.
    pub died: Option<String>,
    /// End of its standard error.
    pub last_words: String,
    /// Its own status at the end of the run, if available.
    pub status: Value,
}

/// The drive, in the measured period and the ramps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DiskFacts {
    /// The emulator's own counters.
    pub counters: Value,
    /// The counters of the other drives, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Value>,
    /// Its access pattern; that of the first of several drives.
    pub pattern: DiskPattern,
    /// The emulator's counters of the flash tier's SSD, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssd_counters: Option<Value>,
}

/// Everything that determines a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSetup {
    /// Version of headlong.
    pub version: String,
    /// The machine.
    pub machine: MachineInfo,
    /// The drive, the files, the memory limit, phases and network, as in the experiment.
    pub experiment: Value,
    /// The block device's queue settings in effect.
    pub queue: QueueSettings,
    /// Commands in starting order.
    pub commands: Vec<String>,
    /// Generated files, by name, with their content.
    pub files: BTreeMap<String, String>,
}

impl RunRecord {
    /// The figures of a virtual run, if they are complete.
    pub fn figures(&self) -> Option<&RunFigures> {
        match &self.load {
            LoadFigures::Virtual(figures) => Some(figures),
            LoadFigures::Measured(_) => None,
        }
    }

    /// Outcome, as used by a search.
    pub fn outcome(&self) -> RunOutcome {
        self.verdict.outcome.into()
    }

    /// Whether it was a virtual run.
    pub fn is_virtual(&self) -> bool {
        self.figures().is_some()
    }

    /// Whether this run has the given key.
    pub(crate) fn is_of(&self, other: &RunKey) -> bool {
        self.schema == SCHEMA
            && self.server == other.server
            && self.workload == other.workload
            && self.rate == other.rate
            && self.seed == other.seed
            && self.setup.experiment == other.experiment
    }
}

/// The identity of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunKey {
    pub(crate) server: String,
    pub(crate) workload: String,
    pub(crate) rate: f64,
    pub(crate) seed: u64,
    /// See [`RunSetup::experiment`].
    pub(crate) experiment: Value,
}

impl RunKey {
    /// Name of the record's file: readable, with characters valid on any file system.
    fn file_name(&self) -> String {
        let plain = |name: &str| -> String {
            let kept = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            name.chars().map(kept).collect()
        };
        let mib = self.rate / 1_048_576.0;
        let (server, workload) = (plain(&self.server), plain(&self.workload));
        format!("{workload}-{server}-{mib:.2}-seed{}", self.seed)
    }
}

/// A folder of records.
#[derive(Debug, Clone)]
pub struct RecordFolder(PathBuf);

impl RecordFolder {
    /// Creates the folder if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn open(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self(folder.to_path_buf()))
    }

    /// Path of the folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The record of an earlier run with this key that was not refused.
    pub(crate) fn find(&self, key: &RunKey) -> Option<RunRecord> {
        let text = std::fs::read_to_string(self.0.join(key.file_name() + ".json")).ok()?;
        let record: RunRecord = serde_json::from_str(&text).ok()?;
        let counts = record.verdict.outcome != OutcomeName::Refused;
        (counts && record.is_of(key)).then_some(record)
    }

    /// Writes a record atomically.
    pub(crate) fn keep(&self, key: &RunKey, record: &RunRecord) -> io::Result<PathBuf> {
        let refused = record.verdict.outcome == OutcomeName::Refused;
        let suffix = if refused { "-refused.json" } else { ".json" };
        let file = self.0.join(key.file_name() + suffix);
        let mut new = tempfile::NamedTempFile::new_in(&self.0)?;
        serde_json::to_writer_pretty(&mut new, record)?;
        new.persist(&file).map_err(|error| error.error)?;
        Ok(file)
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
pub(crate) mod tests;
