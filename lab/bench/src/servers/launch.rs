//! Where a server is to run, and how it is started there.

use std::path::{Path, PathBuf};

use headlong_units::{Bytes, MIB};

use crate::experiment::{Cache, FlashTier, Front};

/// Where a server is to run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Place {
    /// The folder to serve.
    pub(crate) root: PathBuf,
    /// A folder of its own, for its configuration and what it leaves behind.
    pub(crate) folder: PathBuf,
    /// The port for viewers.
    pub(crate) port: u16,
    /// A port for what else it offers.
    pub(crate) admin_port: u16,
    /// Most memory it may use, page cache included.
    pub(crate) memory: Option<u64>,
    /// How many times faster than usual its clocks must run.
    pub(crate) time_scale: u32,
    /// The program `headlong`.
    pub(crate) headlong: PathBuf,
    /// What viewers ask in the server's place, which then listens behind it.
    pub(crate) front: Option<Front>,
    /// Whether the server is started with the preloaded library.
    pub(crate) preload: bool,
    /// Whether the server reads the titles on a mount.
    pub(crate) mount: bool,
    /// Keys of what reads for the server: the reception or the mount.
    pub(crate) reader: String,
    /// The device of its flash tier, and what the experiment says of that.
    pub(crate) flash: Option<(PathBuf, FlashTier)>,
    /// The ZFS pool that the titles lie on, if they do.
    pub(crate) pool: Option<Pool>,
    /// The cache in front of the server, and where it keeps what it has.
    pub(crate) cache: Option<(Cache, CacheSpace)>,
}

/// A file system on the SSD for a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CacheSpace {
    /// Where it is mounted.
    pub(crate) folder: PathBuf,
    /// Bytes that the cache may keep there.
    pub(crate) bytes: u64,
}

/// What a ZFS pool is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pool {
    /// The drive.
    pub(crate) device: PathBuf,
    /// Its cache.
    pub(crate) ssd: Option<PathBuf>,
}

/// Of a limit on memory, page cache included, one part in so many is left to the kernel and to the
/// server that is read for: what programs read by themselves, or on a mount, is in the page cache.
const LEFT_PART: u64 = 4;

impl Place {
    /// The file of what reads for the server, with its memory if the keys do not say it.
    pub(crate) fn reader_file(&self) -> (PathBuf, String) {
        let mut keys: toml::Table = self.reader.parse().unwrap_or_default();
        if let Some(limit) = self.memory {
            let memory = Bytes((limit - limit / LEFT_PART).max(MIB) / MIB * MIB);
            let memory = toml::Value::from(memory.to_string());
            keys.entry("memory").or_insert(memory);
        }
        // What was parsed can be printed.
        let text = toml::to_string(&keys).unwrap_or_default();
        (self.folder.join("reader.toml"), text)
    }
}

/// Files with their text.
pub(crate) type Files = Vec<(PathBuf, String)>;

/// How to start a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Launch {
    /// Words before the command: the program that becomes it.
    pub(crate) under: Vec<String>,
    /// Words of the command.
    pub(crate) command: Vec<String>,
    /// Files to write before, with their text.
    pub(crate) files: Files,
    /// Where it tells about itself in JSON.
    pub(crate) status: Status,
    /// Where it listens.
    pub(crate) listens: Listens,
}

impl Launch {
    /// A server of others at the place's port, which tells nothing about itself.
    pub(super) fn of_others(place: &Place, command: Vec<String>, files: Files) -> Self {
        Self {
            under: Vec::new(),
            command,
            files,
            status: Status::Nowhere,
            listens: Listens::Port(place.port),
        }
    }

    /// What is typed.
    pub(crate) fn line(&self) -> String {
        let words = self.under.iter().chain(&self.command);
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// Where a program tells about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Status {
    /// Nowhere.
    Nowhere,
    /// At this path of its admin port.
    Http(&'static str),
    /// At a reception's socket.
    Reception(PathBuf),
    /// At a mount point.
    Mount(PathBuf),
}

/// Where a program listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Listens {
    /// At a port of the network it is in.
    Port(u16),
    /// At a reception's socket.
    Socket(PathBuf),
    /// At a mount point, which is made before.
    Mount(PathBuf),
}

pub(super) fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A time of so many seconds of the model, in milliseconds of the wall clock.
pub(super) fn scaled_ms(seconds: f64, place: &Place) -> u64 {
    ((seconds * 1000.0 / f64::from(place.time_scale)).round() as u64).max(1)
}
