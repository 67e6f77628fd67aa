//! The emulated drive, with its files on it, ready to be read cold.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::time::Duration;

use serde_json::{Value, json};

use super::control::Control;
use super::guard::{Guard, Kind, Start};
use super::mount::{Mount, read_metadata};
use super::process::{Output, Process};
use super::queue::{self, QueueSettings};
use super::{RigError, Store, playlist, pool};
use crate::experiment::{DriveSpec, FileSet, Kernel};
use crate::servers::Pool;
use headlong_report::say;

/// Folders, and the file system's own files.
const INODES_SPARE: u64 = 20_000;
/// Making a file system on a large drive, with its times off.
const FILL_PATIENCE: Duration = Duration::from_secs(3600);

/// A running drive; it is asked to end when dropped.
#[derive(Debug)]
pub(crate) struct Disk {
    process: Process,
    control: Control,
    /// `None` with a pool on it, which each run takes in and gives up.
    mount: Option<Mount>,
    point: PathBuf,
    device: String,
    /// As it was started.
    pub(crate) command: Vec<String>,
    /// Held, so that it may go on to print.
    _stdout: BufReader<ChildStdout>,
    /// Locked until the drive is gone.
    store: Store,
}

/// What a drive needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskSetup<'a> {
    pub(crate) headlong: &'a Path,
    pub(crate) drive: &'a DriveSpec,
    pub(crate) files: &'a FileSet,
    pub(crate) store_root: &'a Path,
    pub(crate) time_scale: u32,
}

impl DiskSetup<'_> {
    /// The command that starts the drive.
    pub(crate) fn words(&self, store: &Path, point: &Path, socket: &Path) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        let mut words = vec![
            text(self.headlong),
            "disk".into(),
            "emulate".into(),
            self.drive.word(&described(socket)).into_owned(),
            "--time-scale".into(),
            self.time_scale.to_string(),
            "--store".into(),
            text(store),
            "--control".into(),
            text(socket),
            "--json".into(),
        ];
        if self.files.is_pool() {
            words.extend(["--file-system".into(), "none".into()]);
        } else {
            words.extend(["--mount".into(), text(point), "--file-system".into()]);
            words.push(self.files.file_system.clone());
            // Chunk files are many more than a file system of this size usually has room for.
            let inodes = self.files.count() / 8 * 9 + INODES_SPARE;
            words.extend(["--inodes".into(), inodes.to_string()]);
        }
        if let Some(bytes) = self.drive.size_bytes {
            words.extend(["--size".into(), bytes.to_string()]);
        }
        words
    }
}

/// The file of a drive that is no preset, beside its socket.
fn described(socket: &Path) -> String {
    socket.with_file_name("drive.toml").display().to_string()
}

impl Disk {
    /// Starts the drive, and fills it if its store is empty.
    pub(crate) fn start(guard: &Guard, setup: &DiskSetup<'_>) -> Result<Self, RigError> {
        let store = Store::open(setup.store_root, setup.drive, setup.files)?;
        let point = guard.folder().join("titles");
        let socket = guard.folder().join("drive.sock");
        std::fs::create_dir_all(&point).map_err(|error| RigError::io(point.display(), error))?;
        if let Some(text) = setup.drive.description() {
            let written = text
                .map_err(std::io::Error::other)
                .and_then(|text| std::fs::write(described(&socket), text));
            written.map_err(|error| RigError::io(described(&socket), error))?;
        }
        let command = setup.words(&store.disk(), &point, &socket);
        let start = Start {
            kind: Kind::Disk,
            ..Start::PLAIN
        };
        let mut process = Process::start(guard, start, &command, Output::Kept)?;
        let (ready, stdout) = ready_line(&mut process)?;
        let device = device_name(&ready)?;
        let mut disk = Self {
            control: Control::connect(&socket)?,
            mount: (!setup.files.is_pool())
                .then(|| Mount::new(guard, &device, &point, &setup.files.file_system)),
            process,
            point,
            device,
            command,
            _stdout: stdout,
            store,
        };
        if !disk.store.is_filled() {
            disk.fill(guard, setup)?;
        }
        Ok(disk)
    }

    /// Where the titles are.
    pub(crate) fn root(&self) -> &Path {
        &self.point
    }

    fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.device)
    }

    /// The pool on it, if there is one, with this cache.
    pub(crate) fn pool_of(&self, ssd: Option<&Path>) -> Option<Pool> {
        self.mount.is_none().then(|| Pool {
            device: self.path(),
            ssd: ssd.map(Path::to_path_buf),
        })
    }

    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    /// The commands' words on filling, for a plan.
    pub(crate) fn fill_command(headlong: &Path, files: &FileSet, root: &Path) -> Vec<String> {
        let mut words = vec![
            headlong.display().to_string(),
            "workload".into(),
            "fill".into(),
            root.display().to_string(),
            "--spec".into(),
            files.catalogue.clone(),
        ];
        words.extend(set_words(&files.changes()));
        words
    }

    fn fill(&mut self, guard: &Guard, setup: &DiskSetup<'_>) -> Result<(), RigError> {
        say!(
            "filling the drive, once; it is kept in {}",
            setup.store_root.display()
        );
        self.control.timing(false)?;
        match &self.mount {
            Some(mount) => {
                fill_folder(guard, setup, &self.point)?;
                // Unmounting writes everything down; the drive then makes its own store safe.
                mount.make_cold()?;
            }
            None => pool::with_new(guard, &self.path(), |folder| {
                fill_folder(guard, setup, folder)
            })?,
        }
        self.control.ask(&json!({ "do": "sync" }))?;
        self.store.set_filled()
    }

    /// Nothing of it in memory but, if wanted, what a server would know that has been up for a day;
    /// the queue as wanted. The drive's times are off afterwards.
    pub(crate) fn prepare(
        &mut self,
        kernel: &Kernel,
        warm_metadata: bool,
    ) -> Result<QueueSettings, RigError> {
        self.control.timing(false)?;
        if let Some(mount) = &self.mount {
            mount.make_cold()?;
            if warm_metadata {
                read_metadata(&self.point)?;
            }
        }
        queue::set(&self.device, kernel)
    }

    /// From now on the drive takes its time, and what it does is counted and written to `trace`.
    pub(crate) fn begin(&mut self, trace: &Path) -> Result<(), RigError> {
        self.control.ask(&json!({ "do": "counters_reset" }))?;
        self.control
            .ask(&json!({ "do": "trace_start", "path": trace }))?;
        self.control.timing(true)
    }

    /// Its counters so far.
    pub(crate) fn counters(&mut self) -> Result<Value, RigError> {
        self.control.ask(&json!({ "do": "counters" }))
    }

    /// How late it answers is counted from here on.
    pub(crate) fn forget_lateness(&mut self) -> Result<(), RigError> {
        self.control.forget_lateness()
    }

    /// Ends what [`Disk::begin`] began; the drive's counters.
    pub(crate) fn end(&mut self) -> Result<Value, RigError> {
        let counters = self.control.ask(&json!({ "do": "counters" }))?;
        self.control.ask(&json!({ "do": "trace_stop" }))?;
        self.control.timing(false)?;
        Ok(counters)
    }

    /// The queue's settings as they are now; a run in which they changed is worth nothing.
    pub(crate) fn queue(&self) -> Result<QueueSettings, RigError> {
        queue::look(&self.device)
    }
}

fn fill_folder(guard: &Guard, setup: &DiskSetup<'_>, folder: &Path) -> Result<(), RigError> {
    let words = Disk::fill_command(setup.headlong, setup.files, folder);
    let mut filling = Process::start(guard, Start::PLAIN, &words, Output::Shown)?;
    filling.drain();
    let status = filling.wait(FILL_PATIENCE)?;
    if !status.success() {
        return Err(RigError::Failed {
            what: words.join(" "),
            words: filling.last_words(),
        });
    }
    // Why it cannot be read would have been told before.
    match setup.files.catalogue() {
        Ok(catalogue) => playlist::write_all(folder, &catalogue),
        Err(_) => Ok(()),
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.process.stop();
    }
}

/// Changes of a specification as `headlong workload` takes them.
pub(crate) fn set_words(changes: &[(String, String)]) -> Vec<String> {
    let words = changes.iter();
    words
        .flat_map(|(key, value)| ["--set".to_owned(), format!("{key}={value}")])
        .collect()
}

/// The drive says in one line of JSON when it can be used.
pub(crate) fn ready_line(
    process: &mut Process,
) -> Result<(Value, BufReader<ChildStdout>), RigError> {
    let mut line = String::new();
    if let Some(stdout) = process.stdout() {
        let mut stdout = BufReader::new(stdout);
        let read = stdout.read_line(&mut line);
        read.map_err(|error| RigError::io("headlong disk emulate", error))?;
        let value: Value = serde_json::from_str(&line).unwrap_or_default();
        if value["ready"] == true {
            return Ok((value, stdout));
        }
    }
    process.stop();
    Err(RigError::Failed {
        what: "headlong disk emulate".into(),
        words: process.last_words(),
    })
}

pub(crate) fn device_name(ready: &Value) -> Result<String, RigError> {
    let device = ready["device"]
        .as_str()
        .and_then(|path| path.strip_prefix("/dev/"));
    device.map(str::to_owned).ok_or_else(|| RigError::Answer {
        what: "headlong disk emulate".into(),
        answer: ready.to_string(),
    })
}
