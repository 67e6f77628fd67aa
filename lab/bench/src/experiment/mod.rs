//! Experiments: named servers times named workloads on one drive, described by one TOML file.
//!
//! `bench run` and `bench search` take one pair, `bench compare` takes all of them.
//!
//! Invariants: all mistakes are reported together; no other file is opened while parsing; each
//! default is defined once; the file and the seed alone determine a run.

mod changes;
mod drive;
mod read;
mod servers;
mod simulation;
mod step_load;
#[cfg(test)]
mod tests;
mod workloads;

pub use changes::KeyChange;
pub(crate) use drive::is_file;
pub use drive::{Cache, CacheKind, ExperimentDrive, FlashTier, drive_spec};
pub use headlong_settings::Mistakes;
pub use simulation::Simulation;
pub use step_load::StepLoad;
pub(crate) use workloads::specification;

use std::collections::BTreeMap;

use headlong_settings::suggestion;
use headlong_units::{BitRate, Duration};
use headlong_workload::TitleForm;
use serde::{Serialize, Serializer};

use crate::load_result::QualityRules;

/// An experiment. Times are model time: a run takes `time_scale` times less.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Name in results.
    pub name: String,
    /// Subject of the experiment, in a sentence or two.
    pub about: String,
    /// Speed-up over real time of drive, viewers and servers' clocks.
    pub time_scale: u32,
    /// First seed; repeats and confirmations use the following ones.
    pub seed: u64,
    /// How often `compare` searches each limit.
    pub repeats: u32,
    /// Memory of the server, page cache included; unlimited if `None`.
    pub memory: Option<u64>,
    /// The emulated drive, unless a workload overrides it.
    pub drive: ExperimentDrive,
    /// The SSD between memory and the drive: for headlong's servers and for third-party caches.
    pub flash: Option<FlashTier>,
    /// The files on the drive.
    pub files: FileSet,
    /// Settings of the drive's block device.
    pub kernel: BlockQueueSettings,
    /// The network between viewers and server.
    pub network: NetworkSettings,
    /// Durations of the phases of a run.
    pub phases: PhaseDurations,
    /// Rules of the search for a limit.
    pub search: SearchRules,
    /// The search tries only whole multiples of this rate, in bytes per second, until one fails
    /// right above one that passes, whatever its resolution.
    pub search_grain: Option<f64>,
    /// What only a simulation can be told.
    pub simulation: Simulation,
    /// Step load within one run, instead of a search over many runs.
    pub climb: Option<StepLoad>,
    /// Reads names, inodes and extents of all files, with the drive's timing off, before each run:
    /// a server that has run for a day has them in memory.
    pub warm_metadata: bool,
    /// Workloads by name.
    pub workloads: BTreeMap<String, WorkloadSpec>,
    /// Servers by name.
    pub servers: BTreeMap<String, ServerSpec>,
    /// Servers to compare under each workload; all servers for a workload without an entry.
    pub pairs: BTreeMap<String, Vec<String>>,
    /// Baselines of the reported ratios.
    pub baselines: Vec<Baseline>,
}

/// The files on the drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileSet {
    /// Workload that defines the catalogue: a preset or a file.
    pub catalogue: String,
    /// Overrides of the catalogue's keys; they apply to all workloads of the experiment.
    pub set: Vec<(String, String)>,
    /// Division of each title into files.
    #[serde(rename = "chunk", serialize_with = "form_as_text")]
    pub form: TitleForm,
    /// File system: `ext4` or `xfs`; [`POOL`] for servers whose titles are on a ZFS pool.
    pub file_system: String,
}

/// The file system of a server with a ZFS pool.
pub(crate) const POOL: &str = "zfs";

impl FileSet {
    /// Whether the files are on a pool, which is imported and exported instead of mounted.
    pub(crate) fn is_pool(&self) -> bool {
        self.file_system == POOL
    }

    /// Changes of the catalogue's specification: `KEY=VALUE`, as `headlong workload` takes them.
    pub fn changes(&self) -> Vec<(String, String)> {
        let mut changes = self.set.clone();
        changes.push(("catalogue.chunk".to_owned(), self.form.to_string()));
        changes
    }
}

/// Settings in `/sys/block/DEVICE/queue`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockQueueSettings {
    /// I/O scheduler.
    pub scheduler: String,
    /// `read_ahead_kb`: readahead of the page cache.
    pub read_ahead_kb: u32,
    /// `max_sectors_kb`: the largest request; the device's own limit if `None`.
    pub max_sectors_kb: Option<u32>,
}

/// The network namespace that servers and viewers share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkSettings {
    /// TCP congestion control. BBR only on purpose: with BBR, nginx with `tcp_nopush` takes three
    /// times the CPU.
    pub congestion_control: String,
}

/// Serializes a bit rate with its unit.
pub(crate) fn as_text<S: Serializer>(rate: &Option<BitRate>, to: S) -> Result<S::Ok, S::Error> {
    match rate {
        Some(rate) => to.collect_str(rate),
        None => to.serialize_none(),
    }
}

/// Serializes a form as experiments write it.
fn form_as_text<S: Serializer>(form: &TitleForm, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(form)
}

/// Phases of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseDurations {
    /// Sessions that start in it do not count.
    pub ramp_up: Duration,
    /// Steady state between the ramps.
    pub measured: Duration,
    /// Sessions that have not ended before it do not count.
    pub ramp_down: Duration,
}

impl PhaseDurations {
    /// Duration of all phases.
    pub fn whole(&self) -> Duration {
        Duration(self.ramp_up.0 + self.measured.0 + self.ramp_down.0)
    }
}

/// Rules of the search for a limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SearchRules {
    /// Share of the sessions in steady state that may fail: 0 (thesis 4.4.3), 0.003 (libception
    /// 4).
    pub failures_max: f64,
    /// Further requirements on playback quality.
    pub quality: QualityRules,
    /// First step from the starting rate, as a share of it.
    pub step: f64,
    /// The search ends when the lowest failing rate exceeds the highest passing rate by at most
    /// this share.
    pub resolution: f64,
    /// How many runs, each with its own seed, the found rate has to pass.
    pub confirm: u32,
    /// Largest number of runs of one search.
    pub probes_max: u32,
}

/// The viewers of a pair.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkloadSpec {
    /// Name of a preset of `headlong workload`, or a file.
    pub preset: String,
    /// Overrides of its keys.
    pub set: Vec<(String, String)>,
    /// Rate offered by `bench run`, in bytes per second of model time.
    pub rate: Option<f64>,
    /// Division of titles into files, for this workload alone.
    pub form: Option<TitleForm>,
    /// The drive that holds its titles.
    pub drive: ExperimentDrive,
}

/// A proxy in front of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrontProxy {
    /// nginx.
    Nginx,
    /// HAProxy.
    HaProxy,
}

impl FrontProxy {
    /// Its name in an experiment.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::HaProxy => "haproxy",
        }
    }
}

/// A server to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSpec {
    /// Kind and settings.
    pub kind: ServerKind,
    /// The proxy that viewers connect to instead.
    pub front: Option<FrontProxy>,
    /// A cache on the experiment's SSD that viewers connect to instead; it shares the memory
    /// limit.
    pub cache: Option<Cache>,
    /// Whether it runs with the preloaded library, and `headlong reception` beside it.
    pub preload: bool,
    /// Whether it uses the experiment's flash tier, if it is headlong and the experiment has
    /// one.
    pub has_flash: bool,
    /// Whether it reads the titles through `headlong mount`.
    pub mount: bool,
    /// Settings of its engine that only simulations can change, if it is headlong.
    pub engine: Vec<(String, String)>,
    /// Keys of its reception or mount, in TOML; `memory` is added if missing.
    pub reader: String,
    /// Overrides of kernel settings.
    pub kernel: BlockQueueOverrides,
    /// First guess of its limit, in bytes per second, by workload.
    pub rate_start: BTreeMap<String, f64>,
    /// Description of its special settings, for tables and charts.
    pub about: String,
}

/// Overrides of the experiment's kernel settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BlockQueueOverrides {
    /// See [`BlockQueueSettings::scheduler`].
    pub scheduler: Option<String>,
    /// See [`BlockQueueSettings::read_ahead_kb`].
    pub read_ahead_kb: Option<u32>,
    /// See [`BlockQueueSettings::max_sectors_kb`].
    pub max_sectors_kb: Option<u32>,
}

/// Supported servers.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerKind {
    /// `headlong serve`.
    Headlong {
        /// Its keys, in TOML; `roots`, `listen` and `admin` are added, `memory` too if missing.
        config: String,
    },
    /// nginx.
    Nginx(NginxSettings),
    /// Apache with its event MPM.
    Apache(ApacheSettings),
    /// Any other program that serves a folder.
    Command {
        /// Arguments; `{root}`, `{port}`, `{memory}` and `{time_scale}` are replaced.
        words: Vec<String>,
    },
}

impl ServerSpec {
    /// Whether any part of it is stored on the experiment's SSD.
    fn uses_ssd(&self) -> bool {
        let has_tier = self.has_flash && matches!(self.kind, ServerKind::Headlong { .. });
        has_tier || self.cache.is_some()
    }
}

impl ServerKind {
    /// The piece size in its configuration, if set.
    pub(crate) fn piece(&self) -> Option<String> {
        let Self::Headlong { config } = self else {
            return None;
        };
        let table: toml::Table = config.parse().ok()?;
        Some(table.get("piece")?.as_str()?.to_owned())
    }
}

/// Settings of nginx.
#[derive(Debug, Clone, PartialEq)]
pub struct NginxSettings {
    /// `aio threads`; otherwise workers block on reads.
    pub aio_threads: bool,
    /// Size of each worker's thread pool.
    pub threads: u32,
    /// Worker processes.
    pub workers: u32,
    /// `sendfile`.
    pub sendfile: bool,
    /// `output_buffers`: number and size; the read size when `sendfile` is off.
    pub output_buffers: Option<(u32, u64)>,
    /// `directio`: files of at least this size bypass the page cache.
    pub directio_bytes: Option<u64>,
    /// Further directives for the server, copied verbatim.
    pub directives: String,
}

/// Settings of Apache.
#[derive(Debug, Clone, PartialEq)]
pub struct ApacheSettings {
    /// `EnableMMAP`; Apache's default is on.
    pub mmap: bool,
    /// `EnableSendfile`; Apache's default is off.
    pub sendfile: bool,
    /// Largest number of requests served concurrently.
    pub workers: u32,
    /// Further directives, copied verbatim.
    pub directives: String,
}

/// Denominator of reported ratios: the best of some servers.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// Name in results.
    pub name: String,
    /// The servers; of several, the fastest counts ("at its best setting").
    pub servers: Vec<String>,
    /// The server whose ratio to the baseline is reported.
    pub subject: String,
    /// Required ratio, by workload.
    pub at_least: BTreeMap<String, f64>,
    /// Target ratio, by workload.
    pub aim: BTreeMap<String, f64>,
}

/// One server under one workload: everything that determines its runs except rate and seed.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentCell {
    /// Name of the workload.
    pub workload_name: String,
    /// Name of the server.
    pub server_name: String,
    /// The viewers.
    pub workload: WorkloadSpec,
    /// The server.
    pub server: ServerSpec,
    /// The kernel's settings for this server.
    pub kernel: BlockQueueSettings,
    /// The files for this workload.
    pub files: FileSet,
    /// Its flash tier, if it has one.
    pub flash: Option<FlashTier>,
}

impl Default for Experiment {
    fn default() -> Self {
        Self {
            name: String::new(),
            about: String::new(),
            time_scale: 1,
            seed: 1,
            repeats: 1,
            memory: None,
            drive: ExperimentDrive::default(),
            flash: None,
            files: FileSet {
                catalogue: String::new(),
                set: Vec::new(),
                form: TitleForm::default(),
                file_system: "ext4".to_owned(),
            },
            kernel: BlockQueueSettings::default(),
            network: NetworkSettings {
                congestion_control: "reno".to_owned(),
            },
            phases: PhaseDurations {
                ramp_up: Duration::from_secs(300),
                measured: Duration::from_secs(300),
                ramp_down: Duration::from_secs(60),
            },
            search: SearchRules {
                failures_max: 0.0,
                quality: QualityRules::default(),
                step: 0.2,
                resolution: 0.04,
                confirm: 1,
                probes_max: 16,
            },
            search_grain: None,
            simulation: Simulation::default(),
            climb: None,
            warm_metadata: true,
            workloads: BTreeMap::new(),
            servers: BTreeMap::new(),
            pairs: BTreeMap::new(),
            baselines: Vec::new(),
        }
    }
}

impl Default for BlockQueueSettings {
    /// The kernel's defaults for hard disks.
    fn default() -> Self {
        Self {
            scheduler: "mq-deadline".to_owned(),
            read_ahead_kb: 128,
            max_sectors_kb: None,
        }
    }
}

impl BlockQueueSettings {
    /// With the overrides applied.
    fn with(&self, change: &BlockQueueOverrides) -> Self {
        let scheduler = change.scheduler.clone();
        Self {
            scheduler: scheduler.unwrap_or_else(|| self.scheduler.clone()),
            read_ahead_kb: change.read_ahead_kb.unwrap_or(self.read_ahead_kb),
            max_sectors_kb: change.max_sectors_kb.or(self.max_sectors_kb),
        }
    }

    /// With requests limited to the largest that the drive accepts.
    fn limited_by(self, drive: &ExperimentDrive) -> Self {
        let limits = [self.max_sectors_kb, drive.request_kb_max()];
        Self {
            max_sectors_kb: limits.into_iter().flatten().min(),
            ..self
        }
    }
}

impl Default for NginxSettings {
    fn default() -> Self {
        Self {
            aio_threads: true,
            threads: 64,
            workers: 2,
            sendfile: true,
            output_buffers: None,
            directio_bytes: None,
            directives: String::new(),
        }
    }
}

impl Default for ApacheSettings {
    fn default() -> Self {
        Self {
            mmap: true,
            sendfile: false,
            workers: 2048,
            directives: String::new(),
        }
    }
}

impl Experiment {
    /// Rate of a pair's first run, in bytes per second; with a step load, its first step.
    pub fn first_rate(&self, cell: &ExperimentCell) -> f64 {
        let said = cell.server.rate_start.get(&cell.workload_name).copied();
        let climb = self.climb.map(|climb| said.unwrap_or(climb.from));
        climb.unwrap_or_else(|| cell.rate_start())
    }

    /// The named server under the named workload; without a name, the only one that is compared.
    ///
    /// # Errors
    /// If there is none of that name, or several and no name was given.
    pub fn cell(
        &self,
        server: Option<&str>,
        workload: Option<&str>,
    ) -> Result<ExperimentCell, String> {
        let is = |name: &str, asked: Option<&str>| asked.is_none_or(|asked| asked == name);
        let is_asked = |cell: &ExperimentCell| {
            is(&cell.server_name, server) && is(&cell.workload_name, workload)
        };
        let mut compared = self.cells().into_iter().filter(is_asked);
        if let (Some(only), None) = (compared.next(), compared.next()) {
            return Ok(only);
        }
        let server = pick("server", "--server", &self.servers, server)?;
        let workload = pick("workload", "--workload", &self.workloads, workload)?;
        Ok(self.pair(server, workload))
    }

    /// All pairs to compare: grouped by file set, and within it by workload.
    pub fn cells(&self) -> Vec<ExperimentCell> {
        let mut cells = Vec::new();
        for workload in self.workloads.keys() {
            let all = || self.servers.keys().cloned().collect();
            for server in self.pairs.get(workload).cloned().unwrap_or_else(all) {
                cells.push(self.pair(&server, workload));
            }
        }
        // Stable sort: keeps the order within a file set.
        cells.sort_by_key(|cell| {
            let form = match cell.files.form {
                TitleForm::Segments => 0,
                TitleForm::Chunks(bytes) => bytes,
                TitleForm::Whole => u64::MAX,
            };
            (cell.files.is_pool(), form)
        });
        cells
    }

    /// Builds the cell of two known names.
    fn pair(&self, server_name: &str, workload_name: &str) -> ExperimentCell {
        let server = self.servers[server_name].clone();
        let workload = self.workloads[workload_name].clone();
        ExperimentCell {
            workload_name: workload_name.to_owned(),
            server_name: server_name.to_owned(),
            kernel: self.kernel.with(&server.kernel).limited_by(&workload.drive),
            files: FileSet {
                form: workload.form.unwrap_or(self.files.form),
                file_system: match server.cache {
                    Some(cache) if cache.kind == CacheKind::Zfs => POOL.to_owned(),
                    _ => self.files.file_system.clone(),
                },
                ..self.files.clone()
            },
            flash: (self.flash.clone()).filter(|_| server.uses_ssd()),
            workload,
            server,
        }
    }
}

impl ExperimentCell {
    /// Starting rate of a search, in bytes per second.
    pub fn rate_start(&self) -> f64 {
        let said = self.server.rate_start.get(&self.workload_name).copied();
        said.or(self.workload.rate)
            .unwrap_or(RATE_START_MIB * 1_048_576.0)
    }

    /// Overrides of the workload's specification.
    pub fn changes(&self) -> Vec<(String, String)> {
        let mut changes = self.files.changes();
        changes.extend(self.workload.set.iter().cloned());
        changes
    }

    /// `server under workload`, for messages and tables.
    pub fn name(&self) -> String {
        format!("{}, {}", self.server_name, self.workload_name)
    }
}

/// Default starting rate: roughly what any server gets out of one hard disk.
const RATE_START_MIB: f64 = 25.0;

fn pick<'a, T>(
    what: &str,
    flag: &str,
    all: &'a BTreeMap<String, T>,
    name: Option<&str>,
) -> Result<&'a str, String> {
    let names = all.keys().map(String::as_str);
    match name {
        Some(name) => all
            .get_key_value(name)
            .map(|(name, _)| name.as_str())
            .ok_or_else(|| {
                let hint = suggestion(name, names);
                format!("{flag} {name}: the experiment has no such {what}; {hint}")
            }),
        None if all.len() == 1 => Ok(names.last().unwrap_or_default()),
        None => {
            let names: Vec<_> = names.collect();
            let names = names.join(", ");
            Err(format!(
                "the experiment has several {what}s; choose with {flag}: {names}"
            ))
        }
    }
}
