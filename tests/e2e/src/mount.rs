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

/// A running mount. Killed when dropped, and then nothing may be mounted any more.
pub struct Mount {
    child: Child,
    point: PathBuf,
    log: PathBuf,
}

impl Mount {
    /// Whether mounts can be made here; if not, the test is noted as skipped.
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

    /// Mounts a tree at a folder that is made, with 64 MiB of memory.
    ///
    /// # Panics
    /// If it is not mounted.
    pub fn start(directory: &Path, point: &Path) -> Self {
        Self::start_with(directory, point, &["--memory", "64MiB"])
    }

    /// The same with other arguments.
    ///
    /// # Panics
    /// If it is not mounted.
    pub fn start_with(directory: &Path, point: &Path, arguments: &[&str]) -> Self {
        if fs::symlink_metadata(point).is_err() {
            let made = fs::create_dir(point);
            // One whose daemon is gone is there, and cannot be looked at.
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

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where it is.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// A file on it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    /// What it said.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn says(&self, words: &str) -> bool {
        self.log().contains(words)
    }

    /// How it is.
    pub fn status(&self) -> serde_json::Value {
        let mut command = Command::new(server::binary());
        command.args(["mount", "--status"]).arg(&self.point);
        let output = command.output().expect("started");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// What the engines have counted under that name, together.
    pub fn counter(&self, name: &str) -> u64 {
        let status = self.status();
        let devices = status["devices"].as_array().cloned().unwrap_or_default();
        let counts = devices
            .iter()
            .map(|device| device["counters"][name].as_u64());
        counts.flatten().sum()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// If the process is gone.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("an id"), signal).expect("sent");
    }

    /// Waits for the end of the process.
    pub fn wait(&mut self) -> ExitStatus {
        let ended = || self.child.try_wait().ok().flatten();
        eventually("the end of a mount", ended, Option::is_some).expect("it has ended")
    }

    /// Waits for the end of a process that was killed, and leaves what is mounted there to another one.
    pub fn forget(mut self) {
        let _ = self.child.wait();
        self.point = PathBuf::new();
    }

    /// Waits until nothing is mounted there.
    pub fn is_gone(&self) {
        let mounted = || mounts_below(&self.point);
        eventually("no mount", mounted, Vec::is_empty);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.point.as_os_str().is_empty() {
            return;
        }
        // Not by an assertion: a test may be failing already.
        let end = Instant::now() + Duration::from_secs(20);
        while !mounts_below(&self.point).is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = unmount(&self.point, UnmountFlags::DETACH);
    }
}
