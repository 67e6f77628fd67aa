//! A reception, and one that is killed and restarted repeatedly.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use headlong_testkit::server;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};

use crate::eventually;

/// A running reception; killed when dropped.
pub struct Reception {
    child: Child,
    socket: PathBuf,
}

impl Reception {
    /// Starts one and waits until it listens.
    pub fn start(socket: &Path) -> Self {
        Self::start_with(socket, &[])
    }

    /// Like [`Reception::start`], with further arguments.
    pub fn start_with(socket: &Path, arguments: &[&str]) -> Self {
        let reception = Self::spawn(socket, arguments);
        let is_there = |is_there: &bool| *is_there;
        eventually("a reception", || listens(socket), is_there);
        reception
    }

    fn spawn(socket: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(server::binary());
        command.args(["reception", "--socket"]).arg(socket);
        if !arguments.contains(&"--memory") {
            command.args(["--memory", "64MiB"]);
        }
        command.args(arguments).stderr(Stdio::null());
        Self {
            child: command.spawn().expect("started"),
            socket: socket.to_owned(),
        }
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it (SIGKILL).
    pub fn kill(mut self) {
        self.end();
    }

    /// A counter of `calls` in its status.
    pub fn calls(&self, name: &str) -> u64 {
        self.status()["calls"][name].as_u64().unwrap_or(0)
    }

    /// Its status.
    pub fn status(&self) -> serde_json::Value {
        let mut command = Command::new(server::binary());
        command.args(["reception", "--status", "--socket"]);
        let output = command.arg(&self.socket).output().expect("started");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Reception {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether a reception accepts connections on this socket.
fn listens(path: &Path) -> bool {
    let Ok(address) = SocketAddrUnix::new(path) else {
        return false;
    };
    let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None);
    socket.is_ok_and(|socket| connect(&socket, &address).is_ok())
}

/// Runs `act` while a reception is started and killed repeatedly; `act` receives the number of
/// kills.
pub fn killed_all_the_time<R>(socket: &Path, act: impl FnOnce(&AtomicU32) -> R) -> R {
    let (is_over, kills) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut alive_ms = 0;
            while !is_over.load(Ordering::Relaxed) {
                let reception = Reception::spawn(socket, &[]);
                // Killed while it starts, just after its start, and after it has served for a
                // while.
                alive_ms = (alive_ms + 37) % 150;
                let end = std::time::Instant::now() + Duration::from_secs(20);
                while alive_ms > 20 && !listens(socket) && std::time::Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(2));
                }
                std::thread::sleep(Duration::from_millis(alive_ms));
                reception.kill();
                kills.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Also after a panic, or the thread would never end.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&kills)));
        is_over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
