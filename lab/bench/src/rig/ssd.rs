//! The emulated SSD of a run: made and formatted for it, as a tier or with a file system for a cache
//! of others, and gone after it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use headlong_units::Bytes;
use serde_json::Value;

use super::emulated::Emulated;
use super::guard::Guard;
use super::process::{Output, Process};
use super::{RigError, make_folder};
use crate::experiment::{Cache, CacheKind, FlashTier};
use crate::servers::CacheSpace;
use crate::words::Words;

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
    drive: Emulated,
    device: PathBuf,
    /// As it was started and formatted.
    pub(crate) commands: Vec<String>,
    /// The file system's folder, if it has one.
    point: Option<PathBuf>,
    /// What the experiment says of its size.
    tier_bytes: Option<u64>,
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
        let size = self.tier.size_bytes.map(|bytes| match self.holds {
            Holds::Tier(_) | Holds::Device => bytes,
            Holds::Files { .. } => bytes * ROOM,
        });
        let words = Words::of(self.headlong, "disk emulate")
            .word(&self.tier.preset)
            .option("--time-scale", self.time_scale)
            .option("--control", socket.display())
            .plain("--json")
            .maybe("--size", size);
        let words = match self.holds {
            Holds::Tier(_) | Holds::Device => words.plain("--file-system none"),
            // Making the file system takes no time of the model.
            Holds::Files { point, .. } => words
                .plain("--file-system ext4")
                .option("--inodes", INODES)
                .option("--mount", point.display())
                .plain("--timing off"),
        };
        words.0
    }

    /// The command that makes it a tier, if it is to be one.
    pub(crate) fn format_words(&self, device: &Path) -> Option<Vec<String>> {
        let Holds::Tier(piece) = self.holds else {
            return None;
        };
        let words = Words::of(self.headlong, "flash format")
            .word(device.display())
            .option("--block", Bytes(self.tier.block_bytes));
        Some(words.maybe("--piece", piece).0)
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
            make_folder(point)?;
        }
        let mut drive = Emulated::start(guard, &command, &socket)?;
        let device = Path::new("/dev").join(&drive.device);
        drive.control.timing(false)?;
        let mut commands = vec![command.join(" ")];
        if let Some(format) = setup.format_words(&device) {
            Process::complete(guard, &format, Output::Kept, FORMAT_PATIENCE)?;
            commands.push(format.join(" "));
        }
        if let Holds::Files { memory, .. } = setup.holds
            && let Some(memory) = memory
        {
            bound_unwritten(&drive.device, memory / UNWRITTEN_PART)?;
        }
        Ok(Self {
            drive,
            device,
            commands,
            point,
            tier_bytes: setup.tier.size_bytes,
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
        self.drive.counters()
    }

    /// From now on it takes its time, and what it does is counted.
    pub(crate) fn begin(&mut self) -> Result<(), RigError> {
        self.drive.reset_counters()?;
        self.drive.control.timing(true)
    }

    /// How late it answers is counted from here on.
    pub(crate) fn forget_lateness(&mut self) -> Result<(), RigError> {
        self.drive.control.forget_lateness()
    }

    /// Its counters; its times are off afterwards.
    pub(crate) fn end(&mut self) -> Result<Value, RigError> {
        let counters = self.drive.counters()?;
        self.drive.control.timing(false)?;
        Ok(counters)
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
