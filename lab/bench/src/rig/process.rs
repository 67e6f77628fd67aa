//! A child process of the bench, and the end of its standard error; a read-only mount.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use headlong_report::say;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::cleanup_guard::{CleanupGuard, ProcessContext};
use super::{RigError, with_path};

/// Lines of standard error that are kept.
const LAST_WORDS_LINES: usize = 40;
/// Timeout after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// A running process; killed when dropped.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    name: String,
    child: Child,
    words: Arc<Mutex<VecDeque<String>>>,
    listener: Option<JoinHandle<()>>,
}

/// Handling of a process's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StderrHandling {
    /// The last lines of standard error are kept.
    Kept,
    /// Standard error is also printed, line by line.
    Shown,
}

impl ChildProcess {
    pub(crate) fn start(
        guard: &CleanupGuard,
        start: ProcessContext<'_>,
        words: &[String],
        output: StderrHandling,
    ) -> Result<Self, RigError> {
        let mut child = guard.spawn(start, words, |command| {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        })?;
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let listener = child.stderr.take().map(|stderr| {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || listen(stderr, &kept, output))
        });
        Ok(Self {
            name: words.first().cloned().unwrap_or_default(),
            child,
            words: kept,
            listener,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Standard output, once. If it is not taken, the program must print little.
    pub(crate) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Reads and discards its standard output, so that the pipe never fills.
    pub(crate) fn drain(&mut self) {
        if let Some(mut stdout) = self.child.stdout.take() {
            std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        }
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        // An error means that it is no longer a child: it has ended.
        self.child.try_wait().unwrap_or_default()
    }

    /// The end of its standard error; complete once it has ended.
    pub(crate) fn last_words(&self) -> String {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Waits for its end, up to a timeout.
    pub(crate) fn wait(&mut self, patience: Duration) -> Result<ExitStatus, RigError> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.ended() {
                self.join();
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(RigError::Stuck {
                    what: self.name.clone(),
                    seconds: patience.as_secs(),
                    words: self.last_words(),
                });
            }
            std::thread::sleep(POLL);
        }
    }

    /// Runs a program to its end; fails if it times out or reports an error.
    pub(crate) fn complete(
        guard: &CleanupGuard,
        words: &[String],
        output: StderrHandling,
        patience: Duration,
    ) -> Result<(), RigError> {
        let mut process = Self::start(guard, ProcessContext::PLAIN, words, output)?;
        process.drain();
        if process.wait(patience)?.success() {
            return Ok(());
        }
        let (what, words) = (words.join(" "), process.last_words());
        Err(RigError::Failed { what, words })
    }

    /// Waits until it serves, up to a timeout; `line` is its command line.
    pub(crate) fn wait_until(
        &mut self,
        line: &str,
        patience: Duration,
        serves: impl Fn() -> bool,
    ) -> Result<(), RigError> {
        let deadline = Instant::now() + patience;
        while !serves() {
            let ended = self.ended();
            if ended.is_some() || Instant::now() > deadline {
                self.stop();
                let how = ended.map_or("does not listen".into(), |status| status.to_string());
                return Err(RigError::Failed {
                    what: format!("{line}: {how}:"),
                    words: self.last_words(),
                });
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Terminates it, and kills it after a timeout.
    pub(crate) fn stop(&mut self) {
        if self.ended().is_none() {
            if let Some(pid) = self.pid() {
                let _ = kill_process(pid, Signal::TERM);
            }
            if self.wait(PATIENCE).is_err() {
                self.kill();
            }
        }
        self.join();
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Kills it with its process group: killing only the leader would leave its children running.
    fn kill(&mut self) {
        if let Some(pid) = self.pid() {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn join(&mut self) {
        // A child of its own may still hold the pipe; then the remaining output is abandoned.
        if let Some(listener) = self.listener.take_if(|listener| listener.is_finished()) {
            let _ = listener.join();
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.kill();
        }
    }
}

fn listen(stream: impl Read, kept: &Mutex<VecDeque<String>>, output: StderrHandling) {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    // Bounded: a line without end must not fill the memory.
    while matches!(
        reader.by_ref().take(1 << 16).read_until(b'\n', &mut line),
        Ok(1..)
    ) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        line.clear();
        if output == StderrHandling::Shown {
            say!("{text}");
        }
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == LAST_WORDS_LINES {
            kept.pop_front();
        }
        kept.push_back(text);
    }
}

/// An unmount waits for the release of buffers.
const UNMOUNT_PATIENCE: Duration = Duration::from_secs(30);
const UNMOUNT_POLL: Duration = Duration::from_millis(50);

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
        let deadline = Instant::now() + UNMOUNT_PATIENCE;
        let point = self.point.display().to_string();
        loop {
            match self.run(&["umount", &point]) {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::sleep(UNMOUNT_POLL),
            }
        }
    }

    /// Checks that no other mount keeps the file system, and with it the page cache, alive.
    fn check_gone(&self) -> Result<(), RigError> {
        let shown = format!("/sys/fs/{}/{}", self.file_system, self.device);
        let deadline = Instant::now() + UNMOUNT_PATIENCE;
        while Path::new(&shown).exists() {
            if Instant::now() > deadline {
                let device = &self.device;
                return Err(RigError::Machine(format!(
                    "{device} is still mounted elsewhere, so its page cache stays warm: find the \
                     process with `grep {device} /proc/*/mountinfo`"
                )));
            }
            std::thread::sleep(UNMOUNT_POLL);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kill_also_ends_child_processes() {
        let guard = CleanupGuard::start().expect("a guardian");
        let script = "sleep 60 & echo $!; wait".to_owned();
        let words = ["sh", "-c", &script].map(str::to_owned);
        let mut shell =
            ChildProcess::start(&guard, ProcessContext::PLAIN, &words, StderrHandling::Kept)
                .expect("a shell");
        let mut line = String::new();
        let stdout = shell.stdout().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let sleeper = line.trim().parse().ok().and_then(Pid::from_raw);
        let sleeper = sleeper.expect("a process id");
        drop(shell);
        let deadline = Instant::now() + UNMOUNT_PATIENCE;
        // The process that inherits orphans may reap it later.
        while is_running(sleeper) {
            assert!(Instant::now() < deadline, "the child is still running");
            std::thread::sleep(UNMOUNT_POLL);
        }
    }

    fn is_running(pid: Pid) -> bool {
        let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
        let stat = fs::read_to_string(path).unwrap_or_default();
        let state = stat
            .rsplit_once(") ")
            .map(|(_, fields)| fields.chars().next());
        !matches!(state, None | Some(None | Some('Z' | 'X')))
    }
}
