//! Scratch directories with their owner in the name, and the removal of leftovers of dead runs.
//!
//! The name holds the owner's process id and start time, so that a later run can distinguish a dead
//! owner from a live one, and from another process with the same id. All resources of a disk or a
//! test outside its process are below its scratch directory, or on a loop device whose file is
//! (mount points, the files of loop devices, a record of programs), so the name is enough to find
//! and remove all of them. A guardian does so as soon as the owner has ended, in whatever way (see
//! `guardian`); [`sweep`] finds leftovers if even that was killed.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cleanup::{self, CleanupProcess};
use headlong_report::say;

const PREFIX: &str = "headlong-disk-";

/// A directory of this process, removed with its content when dropped, and when the process ends
/// without dropping it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    guardian: Option<CleanupProcess>,
}

impl Scratch {
    /// Creates a new empty directory in the system's directory for temporary files. The first call
    /// in a process also removes leftovers of dead runs.
    pub fn new(name: &str) -> io::Result<Self> {
        static SWEEP: Once = Once::new();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        SWEEP.call_once(|| {
            for line in sweep() {
                say!("headlong: {line}");
            }
        });
        let pid = std::process::id();
        let start = start_time(pid).unwrap_or(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir()
            .canonicalize()?
            .join(format!("{PREFIX}{pid}-{start}-{number}-{name}"));
        // The guardian first, so that no resource is ever without one.
        let guardian = CleanupProcess::start(&path)
            .map_err(|error| io::Error::other(format!("cannot start bash: {error}")))?;
        let scratch = Self {
            path,
            guardian: Some(guardian),
        };
        fs::create_dir(&scratch.path)?;
        Ok(scratch)
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a directory in it.
    pub fn directory(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// A program that is killed when this directory is removed, also after the death of this
    /// process. The caller should end it in order before that.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        cleanup::command(&self.path, program.as_ref())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Guards that mount are dropped earlier; the guardian reports what they could not undo.
        for line in self
            .guardian
            .take()
            .map_or_else(Vec::new, CleanupProcess::finish)
        {
            say!("headlong: {line}");
        }
    }
}

/// Removes processes, mounts, loop devices and directories of dead owners; returns what it removed.
pub fn sweep() -> Vec<String> {
    let mut report = Vec::new();
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else {
        return report;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(owner) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        // Any user may create such a directory and write process ids into it.
        let is_ours = entry.metadata().is_ok_and(|metadata| {
            metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw()
        });
        if !is_ours || is_alive(owner) {
            continue;
        }
        let Ok(path) = entry.path().canonicalize() else {
            continue;
        };
        report.append(&mut cleanup::clean_up(&path));
        report.push(if path.exists() {
            format!("cannot remove {}", path.display())
        } else {
            format!("removed {}, left by a dead run", path.display())
        });
    }
    report
}

/// Whether the owner in a directory's name (`pid-start-...`) still runs.
fn is_alive(owner: &str) -> bool {
    let mut fields = owner.split('-');
    let pid = fields.next().and_then(|field| field.parse().ok());
    let start: Option<u64> = fields.next().and_then(|field| field.parse().ok());
    match (pid, start) {
        (Some(pid), Some(start)) => start_time(pid) == Some(start) && !is_dying(pid),
        // Not a name of this program: leave it alone.
        _ => true,
    }
}

/// Start time of a process, in clock ticks since boot: field 22 of `/proc/PID/stat`.
fn start_time(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may contain spaces and parentheses: fields count from the last
    // parenthesis.
    text.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

/// Whether a process has been killed and cannot run any more: a zombie, or blocked in the kernel by
/// a disk that it emulated itself.
fn is_dying(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()
    };
    let pending = field("SigPnd:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let killed = 1 << (rustix::process::Signal::KILL.as_raw() - 1);
    matches!(field("State:"), Some("Z" | "X")) || pending.is_some_and(|mask| mask & killed != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_owner_differs_from_dead_and_reused_process_id() {
        let pid = std::process::id();
        let start = start_time(pid).expect("our own start time");
        assert!(is_alive(&format!("{pid}-{start}-0-x")));
        assert!(!is_alive(&format!("{pid}-{}-0-x", start + 1)));
        assert!(!is_alive("4194305-1-0-x"), "above the largest process id");
        assert!(is_alive("not-ours"), "a foreign name is left alone");
    }

    #[test]
    fn sweep_removes_only_directories_of_dead_owners() {
        let ours = Scratch::new("kept").expect("directory");
        let dead = std::env::temp_dir().join(format!("{PREFIX}4194305-1-0-swept"));
        fs::create_dir_all(dead.join("inner")).expect("directory");
        sweep();
        assert!(!dead.exists());
        assert!(ours.path().exists());
    }
}
