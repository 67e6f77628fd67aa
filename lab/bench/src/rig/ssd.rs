//! The emulated SSD of a run: made and formatted for it, as a tier or with a file system for a cache
//! of others, and gone after it.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::time::Duration;

use headlong_units::Bytes;
use serde_json::{Value, json};

use super::RigError;
use super::control::Control;
use super::disk::{device_name, ready_line};
use super::guard::{Guard, Kind, Start};
use super::process::{Output, Process};
use crate::experiment::{Cache, CacheKind, FlashTier};
use crate::servers::CacheSpace;

/// Of the memory that a server may use, so much of what was written to its cache may wait in the page
/// cache. Without a bound the kernel lets much more wait than the server has, and its reads then stand
/// behind all of it.
const UNWRITTEN_PART: u64 = 8;

/// Formatting writes two pages.
const FORMAT_PATIENCE: Duration = Duration::from_secs(60);

/// A cache's file system is so many times larger than what the cache may keep: nginx looks only every
/// ten seconds of the wall for what it has too much.
const ROOM: u64 = 2;

/// Files and folders that a cache may have on it; nginx has one for each thing it keeps.
const INODES: u32 = 100_000;

/// A running SSD with nothing in it yet; it is asked to end when dropped.
#[derive(Debug)]
pub(crate) struct Ssd {
    process: Process,
    control: Control,
    device: PathBuf,
    /// As it was started and formatted.
    pub(crate) commands: Vec<String>,
    /// The file system's folder, if it has one.
    point: Option<PathBuf>,
    /// What the experiment says of its size.
    tier_bytes: Option<u64>,
    /// Held, so that it may go on to print.
    _stdout: BufReader<ChildStdout>,
}

/// What an SSD needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SsdSetup<'a> {
    pub(crate) headlong: &'a Path,
    pub(crate) tier: &'a FlashTier,
    pub(crate) holds: Holds<'a>,
    pub(crate) time_scale: u32,
}

/// What it is made for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Holds<'a> {
    /// A tier of headlong; with the server's `piece`, if it says one.
    Tier(Option<&'a str>),
    /// Nothing: a pool puts on it what it wants.
    Device,
    /// A file system for a cache.
    Files {
        /// Where it is mounted.
        point: &'a Path,
        /// Memory of those who use it.
        memory: Option<u64>,
    },
}

impl<'a> Holds<'a> {
    /// What a server needs it for, whose configuration says this `piece`; a cache's files would be
    /// at `point`.
    pub(crate) fn of(
        cache: Option<Cache>,
        piece: Option<&'a str>,
        point: &'a Path,
        memory: Option<u64>,
    ) -> Self {
        match cache.map(|cache| cache.kind) {
            None => Self::Tier(piece),
            Some(CacheKind::Zfs) => Self::Device,
            Some(_) => Self::Files { point, memory },
        }
    }
}

impl SsdSetup<'_> {
    /// The command that starts the SSD.
    pub(crate) fn words(&self, socket: &Path) -> Vec<String> {
        let mut words = vec![
            self.headlong.display().to_string(),
            "disk".into(),
            "emulate".into(),
            self.tier.preset.clone(),
            "--time-scale".into(),
            self.time_scale.to_string(),
            "--control".into(),
            socket.display().to_string(),
            "--json".into(),
        ];
        if let Some(bytes) = self.tier.size_bytes {
            let bytes = match self.holds {
                Holds::Tier(_) | Holds::Device => bytes,
                Holds::Files { .. } => bytes * ROOM,
            };
            words.extend(["--size".into(), bytes.to_string()]);
        }
        let more = match self.holds {
            Holds::Tier(_) | Holds::Device => vec!["--file-system".into(), "none".into()],
            // Making the file system takes no time of the model.
            Holds::Files { point, .. } => vec![
                "--file-system".into(),
                "ext4".into(),
                "--inodes".into(),
                INODES.to_string(),
                "--mount".into(),
                point.display().to_string(),
                "--timing".into(),
                "off".into(),
            ],
        };
        words.extend(more);
        words
    }

    /// The command that makes it a tier, if it is to be one.
    pub(crate) fn format_words(&self, device: &Path) -> Option<Vec<String>> {
        let Holds::Tier(piece) = self.holds else {
            return None;
        };
        let mut words = vec![
            self.headlong.display().to_string(),
            "flash".into(),
            "format".into(),
            device.display().to_string(),
            "--block".into(),
            Bytes(self.tier.block_bytes).to_string(),
        ];
        if let Some(piece) = piece {
            words.extend(["--piece".into(), piece.to_owned()]);
        }
        Some(words)
    }
}

impl Ssd {
    /// Starts it and makes it what it is to be; its times are off.
    pub(crate) fn start(
        guard: &Guard,
        folder: &Path,
        setup: &SsdSetup<'_>,
    ) -> Result<Self, RigError> {
        let socket = folder.join("ssd.sock");
        let command = setup.words(&socket);
        let point = match setup.holds {
            Holds::Tier(_) | Holds::Device => None,
            Holds::Files { point, .. } => Some(point.to_path_buf()),
        };
        if let Some(point) = &point {
            let made = std::fs::create_dir_all(point);
            made.map_err(|error| RigError::io(point.display(), error))?;
        }
        let start = Start {
            kind: Kind::Disk,
            ..Start::PLAIN
        };
        let mut process = Process::start(guard, start, &command, Output::Kept)?;
        let (ready, stdout) = ready_line(&mut process)?;
        let name = device_name(&ready)?;
        let device = Path::new("/dev").join(&name);
        let mut control = Control::connect(&socket)?;
        control.timing(false)?;
        let mut commands = vec![command.join(" ")];
        if let Some(format) = setup.format_words(&device) {
            let mut formatting = Process::start(guard, Start::PLAIN, &format, Output::Kept)?;
            formatting.drain();
            if !formatting.wait(FORMAT_PATIENCE)?.success() {
                return Err(RigError::Failed {
                    what: format.join(" "),
                    words: formatting.last_words(),
                });
            }
            commands.push(format.join(" "));
        }
        if let Holds::Files { memory, .. } = setup.holds
            && let Some(memory) = memory
        {
            bound_unwritten(&name, memory / UNWRITTEN_PART)?;
        }
        Ok(Self {
            process,
            control,
            device,
            commands,
            point,
            tier_bytes: setup.tier.size_bytes,
            _stdout: stdout,
        })
    }

    /// The block device.
    pub(crate) fn device(&self) -> &Path {
        &self.device
    }

    /// The file system for a cache, if it has one: its folder, and the bytes that the cache may keep.
    pub(crate) fn space(&self) -> Result<Option<CacheSpace>, RigError> {
        let Some(folder) = self.point.clone() else {
            return Ok(None);
        };
        let told = rustix::fs::statvfs(&folder);
        let told = told.map_err(|errno| RigError::io(folder.display(), errno.into()))?;
        let bytes = told.f_bavail * told.f_frsize;
        let bytes = self.tier_bytes.unwrap_or(bytes / ROOM);
        Ok(Some(CacheSpace { folder, bytes }))
    }

    /// Its counters so far.
    pub(crate) fn counters(&mut self) -> Result<Value, RigError> {
        self.control.ask(&json!({ "do": "counters" }))
    }

    /// From now on it takes its time, and what it does is counted.
    pub(crate) fn begin(&mut self) -> Result<(), RigError> {
        self.control.ask(&json!({ "do": "counters_reset" }))?;
        self.control.timing(true)
    }

    /// How late it answers is counted from here on.
    pub(crate) fn forget_lateness(&mut self) -> Result<(), RigError> {
        self.control.forget_lateness()
    }

    /// Its counters; its times are off afterwards.
    pub(crate) fn end(&mut self) -> Result<Value, RigError> {
        let counters = self.control.ask(&json!({ "do": "counters" }))?;
        self.control.timing(false)?;
        Ok(counters)
    }
}

impl Drop for Ssd {
    fn drop(&mut self) {
        self.process.stop();
    }
}

/// Lets at most so many bytes wait in memory to be written to a device, whatever the machine has.
fn bound_unwritten(device: &str, bytes: u64) -> Result<(), RigError> {
    let bound = [("strict_limit", 1), ("max_bytes", bytes)];
    for (file, value) in bound {
        let path = format!("/sys/block/{device}/bdi/{file}");
        let written = std::fs::write(&path, value.to_string());
        written.map_err(|error| RigError::io(path, error))?;
    }
    Ok(())
}
