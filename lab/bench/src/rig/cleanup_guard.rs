//! The guardian: a small process beside each bench that outlives it and cleans up after it.
//!
//! It detects the end of the bench by a pipe whose other end only the bench holds. Every process is
//! started through a script that records itself before it executes the program, so killing the
//! bench at any moment leaves nothing behind. Guardian and launcher are scripts, because a library
//! has no executable of its own.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::RigError;
use headlong_report::say;

const GUARD: &str = include_str!("guardian.sh");
const LAUNCH: &str = include_str!("launch.sh");

/// Kind of a process, which determines the shutdown order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessKind {
    /// An emulated drive: terminated last, because others wait for its I/O.
    Disk,
    /// Any other process: killed.
    Other,
}

/// Where a program is started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessContext<'a> {
    pub(crate) kind: ProcessKind,
    /// Folder of a control group to join.
    pub(crate) group: Option<&'a Path>,
    /// Process whose network namespace to join.
    pub(crate) network: Option<u32>,
}

impl ProcessContext<'_> {
    /// No group, the machine's own network.
    pub(crate) const PLAIN: Self = Self {
        kind: ProcessKind::Other,
        group: None,
        network: None,
    };
}

/// The working folder of one bench and its guardian.
#[derive(Debug, Clone)]
pub(crate) struct CleanupGuard(Arc<GuardState>);

#[derive(Debug)]
struct GuardState {
    folder: PathBuf,
    /// `None` after the shutdown; no process can be started any more.
    guardian: Mutex<Option<Child>>,
    /// Whether a signal was received and another thread is about to shut down.
    is_stopping: AtomicBool,
}

/// Longest wait for the thread that shuts down: the sum of the guardian's timeouts.
const STOP_PATIENCE: Duration = Duration::from_secs(120);

impl CleanupGuard {
    /// Creates the folder and starts the guardian.
    pub(crate) fn start() -> Result<Self, RigError> {
        let made = tempfile::Builder::new().prefix("headlong-bench-").tempdir();
        let folder = made
            .map_err(|error| RigError::io("a temporary folder", error))?
            .keep();
        // Servers that drop privileges must be able to read it.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&folder, mode)
            .map_err(|error| RigError::io(folder.display(), error))?;
        let mut command = Command::new("sh");
        command
            .args(["-c", GUARD, "guardian"])
            .arg(&folder)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let guardian = command.spawn().map_err(|error| RigError::io("sh", error))?;
        let guardian = Mutex::new(Some(guardian));
        let is_stopping = AtomicBool::new(false);
        Ok(Self(Arc::new(GuardState {
            folder,
            guardian,
            is_stopping,
        })))
    }

    /// Working folder, deleted at shutdown.
    pub(crate) fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Starts a program that ends with the bench; `adjust` sets up its standard streams.
    pub(crate) fn spawn(
        &self,
        start: ProcessContext<'_>,
        words: &[String],
        adjust: impl FnOnce(&mut Command),
    ) -> Result<Child, RigError> {
        let name = words.first().map(String::as_str).unwrap_or_default();
        let guardian = self.0.lock();
        if guardian.is_none() {
            return Err(RigError::Stopping);
        }
        let record = self.0.folder.join("processes");
        let mut command = Command::new("sh");
        command
            .args(["-c", LAUNCH, "launch"])
            .arg(&record)
            .arg(std::process::id().to_string())
            .arg(start.kind.name())
            .arg(start.group.unwrap_or(Path::new("")))
            .arg(
                start
                    .network
                    .map_or_else(String::new, |pid| pid.to_string()),
            )
            .args(words)
            .process_group(0)
            .stdin(Stdio::null());
        adjust(&mut command);
        let child = command.spawn().map_err(|error| RigError::io(name, error))?;
        // Recorded twice: by the script, in case this process is killed, and here, in case of a
        // shutdown before the script has done so.
        let noted = self.note("processes", &record_line(&child, start.kind));
        noted.map_err(|error| RigError::io(record.display(), error))?;
        drop(guardian);
        Ok(child)
    }

    /// Records a control group before it is created.
    pub(crate) fn note_group(&self, group: &Path) -> Result<(), RigError> {
        let noted = self.note("groups", &group.display().to_string());
        noted.map_err(|error| RigError::io(self.0.folder.display(), error))
    }

    fn note(&self, file: &str, line: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file: File = options
            .create(true)
            .append(true)
            .open(self.0.folder.join(file))?;
        file.write_all(format!("{line}\n").as_bytes())
    }

    /// Shuts everything down and waits for the end. Later starts are refused.
    pub(crate) fn finish(&self) {
        self.0.finish();
    }

    /// Blocks indefinitely after a signal: processes are being killed, so any later result or
    /// failure is meaningless.
    pub(crate) fn hold_if_stopping(&self) {
        if self.0.is_stopping.load(Ordering::SeqCst) {
            std::thread::sleep(STOP_PATIENCE);
        }
    }

    /// On a signal, cleans up and exits with the usual code.
    pub(crate) fn watch_signals(&self) -> Result<(), RigError> {
        let fail = |error| RigError::io("signals", error);
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(fail)?;
        let guard = self.clone();
        let waiting = move || {
            let Some(number) = signals.forever().next() else {
                return;
            };
            guard.0.is_stopping.store(true, Ordering::SeqCst);
            say!("headlong: stopping: ending servers and drives, unmounting");
            guard.finish();
            std::process::exit(128 + number);
        };
        let thread = std::thread::Builder::new().name("signals".into());
        thread.spawn(waiting).map(drop).map_err(fail)
    }
}

impl GuardState {
    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.guardian.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self) {
        if let Some(mut child) = self.lock().take() {
            drop(child.stdin.take());
            // The guardian ends by itself: all its waits are bounded.
            let _ = child.wait();
        }
    }
}

impl Drop for GuardState {
    fn drop(&mut self) {
        self.finish();
    }
}

impl ProcessKind {
    /// Name used by the scripts.
    fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Other => "other",
        }
    }
}

/// Process id, start time and kind, in the format that the guardian parses.
fn record_line(child: &Child, kind: ProcessKind) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let fields = stat
        .rsplit_once(") ")
        .map(|(_, fields)| fields)
        .unwrap_or_default();
    let start = fields.split(' ').nth(19).unwrap_or("0");
    format!("{} {start} {}", child.id(), kind.name())
}
