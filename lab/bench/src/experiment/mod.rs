//! What an experiment is: one file that says everything, checked as a whole.
//!
//! The one idea: named servers times named workloads, on one drive. `bench run` and `bench search`
//! take one pair, `bench compare` takes them all, so that one file serves for all three.
//!
//! Invariants: every mistake is reported, not the first; nothing but the file is opened; a default
//! exists once; what is read here decides a run, together with the seed, and nothing else does.

mod cache;
mod climb;
mod drive;
mod flash;
mod parts;
mod read;
mod servers;
#[cfg(test)]
mod tests;
mod workloads;

pub use cache::{Cache, CacheKind};
pub use climb::Climb;
pub use drive::DriveSpec;
pub use flash::FlashTier;
pub use headlong_settings::Mistakes;
pub(crate) use workloads::{is_file, specification};

use std::collections::BTreeMap;

use headlong_settings::suggestion;
use headlong_units::{BitRate, Duration};
use headlong_workload::Form;
use serde::{Serialize, Serializer};

use crate::quality::Quality;

/// A whole experiment. Times are of the model: a run takes `time_scale` times less.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// What it is called in results.
    pub name: String,
    /// What it is about, in a sentence or two.
    pub about: String,
    /// How many times faster everything runs: drive, viewers, servers' clocks.
    pub time_scale: u32,
    /// The first of the seeds; repeats and confirmations take the following ones.
    pub seed: u64,
    /// How often `compare` looks for each limit.
    pub repeats: u32,
    /// Memory of the server, page cache included; unlimited if `None`.
    pub memory: Option<u64>,
    /// The emulated drive, where a workload has none of its own.
    pub drive: DriveSpec,
    /// The SSD between memory and the drive: of headlong's servers, and of caches of others.
    pub flash: Option<FlashTier>,
    /// What is on it.
    pub files: FileSet,
    /// Settings of the drive's block device.
    pub kernel: Kernel,
    /// The network between viewers and server.
    pub network: Network,
    /// How long the parts of a run take.
    pub phases: Phases,
    /// How the limit is looked for.
    pub search: SearchRules,
    /// Rates that rise within one run, in place of a search over many.
    pub climb: Option<Climb>,
    /// Reads names, inodes and extents of all files, with the drive's timing off, before each run:
    /// a server that has been up for a day knows them.
    pub warm_metadata: bool,
    /// By name.
    pub workloads: BTreeMap<String, Workload>,
    /// By name.
    pub servers: BTreeMap<String, Server>,
    /// Which servers are compared under which workload; all if a workload is not named.
    pub pairs: BTreeMap<String, Vec<String>>,
    /// What ratios are told of.
    pub baselines: Vec<Baseline>,
}

/// The files on the drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileSet {
    /// Workload whose catalogue it is: a preset or a file.
    pub catalogue: String,
    /// Keys of it that have other values; they go for all workloads of the experiment.
    pub set: Vec<(String, String)>,
    /// In how many files each title lies.
    #[serde(rename = "chunk", serialize_with = "form_as_text")]
    pub form: Form,
    /// File system: `ext4` or `xfs`; [`POOL`] for servers whose titles lie on one.
    pub file_system: String,
}

/// The file system of a server with a ZFS pool.
pub(crate) const POOL: &str = "zfs";

impl FileSet {
    /// Whether they lie on a pool, which is not mounted but taken in and given up.
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

/// What `/sys/block/DEVICE/queue` is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kernel {
    /// I/O scheduler.
    pub scheduler: String,
    /// `read_ahead_kb`: how far the page cache reads ahead.
    pub read_ahead_kb: u32,
    /// `max_sectors_kb`: the largest request; what the device takes if `None`.
    pub max_sectors_kb: Option<u32>,
}

/// The network that servers and viewers share, and nobody else.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Network {
    /// TCP congestion control. Not BBR unless that is the question: under it nginx with
    /// `tcp_nopush` takes three times the CPU.
    pub congestion_control: String,
    /// The link that all of the server's replies share, in bits per second of the model; as fast as
    /// the machine if `None`. It is a token bucket of `tc`, which viewers' own lines come on top of.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub link: Option<BitRate>,
}

/// As people write it.
pub(crate) fn as_text<S: Serializer>(link: &Option<BitRate>, to: S) -> Result<S::Ok, S::Error> {
    match link {
        Some(rate) => to.collect_str(rate),
        None => to.serialize_none(),
    }
}

/// As experiments write it.
fn form_as_text<S: Serializer>(form: &Form, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(form)
}

/// Parts of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Phases {
    /// Sessions that start in it do not count.
    pub ramp_up: Duration,
    /// Between the ramps.
    pub measured: Duration,
    /// Sessions that have not ended before it do not count.
    pub ramp_down: Duration,
}

impl Phases {
    /// All of it.
    pub fn whole(&self) -> Duration {
        Duration(self.ramp_up.0 + self.measured.0 + self.ramp_down.0)
    }
}

/// How the limit is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SearchRules {
    /// Share of the sessions in steady state that may fail: 0 (thesis 4.4.3), 0.003 (libception 4).
    pub failures_max: f64,
    /// What viewers must see besides.
    pub quality: Quality,
    /// First step away from the starting guess, as a share of it.
    pub step: f64,
    /// The search ends when the lowest failing rate is at most this much above the highest passing
    /// one, as a share of it.
    pub resolution: f64,
    /// How many runs, each with a seed of its own, the found rate has to pass.
    pub confirm: u32,
    /// Most runs of one search.
    pub probes_max: u32,
}

/// What viewers do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Workload {
    /// Name of a preset of `headlong workload`, or a file.
    pub preset: String,
    /// Keys of it that have other values.
    pub set: Vec<(String, String)>,
    /// What `bench run` offers, in bytes of a second of model time.
    pub rate: Option<f64>,
    /// In how many files each title lies, for this workload alone.
    pub form: Option<Form>,
    /// The drive that its titles are read from.
    pub drive: DriveSpec,
}

/// A proxy in front of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    /// nginx.
    Nginx,
    /// HAProxy.
    HaProxy,
}

impl Front {
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
pub struct Server {
    /// What it is and how it is set up.
    pub kind: ServerKind,
    /// What viewers ask in its place.
    pub front: Option<Front>,
    /// A cache on the experiment's SSD that viewers ask in its place, within the same memory.
    pub cache: Option<Cache>,
    /// Whether it is started with the preloaded library, and `headlong reception` beside it.
    pub preload: bool,
    /// Whether it has the experiment's flash tier, if it can and there is one.
    pub has_flash: bool,
    /// Whether it reads the titles on a mount, by `headlong mount`.
    pub mount: bool,
    /// Keys of the reception or of the mount that reads for it, in TOML; `memory` is added if it is
    /// not there.
    pub reader: String,
    /// Kernel settings of its own.
    pub kernel: KernelChange,
    /// First guess at its limit, in bytes of a second, by workload.
    pub rate_start: BTreeMap<String, f64>,
    /// Colour-blind readers and tables need words: what is special about it.
    pub about: String,
}

/// Kernel settings that differ from the experiment's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KernelChange {
    /// See [`Kernel::scheduler`].
    pub scheduler: Option<String>,
    /// See [`Kernel::read_ahead_kb`].
    pub read_ahead_kb: Option<u32>,
    /// See [`Kernel::max_sectors_kb`].
    pub max_sectors_kb: Option<u32>,
}

/// The servers that can be set up.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerKind {
    /// `headlong serve`.
    Headlong {
        /// Its keys, in TOML; `roots`, `listen` and `admin` are added, `memory` too if it is not
        /// there.
        config: String,
    },
    /// nginx.
    Nginx(Nginx),
    /// Apache with its event MPM.
    Apache(Apache),
    /// Any program that serves a folder.
    Command {
        /// Words; `{root}`, `{port}`, `{memory}` and `{time_scale}` are replaced.
        words: Vec<String>,
    },
}

impl Server {
    /// Whether something of it lies on the experiment's SSD.
    fn uses_ssd(&self) -> bool {
        let has_tier = self.has_flash && matches!(self.kind, ServerKind::Headlong { .. });
        has_tier || self.cache.is_some()
    }
}

impl ServerKind {
    /// The size of a piece that its configuration says, if it does.
    pub(crate) fn piece(&self) -> Option<String> {
        let Self::Headlong { config } = self else {
            return None;
        };
        let table: toml::Table = config.parse().ok()?;
        Some(table.get("piece")?.as_str()?.to_owned())
    }
}

/// How nginx is set up.
#[derive(Debug, Clone, PartialEq)]
pub struct Nginx {
    /// `aio threads`; otherwise workers block.
    pub aio_threads: bool,
    /// Threads of each worker's pool.
    pub threads: u32,
    /// Processes.
    pub workers: u32,
    /// `sendfile`.
    pub sendfile: bool,
    /// `output_buffers`: how many and how large; what is read when `sendfile` is off.
    pub output_buffers: Option<(u32, u64)>,
    /// `directio`: files from this size on are read past the page cache.
    pub directio_bytes: Option<u64>,
    /// Further directives for the server, as they are.
    pub directives: String,
}

/// How Apache is set up.
#[derive(Debug, Clone, PartialEq)]
pub struct Apache {
    /// `EnableMMAP`; Apache's default is on.
    pub mmap: bool,
    /// `EnableSendfile`; Apache's default is off.
    pub sendfile: bool,
    /// Most connections that are being answered at a time.
    pub workers: u32,
    /// Further directives, as they are.
    pub directives: String,
}

/// Something to tell ratios of: the best of some servers.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// What it is called.
    pub name: String,
    /// Whose best counts; more than one is "at its best setting".
    pub servers: Vec<String>,
    /// Whose ratio to it is told.
    pub subject: String,
    /// Ratio that must be reached, by workload.
    pub at_least: BTreeMap<String, f64>,
    /// Ratio that is aimed at, by workload.
    pub aim: BTreeMap<String, f64>,
}

/// One server under one workload: everything that decides its runs but the rate and the seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Name of the workload.
    pub workload_name: String,
    /// Name of the server.
    pub server_name: String,
    /// What viewers do.
    pub workload: Workload,
    /// Who serves.
    pub server: Server,
    /// The kernel's settings for this server.
    pub kernel: Kernel,
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
            drive: DriveSpec::default(),
            flash: None,
            files: FileSet {
                catalogue: String::new(),
                set: Vec::new(),
                form: Form::default(),
                file_system: "ext4".to_owned(),
            },
            kernel: Kernel::default(),
            network: Network {
                congestion_control: "reno".to_owned(),
                link: None,
            },
            phases: Phases {
                ramp_up: Duration::from_secs(300),
                measured: Duration::from_secs(300),
                ramp_down: Duration::from_secs(60),
            },
            search: SearchRules {
                failures_max: 0.0,
                quality: Quality::default(),
                step: 0.2,
                resolution: 0.04,
                confirm: 1,
                probes_max: 16,
            },
            climb: None,
            warm_metadata: true,
            workloads: BTreeMap::new(),
            servers: BTreeMap::new(),
            pairs: BTreeMap::new(),
            baselines: Vec::new(),
        }
    }
}

impl Default for Kernel {
    /// What kernels do by default with hard disks.
    fn default() -> Self {
        Self {
            scheduler: "mq-deadline".to_owned(),
            read_ahead_kb: 128,
            max_sectors_kb: None,
        }
    }
}

impl Kernel {
    /// With what differs.
    fn with(&self, change: &KernelChange) -> Self {
        let scheduler = change.scheduler.clone();
        Self {
            scheduler: scheduler.unwrap_or_else(|| self.scheduler.clone()),
            read_ahead_kb: change.read_ahead_kb.unwrap_or(self.read_ahead_kb),
            max_sectors_kb: change.max_sectors_kb.or(self.max_sectors_kb),
        }
    }

    /// With requests that the drive takes.
    fn limited_by(self, drive: &DriveSpec) -> Self {
        let limits = [self.max_sectors_kb, drive.request_kb_max()];
        Self {
            max_sectors_kb: limits.into_iter().flatten().min(),
            ..self
        }
    }
}

impl Default for Nginx {
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

impl Default for Apache {
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
    /// What the first run of a pair offers, in bytes of a second; with a climb, its first step.
    pub fn first_rate(&self, cell: &Cell) -> f64 {
        let said = cell.server.rate_start.get(&cell.workload_name).copied();
        let climb = self.climb.map(|climb| said.unwrap_or(climb.from));
        climb.unwrap_or_else(|| cell.rate_start())
    }

    /// The named server under the named workload.
    ///
    /// # Errors
    /// If there is none, or if a name is needed because there are several.
    pub fn cell(&self, server: Option<&str>, workload: Option<&str>) -> Result<Cell, String> {
        let server = pick("server", "--server", &self.servers, server)?;
        let workload = pick("workload", "--workload", &self.workloads, workload)?;
        Ok(self.pair(server, workload))
    }

    /// All pairs that are to be compared: those of one file set together, and within it those of
    /// one workload.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for workload in self.workloads.keys() {
            let all = || self.servers.keys().cloned().collect();
            for server in self.pairs.get(workload).cloned().unwrap_or_else(all) {
                cells.push(self.pair(&server, workload));
            }
        }
        // Stable: within a file set the order stays.
        cells.sort_by_key(|cell| {
            let form = match cell.files.form {
                Form::Segments => 0,
                Form::Chunks(bytes) => bytes,
                Form::Whole => u64::MAX,
            };
            (cell.files.is_pool(), form)
        });
        cells
    }

    /// Both names are known.
    fn pair(&self, server_name: &str, workload_name: &str) -> Cell {
        let server = self.servers[server_name].clone();
        let workload = self.workloads[workload_name].clone();
        Cell {
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

impl Cell {
    /// Where a search begins, in bytes of a second.
    pub fn rate_start(&self) -> f64 {
        let said = self.server.rate_start.get(&self.workload_name).copied();
        said.or(self.workload.rate)
            .unwrap_or(RATE_START_MIB * 1_048_576.0)
    }

    /// The same pair, with a search that begins at this rate, in bytes of a second.
    pub fn starting_at(mut self, rate: f64) -> Self {
        let starts = &mut self.server.rate_start;
        starts.insert(self.workload_name.clone(), rate);
        self
    }

    /// Changes of the workload's specification.
    pub fn changes(&self) -> Vec<(String, String)> {
        let mut changes = self.files.changes();
        changes.extend(self.workload.set.iter().cloned());
        changes
    }

    /// `server under workload`, for people.
    pub fn name(&self) -> String {
        format!("{}, {}", self.server_name, self.workload_name)
    }
}

/// A guess when none is given: about what any server gets out of one hard disk.
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
