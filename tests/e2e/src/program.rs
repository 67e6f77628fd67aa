//! Another server, as a child process that listens.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headlong_testkit::Scratch;

/// A program that listens; ended when dropped.
pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
    _scratch: Scratch,
}

impl Program {
    /// Starts it and waits until it listens. What it needs lies in `scratch`.
    pub(crate) fn start(
        scratch: Scratch,
        command: &mut Command,
        address: SocketAddr,
    ) -> std::io::Result<Self> {
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut program = Self {
            child,
            address,
            _scratch: scratch,
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
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
