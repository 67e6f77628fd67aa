//! Processes that replace a server during upgrades, and the service manager's side of it.
//!
//! They are not children of the test. Signals go to the latest of them, and all of them are ended
//! with the server.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The notification socket of a server, and the processes that have replaced it.
#[derive(Debug)]
pub(crate) struct Replacements {
    socket: UnixDatagram,
    path: PathBuf,
    processes: Vec<u32>,
}

impl Replacements {
    /// Creates the notification socket in `folder`.
    pub(crate) fn listen(folder: &Path) -> io::Result<Self> {
        let path = folder.join("notify");
        Ok(Self {
            socket: UnixDatagram::bind(&path)?,
            path,
            processes: Vec::new(),
        })
    }

    /// Value of the variable `NOTIFY_SOCKET`.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The current process, if it is not the one that was started.
    pub(crate) fn last(&self) -> Option<u32> {
        self.processes.last().copied()
    }

    /// Waits until another process is announced.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Result<u32, String> {
        let end = Instant::now() + timeout;
        let failed = |error: io::Error| format!("no process has replaced the server: {error}");
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let patience = Some(left.max(Duration::from_millis(1)));
            self.socket.set_read_timeout(patience).map_err(failed)?;
            let mut bytes = [0; 4096];
            let length = self.socket.recv(&mut bytes).map_err(failed)?;
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            let named = text.lines().find_map(|line| line.strip_prefix("MAINPID="));
            if let Some(process) = named.and_then(|process| process.parse().ok()) {
                self.processes.push(process);
                return Ok(process);
            }
        }
    }

    /// Ends all of them and waits for their exit.
    pub(crate) fn end(&self, timeout: Duration) {
        for signal in [Signal::TERM, Signal::KILL] {
            for process in self.processes.iter().filter(|process| is_alive(**process)) {
                if let Some(process) = Pid::from_raw(*process as i32) {
                    let _ = kill_process(process, signal);
                }
            }
            let end = Instant::now() + timeout;
            while Instant::now() < end {
                if !self.processes.iter().any(|process| is_alive(*process)) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            eprintln!("testkit: a process that replaced the server does not end");
        }
    }
}

/// Whether a process is running. An exited process may stay in the table as a zombie.
pub fn is_alive(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    status.is_ok_and(|status| !status.contains("\nState:\tZ"))
}
