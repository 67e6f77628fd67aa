//! `headlong mount` as a child process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use headlong_testkit::leftovers::mounts_below;
use headlong_testkit::server;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

use crate::eventually;

/// A running mount. It is killed when dropped; its file system must be unmounted afterwards.
pub struct Mount {
    child: Child,
    point: PathBuf,
    log: PathBuf,
}

impl Mount {
    /// Whether this machine allows mounts; if not, records the test as skipped.
    pub fn available_or_skip(test: &str) -> bool {
        let is_root = rustix::process::geteuid().is_root();
        let device = File::options().read(true).write(true).open("/dev/fuse");
        match device {
            Ok(_) if is_root => return true,
            Ok(_) => headlong_testkit::skip(test, "needs root"),
            Err(error) => headlong_testkit::skip(test, &format!("/dev/fuse: {error}")),
        }
        false
    }

    /// Creates a folder and mounts a tree there, with 64 MiB of memory.
    ///
    /// # Panics
    /// If the mount fails.
    pub fn start(directory: &Path, point: &Path) -> Self {
        Self::start_with(directory, point, &["--memory", "64MiB"])
    }

    /// Like [`Mount::start`], with other arguments.
    ///
    /// # Panics
    /// If the mount fails.
    pub fn start_with(directory: &Path, point: &Path, arguments: &[&str]) -> Self {
        if fs::symlink_metadata(point).is_err() {
            let made = fs::create_dir(point);
            // A mount point whose daemon has ended exists but cannot be inspected.
            made.or_else(|error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => Ok(()),
                _ => Err(error),
            })
            .expect("made");
        }
        let log = point.with_extension("log");
        let errors = File::create(&log).expect("made");
        let mut command = Command::new(server::binary());
        command
            .arg("mount")
            .arg(directory)
            .arg(point)
            .args(arguments);
        let child = command.stdin(Stdio::null()).stderr(errors).spawn();
        let mut mount = Self {
            child: child.expect("started"),
            point: point.to_owned(),
            log,
        };
        let end = Instant::now() + Duration::from_secs(60);
        while !mount.says("mounted directory") {
            let ended = mount.child.try_wait().expect("asked");
            let is_late = Instant::now() > end;
            assert!(ended.is_none() && !is_late, "{ended:?}: {}", mount.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        mount
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Mount point.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Path of a file on the mount.
    pub fn path(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    /// Its log output.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn says(&self, words: &str) -> bool {
        self.log().contains(words)
    }

    /// Its status.
    pub fn status(&self) -> serde_json::Value {
        let mut command = Command::new(server::binary());
        command.args(["mount", "--status"]).arg(&self.point);
        let output = command.output().expect("started");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Sum of the engines' counters of that name.
    pub fn counter(&self, name: &str) -> u64 {
        let status = self.status();
        let devices = status["devices"].as_array().cloned().unwrap_or_default();
        let counts = devices
            .iter()
            .map(|device| device["counters"][name].as_u64());
        counts.flatten().sum()
    }

    /// Sends a signal. Returns after `SIGSTOP` once no thread can answer any more: on a busy machine
    /// some go on for a while.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("an id"), signal).expect("sent");
        if signal == Signal::STOP {
            let states = || thread_states(self.id());
            eventually("a stopped process", states, |states| {
                states.chars().all(|state| "TDZ".contains(state))
            });
        }
    }

    /// Waits until the process ends.
    pub fn wait(&mut self) -> ExitStatus {
        let ended = || self.child.try_wait().ok().flatten();
        eventually("the end of the mount process", ended, Option::is_some).expect("it has ended")
    }

    /// Waits until a killed process ends, and leaves its mount point to another process.
    pub fn forget(mut self) {
        let _ = self.child.wait();
        self.point = PathBuf::new();
    }

    /// Waits until the mount point is unmounted.
    pub fn is_gone(&self) {
        let mounted = || mounts_below(&self.point);
        eventually("an unmounted folder", mounted, Vec::is_empty);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.point.as_os_str().is_empty() {
            return;
        }
        // Not an assertion: the test may already be panicking.
        let end = Instant::now() + Duration::from_secs(20);
        while !mounts_below(&self.point).is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = unmount(&self.point, UnmountFlags::DETACH);
    }
}

/// A letter for the state of each thread, as in `/proc/PID/stat`.
fn thread_states(id: u32) -> String {
    let threads = fs::read_dir(format!("/proc/{id}/task"))
        .into_iter()
        .flatten();
    let stats =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    let state = |stat: String| {
        stat.rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next())
    };
    stats.filter_map(state).collect()
}
