//! One run, written down with everything that is needed to repeat it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use headlong_sim::Record as Figures;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::climb::Climbed;
use crate::disk_trace::DiskPattern;
use crate::facts::{CpuUse, Machine};
use crate::rig::{MemoryUse, QueueSettings};
use crate::search::Outcome;

/// Name and version of the format. Fields are only ever added under one name.
pub const SCHEMA: &str = "headlong-bench-1";

/// What is in a record. Rates are in bytes of a second of model time.
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
    /// Offered: what the viewers who come want in the long run.
    pub rate: f64,
    /// Seed of the sessions.
    pub seed: u64,
    /// See [`crate::Experiment::time_scale`].
    pub time_scale: u32,
    /// When it began: seconds since 1970.
    pub started_unix: u64,
    /// How long it took, in seconds of the wall clock.
    pub wall_seconds: f64,
    /// What came of it, for a search.
    pub verdict: Verdict,
    /// What viewers and server did, in a schema of its own.
    pub load: Load,
    /// The server as the kernel saw it.
    pub server_facts: ServerFacts,
    /// The drive.
    pub disk: DiskFacts,
    /// The steps of a run whose rate rises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub climbed: Option<Climbed>,
    /// CPU in the measured part.
    pub cpu: CpuUse,
    /// Everything that decides the run.
    pub setup: Setup,
}

/// What viewers and server did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Load {
    /// Of a run in virtual time: what is seen there, and cannot be seen from outside of a real server.
    Virtual(Box<Figures>),
    /// What the load generator measured (schema `headlong-load-1`).
    Measured(Value),
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// `passed`, `failed` or `refused`.
    pub outcome: OutcomeName,
    /// Why it was refused.
    pub refused_because: Vec<String>,
    /// What held the server back, if it was not the drive: the machine.
    pub limit: Option<String>,
    /// Share of sessions in steady state that failed.
    pub failure_share: f64,
    /// Failures before the steady state, which decide nothing: what a start costs.
    #[serde(default)]
    pub ramp_failures: u64,
    /// What viewers should have seen and did not, see [`crate::Quality`].
    #[serde(default)]
    pub missed: Vec<String>,
    /// Asked for: bytes of requests sent in the window; nothing in records of earlier versions.
    #[serde(default)]
    pub asked_for: Option<f64>,
    /// Delivered: bytes that reached viewers in the window.
    pub delivered: f64,
}

/// An outcome by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeName {
    /// See [`Outcome::Passed`].
    Passed,
    /// See [`Outcome::Failed`].
    Failed,
    /// See [`Outcome::Refused`].
    Refused,
}

impl From<OutcomeName> for Outcome {
    fn from(name: OutcomeName) -> Self {
        match name {
            OutcomeName::Passed => Self::Passed,
            OutcomeName::Failed => Self::Failed,
            OutcomeName::Refused => Self::Refused,
        }
    }
}

/// The server as the kernel saw it, and as it saw itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerFacts {
    /// Memory, page cache included.
    pub memory: MemoryUse,
    /// How it ended, if it ended by itself.
    pub died: Option<String>,
    /// The end of what it said on standard error.
    pub last_words: String,
    /// What it told about itself in the end, if it can.
    pub status: Value,
}

/// The drive in the measured part and the ramps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DiskFacts {
    /// The emulator's own counters.
    pub counters: Value,
    /// The counters of further drives, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Value>,
    /// In what order it was read; of several drives, the first.
    pub pattern: DiskPattern,
    /// The emulator's counters of the flash tier's SSD, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssd_counters: Option<Value>,
}

/// Everything that decides a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Version of headlong.
    pub version: String,
    /// The machine.
    pub machine: Machine,
    /// The drive, the files, the memory limit, phases and network, as in the experiment.
    pub experiment: Value,
    /// The block device's queue as it was in force.
    pub queue: QueueSettings,
    /// Commands in the order in which they were started.
    pub commands: Vec<String>,
    /// Files that were written for them, by name, with their text.
    pub files: BTreeMap<String, String>,
}

impl RunRecord {
    /// What was seen of it in virtual time, if it was there.
    pub fn figures(&self) -> Option<&Figures> {
        match &self.load {
            Load::Virtual(figures) => Some(figures),
            Load::Measured(_) => None,
        }
    }

    /// How it ended, for a search.
    pub fn outcome(&self) -> Outcome {
        self.verdict.outcome.into()
    }

    /// Whether it was a run in virtual time.
    pub fn is_virtual(&self) -> bool {
        self.figures().is_some()
    }

    /// Whether this run was the one that is about to be made.
    pub(crate) fn is_of(&self, other: &Key) -> bool {
        self.schema == SCHEMA
            && self.server == other.server
            && self.workload == other.workload
            && self.rate == other.rate
            && self.seed == other.seed
            && self.setup.experiment == other.experiment
    }
}

/// What makes two runs the same one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub(crate) server: String,
    pub(crate) workload: String,
    pub(crate) rate: f64,
    pub(crate) seed: u64,
    /// See [`Setup::experiment`].
    pub(crate) experiment: Value,
}

impl Key {
    /// Name of the record's file: what a person looks for, and nothing that a file system minds.
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
pub struct Records(PathBuf);

impl Records {
    /// Makes the folder if there is none.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self(folder.to_path_buf()))
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The record of a run that was made before, and came to an end that counts.
    pub(crate) fn find(&self, key: &Key) -> Option<RunRecord> {
        let text = std::fs::read_to_string(self.0.join(key.file_name() + ".json")).ok()?;
        let record: RunRecord = serde_json::from_str(&text).ok()?;
        let counts = record.verdict.outcome != OutcomeName::Refused;
        (counts && record.is_of(key)).then_some(record)
    }

    /// Keeps a record: whole or not at all.
    pub(crate) fn keep(&self, key: &Key, record: &RunRecord) -> io::Result<PathBuf> {
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
