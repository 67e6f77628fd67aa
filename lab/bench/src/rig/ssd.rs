//! The emulated SSD of a run: created for it, formatted as a flash tier or with a file system for a
//! third-party cache, and removed after it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use headlong_units::Bytes;
use serde_json::Value;

use super::cleanup_guard::CleanupGuard;
use super::emulated_drive::EmulatedDrive;
use super::process::{ChildProcess, StderrHandling};
use super::{RigError, make_folder};
use crate::experiment::{Cache, CacheKind, FlashTier};
use crate::servers::{CacheSpace, CommandBuilder};

/// Fraction of a server's memory that may hold dirty pages of its cache. Without this bound the
/// kernel accumulates much more than the server's memory, and its reads queue behind all of it.
const UNWRITTEN_PART: u64 = 8;

/// Formatting writes two pages.
const FORMAT_PATIENCE: Duration = Duration::from_secs(60);

/// A cache's file system is this many times larger than the cache's limit: nginx removes the excess
/// only every ten seconds of wall time.
const ROOM: u64 = 2;

/// Inodes for a cache; nginx has a file for each cached object.
const INODES: u32 = 100_000;

/// A running SSD without content; it is terminated when dropped.
#[derive(Debug)]
pub(crate) struct RunningSsd {
    drive: EmulatedDrive,
    device: PathBuf,
    /// The commands that started and formatted it.
    pub(crate) commands: Vec<String>,
    /// Mount point, if it has a file system.
    point: Option<PathBuf>,
    /// Size in the experiment.
    tier_bytes: Option<u64>,
}

/// Parameters of an SSD.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SsdSetup<'a> {
    pub(crate) headlong: &'a Path,
    pub(crate) tier: &'a FlashTier,
    pub(crate) holds: SsdUse<'a>,
    pub(crate) time_scale: u32,
}

/// Use of the SSD.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SsdUse<'a> {
    /// A flash tier of headlong; with the server's `piece`, if configured.
    Tier(Option<&'a str>),
    /// No content: a pool formats it.
    Device,
    /// A file system for a cache.
    Files {
        /// Where it is mounted.
        point: &'a Path,
        /// Memory limit of the cache's user.
        memory: Option<u64>,
    },
}

impl<'a> SsdUse<'a> {
    /// The use by a server whose configuration has this `piece`; a cache's file system is mounted
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
            SsdUse::Tier(_) | SsdUse::Device => bytes,
            SsdUse::Files { .. } => bytes * ROOM,
        });
        let words = CommandBuilder::of(self.headlong, "disk emulate")
            .word(&self.tier.preset)
            .option("--time-scale", self.time_scale)
            .option("--control", socket.display())
            .plain("--json")
            .maybe("--size", size);
        let words = match self.holds {
            SsdUse::Tier(_) | SsdUse::Device => words.plain("--file-system none"),
            // Creating the file system takes no model time.
            SsdUse::Files { point, .. } => words
                .plain("--file-system ext4")
                .option("--inodes", INODES)
                .option("--mount", point.display())
                .plain("--timing off"),
        };
        words.0
    }

    /// The command that formats it as a tier, if it is used as one.
    pub(crate) fn format_words(&self, device: &Path) -> Option<Vec<String>> {
        let SsdUse::Tier(piece) = self.holds else {
            return None;
        };
        let words = CommandBuilder::of(self.headlong, "flash format")
            .word(device.display())
            .option("--block", Bytes(self.tier.block_bytes));
        Some(words.maybe("--piece", piece).0)
    }
}

impl RunningSsd {
    /// Starts and formats it; its timing is off.
    pub(crate) fn start(
        guard: &CleanupGuard,
        folder: &Path,
        setup: &SsdSetup<'_>,
    ) -> Result<Self, RigError> {
        let socket = folder.join("ssd.sock");
        let command = setup.words(&socket);
        let point = match setup.holds {
            SsdUse::Tier(_) | SsdUse::Device => None,
            SsdUse::Files { point, .. } => Some(point.to_path_buf()),
        };
        if let Some(point) = &point {
            make_folder(point)?;
        }
        let mut drive = EmulatedDrive::start(guard, &command, &socket)?;
        let device = Path::new("/dev").join(&drive.device);
        drive.control.timing(false)?;
        let mut commands = vec![command.join(" ")];
        if let Some(format) = setup.format_words(&device) {
            ChildProcess::complete(guard, &format, StderrHandling::Kept, FORMAT_PATIENCE)?;
            commands.push(format.join(" "));
        }
        if let SsdUse::Files { memory, .. } = setup.holds
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

    /// The cache's file system, if there is one: its folder, and the cache's size limit.
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

    /// Its current counters.
    pub(crate) fn counters(&mut self) -> Result<Value, RigError> {
        self.drive.counters()
    }

    /// Turns its timing on and resets its counters.
    pub(crate) fn begin(&mut self) -> Result<(), RigError> {
        self.drive.reset_counters()?;
        self.drive.control.timing(true)
    }

    /// Resets the counters of lateness.
    pub(crate) fn forget_lateness(&mut self) -> Result<(), RigError> {
        self.drive.control.forget_lateness()
    }

    /// Its counters; turns its timing off.
    pub(crate) fn end(&mut self) -> Result<Value, RigError> {
        let counters = self.drive.counters()?;
        self.drive.control.timing(false)?;
        Ok(counters)
    }
}

/// Limits the dirty pages of a device, whatever the machine's defaults are.
fn bound_unwritten(device: &str, bytes: u64) -> Result<(), RigError> {
    let bound = [("strict_limit", 1), ("max_bytes", bytes)];
    for (file, value) in bound {
        let path = format!("/sys/block/{device}/bdi/{file}");
        let written = std::fs::write(&path, value.to_string());
        written.map_err(|error| RigError::io(path, error))?;
    }
    Ok(())
}
