//! An emulated drive with its files, prepared for reads from a cold cache.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::cleanup_guard::CleanupGuard;
use super::emulated_drive::EmulatedDrive;
use super::mount::{ReadOnlyMount, read_metadata};
use super::process::{ChildProcess, StderrHandling};
use super::queue::{self, QueueSettings};
use super::{DriveStore, RigError, make_folder, playlist, pool};
use crate::command_builder::CommandBuilder;
use crate::experiment::{BlockQueueSettings, EmulatedDriveSpec, FileSet};
use crate::servers::PoolDevices;
use headlong_report::say;

/// Inodes for folders and the file system's own files.
const INODES_SPARE: u64 = 20_000;
/// Timeout for creating a file system on a large drive, with timing off.
const FILL_PATIENCE: Duration = Duration::from_secs(3600);

/// A running drive; it is terminated when dropped.
#[derive(Debug)]
pub(crate) struct RunningDisk {
    drive: EmulatedDrive,
    /// `None` with a ZFS pool, which each run imports and exports.
    mount: Option<ReadOnlyMount>,
    point: PathBuf,
    /// The command that started it.
    pub(crate) command: Vec<String>,
    /// Locked until the drive has ended.
    store: DriveStore,
}

/// Parameters of a drive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskSetup<'a> {
    pub(crate) headlong: &'a Path,
    pub(crate) drive: &'a EmulatedDriveSpec,
    pub(crate) files: &'a FileSet,
    pub(crate) store_root: &'a Path,
    pub(crate) time_scale: u32,
    /// Index among identical drives, from 0.
    pub(crate) number: u32,
}

impl DiskSetup<'_> {
    /// A file name unique to this drive.
    pub(crate) fn named(&self, name: &str, ending: &str) -> String {
        match self.number {
            0 => format!("{name}{ending}"),
            number => format!("{name}-{}{ending}", number + 1),
        }
    }

    /// Paths of its mount point and its control socket.
    pub(crate) fn places(&self, folder: &Path) -> (PathBuf, PathBuf) {
        (
            folder.join(self.named("titles", "")),
            folder.join(self.named("drive", ".sock")),
        )
    }

    /// The command that starts the drive.
    pub(crate) fn words(&self, store: &Path, point: &Path, socket: &Path) -> Vec<String> {
        let words = CommandBuilder::of(self.headlong, "disk emulate")
            .word(self.drive.word(&described(socket)))
            .option("--time-scale", self.time_scale)
            .option("--store", store.display())
            .option("--control", socket.display())
            .plain("--json")
            .maybe("--size", self.drive.size_bytes);
        if self.files.is_pool() {
            return words.plain("--file-system none").0;
        }
        // Chunk files need many more inodes than a file system of this size usually has.
        let inodes = self.files.count() / 8 * 9 + INODES_SPARE;
        words
            .option("--mount", point.display())
            .option("--file-system", &self.files.file_system)
            .option("--inodes", inodes)
            .0
    }
}

/// Path of a custom drive description, next to the socket.
fn described(socket: &Path) -> String {
    socket.with_file_name("drive.toml").display().to_string()
}

impl RunningDisk {
    /// Starts the drive, and fills it if its store is empty.
    pub(crate) fn start(guard: &CleanupGuard, setup: &DiskSetup<'_>) -> Result<Self, RigError> {
        let store = DriveStore::open(setup.store_root, setup.drive, setup.files, setup.number)?;
        let (point, socket) = setup.places(guard.folder());
        make_folder(&point)?;
        if let Some(text) = setup.drive.description() {
            let written = text
                .map_err(std::io::Error::other)
                .and_then(|text| std::fs::write(described(&socket), text));
            written.map_err(|error| RigError::io(described(&socket), error))?;
        }
        let command = setup.words(&store.disk(), &point, &socket);
        let drive = EmulatedDrive::start(guard, &command, &socket)?;
        let mut disk = Self {
            mount: (!setup.files.is_pool()).then(|| {
                ReadOnlyMount::new(guard, &drive.device, &point, &setup.files.file_system)
            }),
            drive,
            point,
            command,
            store,
        };
        if !disk.store.is_filled() {
            disk.fill(guard, setup)?;
        }
        Ok(disk)
    }

    /// Folder of the titles.
    pub(crate) fn root(&self) -> &Path {
        &self.point
    }

    fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.drive.device)
    }

    /// The pool on it, if there is one, with this cache device.
    pub(crate) fn pool_of(&self, ssd: Option<&Path>) -> Option<PoolDevices> {
        self.mount.is_none().then(|| PoolDevices {
            device: self.path(),
            ssd: ssd.map(Path::to_path_buf),
        })
    }

    pub(crate) fn process(&self) -> u32 {
        self.drive.process()
    }

    /// The command that fills it, for a plan.
    pub(crate) fn fill_command(headlong: &Path, files: &FileSet, root: &Path) -> Vec<String> {
        CommandBuilder::of(headlong, "workload fill")
            .word(root.display())
            .option("--spec", &files.catalogue)
            .changes(&files.changes())
            .0
    }

    fn fill(&mut self, guard: &CleanupGuard, setup: &DiskSetup<'_>) -> Result<(), RigError> {
        say!(
            "filling the drive, once; it is kept in {}",
            setup.store_root.display()
        );
        self.drive.control.timing(false)?;
        match &self.mount {
            Some(mount) => {
                fill_folder(guard, setup, &self.point)?;
                // Unmounting flushes the file system; the drive then syncs its own store.
                mount.make_cold()?;
            }
            None => pool::with_new(guard, &self.path(), |folder| {
                fill_folder(guard, setup, folder)
            })?,
        }
        self.drive.control.ask(&json!({ "do": "sync" }))?;
        self.store.set_filled()
    }

    /// Drops everything of the drive from memory, reads the metadata again if configured, and sets
    /// the queue. The drive's timing is off afterwards.
    pub(crate) fn prepare(
        &mut self,
        kernel: &BlockQueueSettings,
        warm_metadata: bool,
    ) -> Result<QueueSettings, RigError> {
        self.drive.control.timing(false)?;
        if let Some(mount) = &self.mount {
            mount.make_cold()?;
            if warm_metadata {
                read_metadata(&self.point)?;
            }
        }
        queue::set(&self.drive.device, kernel)
    }

    /// Turns timing on, resets the counters, and starts a trace at `trace`.
    pub(crate) fn begin(&mut self, trace: &Path) -> Result<(), RigError> {
        self.drive.reset_counters()?;
        self.drive
            .control
            .ask(&json!({ "do": "trace_start", "path": trace }))?;
        self.drive.control.timing(true)
    }

    /// Its current counters.
    pub(crate) fn counters(&mut self) -> Result<Value, RigError> {
        self.drive.counters()
    }

    /// Resets the counters of lateness.
    pub(crate) fn forget_lateness(&mut self) -> Result<(), RigError> {
        self.drive.control.forget_lateness()
    }

    /// Ends the measurement that [`RunningDisk::begin`] started, and returns the drive's counters.
    pub(crate) fn end(&mut self) -> Result<Value, RigError> {
        let counters = self.drive.counters()?;
        self.drive.control.ask(&json!({ "do": "trace_stop" }))?;
        self.drive.control.timing(false)?;
        Ok(counters)
    }

    /// Current settings of the queue; a run in which they changed is invalid.
    pub(crate) fn queue(&self) -> Result<QueueSettings, RigError> {
        queue::look(&self.drive.device)
    }
}

fn fill_folder(guard: &CleanupGuard, setup: &DiskSetup<'_>, folder: &Path) -> Result<(), RigError> {
    let words = RunningDisk::fill_command(setup.headlong, setup.files, folder);
    ChildProcess::complete(guard, &words, StderrHandling::Shown, FILL_PATIENCE)?;
    // A catalogue that cannot be read has been reported earlier.
    match setup.files.catalogue() {
        Ok(catalogue) => playlist::write_all(folder, &catalogue),
        Err(_) => Ok(()),
    }
}
