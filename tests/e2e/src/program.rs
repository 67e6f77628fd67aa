//! Another server as a child process with a listener.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headlong_testkit::Scratch;
use rustix::process::{Pid, Signal, kill_process};

/// A program with a listener; stopped when dropped.
pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
    scratch: Scratch,
}

impl Program {
    /// Starts it and waits until it listens. `scratch` holds its files.
    pub(crate) fn start(
        scratch: Scratch,
        command: &mut Command,
        address: SocketAddr,
    ) -> std::io::Result<Self> {
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut program = Self {
            child,
            address,
            scratch,
        };
        let end = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(address).is_err() {
            let has_ended = program.child.try_wait()?.is_some();
            if has_ended || Instant::now() > end {
                let text = format!("{command:?} does not listen");
                return Err(std::io::Error::other(text));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(program)
    }

    /// Folder of its files.
    pub(crate) fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // It may have ended.
        let _ = id.map(|id| kill_process(id, signal));
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // First a graceful stop, which also stops workers; then SIGKILL.
        self.signal(Signal::TERM);
        let end = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
