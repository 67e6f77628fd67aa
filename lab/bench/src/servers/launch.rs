//! Where and how to start a server.

use std::path::{Path, PathBuf};

use headlong_units::{Bytes, MIB};

use crate::experiment::{Cache, FlashTier, FrontProxy};

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
