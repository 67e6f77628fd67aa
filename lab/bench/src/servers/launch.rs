//! Where and how to start a server.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use headlong_units::{Bytes, MIB};

use crate::experiment::{Cache, Experiment, ExperimentCell, FlashTier, FrontProxy};

/// Port of the server, in its own network namespace.
pub(crate) const PORT: u16 = 8080;
pub(crate) const ADMIN_PORT: u16 = 8081;

/// Environment of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServerEnvironment {
    /// The folder to serve.
    pub(crate) root: PathBuf,
    /// The server's own folder, for its configuration and run-time files.
    pub(crate) folder: PathBuf,
    /// The port for viewers.
    pub(crate) port: u16,
    /// The admin port.
    pub(crate) admin_port: u16,
    /// Memory limit, page cache included.
    pub(crate) memory: Option<u64>,
    /// Speed-up of its clocks.
    pub(crate) time_scale: u32,
    /// The program `headlong`.
    pub(crate) headlong: PathBuf,
    /// The proxy that viewers connect to instead; the server listens behind it.
    pub(crate) front: Option<FrontProxy>,
    /// Whether the server is started with the preloaded library.
    pub(crate) preload: bool,
    /// Whether the server reads the titles through a mount.
    pub(crate) mount: bool,
    /// Keys of the server's reader: the reception or the mount.
    pub(crate) reader: String,
    /// Device of its flash tier, and the tier's settings.
    pub(crate) flash: Option<(PathBuf, FlashTier)>,
    /// The ZFS pool with the titles, if there is one.
    pub(crate) pool: Option<PoolDevices>,
    /// The cache in front of the server, and its storage.
    pub(crate) cache: Option<(Cache, CacheSpace)>,
}

/// A file system on the SSD for a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CacheSpace {
    /// Mount point.
    pub(crate) folder: PathBuf,
    /// Size limit of the cache.
    pub(crate) bytes: u64,
}

/// Devices of a ZFS pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolDevices {
    /// The drive.
    pub(crate) device: PathBuf,
    /// The cache device.
    pub(crate) ssd: Option<PathBuf>,
}

/// Fraction of a memory limit, page cache included, left to the kernel and to the accelerated
/// server: data that programs read themselves, or through a mount, is in the page cache.
const LEFT_PART: u64 = 4;

impl ServerEnvironment {
    /// For the server of a cell, without pool and cache; `ssd` is the device of its flash tier.
    pub(crate) fn of(
        experiment: &Experiment,
        cell: &ExperimentCell,
        headlong: &Path,
        (root, folder): (PathBuf, PathBuf),
        ssd: Option<&Path>,
    ) -> Self {
        let tier = cell.flash.clone();
        Self {
            root,
            folder,
            port: PORT,
            admin_port: ADMIN_PORT,
            memory: experiment.memory,
            time_scale: experiment.time_scale,
            headlong: headlong.to_path_buf(),
            front: cell.server.front,
            preload: cell.server.preload,
            mount: cell.server.mount,
            reader: cell.server.reader.clone(),
            flash: ssd
                .map(Path::to_path_buf)
                .zip(tier)
                .filter(|_| cell.server.cache.is_none()),
            pool: None,
            cache: None,
        }
    }

    /// The configuration of the server's reader; its memory is added if not set.
    pub(crate) fn reader_file(&self) -> (PathBuf, String) {
        let mut keys: toml::Table = self.reader.parse().unwrap_or_default();
        if let Some(limit) = self.memory {
            let memory = Bytes((limit - limit / LEFT_PART).max(MIB) / MIB * MIB);
            let memory = toml::Value::from(memory.to_string());
            keys.entry("memory").or_insert(memory);
        }
        // A parsed table can always be printed.
        let text = toml::to_string(&keys).unwrap_or_default();
        (self.folder.join("reader.toml"), text)
    }
}

/// Files with their content.
pub(crate) type ConfigFiles = Vec<(PathBuf, String)>;

/// How to start a process.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LaunchSpec {
    /// Command prefix: a program that executes the command.
    pub(crate) under: Vec<String>,
    /// Arguments of the command.
    pub(crate) command: Vec<String>,
    /// Files to write before the start, with their content.
    pub(crate) files: ConfigFiles,
    /// Where its status in JSON is available.
    pub(crate) status: StatusSource,
    /// Where it listens.
    pub(crate) listens: ListenAddress,
}

impl LaunchSpec {
    /// A third-party server on the place's port, without a status.
    pub(super) fn of_others(
        place: &ServerEnvironment,
        command: Vec<String>,
        files: ConfigFiles,
    ) -> Self {
        Self {
            under: Vec::new(),
            command,
            files,
            status: StatusSource::Nowhere,
            listens: ListenAddress::Port(place.port),
        }
    }

    /// The command line.
    pub(crate) fn line(&self) -> String {
        let words = self.under.iter().chain(&self.command);
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// Where a program's status is available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StatusSource {
    /// None.
    Nowhere,
    /// At this path on its admin port.
    Http(&'static str),
    /// On a reception's socket.
    Reception(PathBuf),
    /// At a mount point.
    Mount(PathBuf),
}

/// Where a program listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    /// On a port of its network.
    Port(u16),
    /// On a reception's socket.
    Socket(PathBuf),
    /// At a mount point, which is created before.
    Mount(PathBuf),
}

pub(super) fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A time in seconds of model time, in milliseconds of wall time.
pub(super) fn scaled_ms(seconds: f64, place: &ServerEnvironment) -> u64 {
    ((seconds * 1000.0 / f64::from(place.time_scale)).round() as u64).max(1)
}

// Titles on a ZFS pool (`zfs-fuse`) with the experiment's SSD as its cache: the baseline that
// FlashStream was compared with (MM 2013, 5.2).
//
// Its clocks cannot be scaled: once a second it writes to the SSD the data that is about to leave
// memory, so experiments with it run in real time.

const SCRIPT: &str = include_str!("pool.sh");
/// Fraction of the memory limit for zfs-fuse's own cache (ARC); the rest is for its other needs,
/// the server and the page cache.
const OWN_MEMORY_PART: u64 = 2;
/// Its own cache without a limit.
const OWN_MEMORY: u64 = 256 * MIB;

/// Mount point of the pool.
pub(super) fn pool_point(folder: &Path) -> PathBuf {
    folder.join("mounted")
}

/// Starts the pool in its own folder; creates it if `is_new`.
pub(crate) fn pool(
    pool: &PoolDevices,
    folder: &Path,
    memory: Option<u64>,
    is_new: bool,
) -> LaunchSpec {
    let script = folder.join("pool.sh");
    let own = memory.map_or(OWN_MEMORY, |limit| limit / OWN_MEMORY_PART);
    let command = vec![
        "sh".to_owned(),
        text(&script),
        if is_new { "create" } else { "import" }.to_owned(),
        text(&pool.device),
        pool.ssd.as_deref().map_or_else(String::new, text),
        text(folder),
        (own / MIB).max(16).to_string(),
    ];
    LaunchSpec {
        under: Vec::new(),
        command,
        files: vec![(script, SCRIPT.to_owned())],
        status: StatusSource::Nowhere,
        listens: ListenAddress::Mount(pool_point(folder)),
    }
}

/// The arguments of a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandBuilder(pub(crate) Vec<String>);

impl CommandBuilder {
    /// A program and its fixed arguments, separated by spaces.
    pub(crate) fn of(program: &Path, said: &str) -> Self {
        Self::default().word(program.display()).plain(said)
    }

    /// Fixed arguments, separated by spaces.
    pub(crate) fn plain(mut self, words: &str) -> Self {
        self.0.extend(words.split(' ').map(str::to_owned));
        self
    }

    /// One argument, which may contain spaces.
    pub(crate) fn word(mut self, word: impl Display) -> Self {
        self.0.push(word.to_string());
        self
    }

    /// An option and its value.
    pub(crate) fn option(self, name: &str, value: impl Display) -> Self {
        self.word(name).word(value)
    }

    /// An option, if it has a value.
    pub(crate) fn maybe(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.option(name, value),
            None => self,
        }
    }

    /// Overrides of a specification, as `headlong workload` takes them.
    pub(crate) fn changes(self, changes: &[(String, String)]) -> Self {
        changes.iter().fold(self, |words, (key, value)| {
            words.option("--set", format_args!("{key}={value}"))
        })
    }
}
