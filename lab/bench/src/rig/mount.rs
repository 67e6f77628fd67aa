//! Mounts a file system read-only, and guarantees a cold page cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::cleanup_guard::{CleanupGuard, ProcessContext};
use super::{RigError, with_path};

/// An unmount waits for the release of buffers.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// A read-only mount inside the bench's folder.
#[derive(Debug)]
pub(crate) struct ReadOnlyMount {
    guard: CleanupGuard,
    /// Device name, such as `loop0`.
    device: String,
    point: PathBuf,
    file_system: String,
}

impl ReadOnlyMount {
    pub(crate) fn new(guard: &CleanupGuard, device: &str, point: &Path, file_system: &str) -> Self {
        Self {
            guard: guard.clone(),
            device: device.to_owned(),
            point: point.to_path_buf(),
            file_system: file_system.to_owned(),
        }
    }

    /// Unmounts and mounts again, so that nothing of the file system is in the page cache.
    pub(crate) fn make_cold(&self) -> Result<(), RigError> {
        self.unmount()?;
        self.check_gone()?;
        // Pages of the block device itself: blocks read outside the file system. Only this device's,
        // because other runs on this machine measure what their page caches save.
        self.run(&["blockdev", "--flushbufs", &format!("/dev/{}", self.device)])?;
        // Nothing is written, not even access times: the next run finds the same drive.
        let options = match self.file_system.as_str() {
            "xfs" => "ro,noatime,norecovery",
            _ => "ro,noatime",
        };
        let device = format!("/dev/{}", self.device);
        let point = self.point.display().to_string();
        self.run(&[
            "mount",
            "-t",
            &self.file_system,
            "-o",
            options,
            &device,
            &point,
        ])
    }

    fn unmount(&self) -> Result<(), RigError> {
        let deadline = Instant::now() + PATIENCE;
        let point = self.point.display().to_string();
        loop {
            match self.run(&["umount", &point]) {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }

    /// Checks that no other mount keeps the file system, and with it the page cache, alive.
    fn check_gone(&self) -> Result<(), RigError> {
        let shown = format!("/sys/fs/{}/{}", self.file_system, self.device);
        let deadline = Instant::now() + PATIENCE;
        while Path::new(&shown).exists() {
            if Instant::now() > deadline {
                let device = &self.device;
                return Err(RigError::Machine(format!(
                    "{device} is still mounted elsewhere, so its page cache stays warm: find the \
                     process with `grep {device} /proc/*/mountinfo`"
                )));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn run(&self, words: &[&str]) -> Result<(), RigError> {
        run(&self.guard, words)
    }
}

/// Runs a short system program.
pub(crate) fn run(guard: &CleanupGuard, words: &[&str]) -> Result<(), RigError> {
    let words = with_path(words.iter().map(|word| (*word).to_owned()).collect());
    let child = guard.spawn(ProcessContext::PLAIN, &words, |command| {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    })?;
    let output = child.wait_with_output();
    let output = output.map_err(|error| RigError::io(&words[0], error))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(RigError::Failed {
            what: words.join(" "),
            words: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
    }
}

/// Stats every file and reads every extent list below `root`, so that they are in memory.
///
/// Extents of a file with little fragmentation are in its inode.
pub(crate) fn read_metadata(root: &Path) -> Result<u64, RigError> {
    let mut files = 0;
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let fail = |error| RigError::io(folder.display(), error);
        for entry in fs::read_dir(&folder).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let metadata = entry.metadata().map_err(fail)?;
            match metadata.is_dir() {
                true => folders.push(entry.path()),
                false => files += 1,
            }
        }
    }
    Ok(files)
}
