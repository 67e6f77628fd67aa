//! A small process beside a mount that outlives its daemon: however that ends, the mount goes.
//!
//! It holds one end of a pipe whose other end only the daemon has, so the pipe closes when that
//! process ends. A signal to the daemon's group, such as Ctrl-C, does not reach it. It takes off only
//! a mount of ours whose daemon is gone.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::point::{Recovered, is_ours, recover};

/// The verb of the program by which it is started.
pub const VERB: &str = "mount-keeper";
/// The kernel may take a moment to find that the daemon is gone.
const TRIES_MAX: u32 = 50;
const TRY_INTERVAL: Duration = Duration::from_millis(100);

/// The process beside a mount. It ends with the daemon.
#[derive(Debug)]
pub(crate) struct Keeper(Child);

impl Keeper {
    /// Starts it. The daemon must not have mounted yet, or the keeper would hold what is mounted.
    ///
    /// # Errors
    /// If the program cannot be started again.
    pub(crate) fn start(mount_point: &Path) -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("headlong")
            .arg(VERB)
            .arg(mount_point)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // It must not hold on to where the daemon was started.
            .current_dir("/")
            .process_group(0);
        Ok(Self(command.spawn()?))
    }

    /// Lets it look once more, and waits for it.
    pub(crate) fn finish(mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// What the process does: waits for the end of the daemon that started it, and takes off its mount.
///
/// # Errors
/// If signals cannot be caught, or the mount does not go.
pub fn keep(mount_point: &Path) -> io::Result<()> {
    let caught = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGHUP,
    ] {
        // They are for the daemon, with which this process ends.
        signal_hook::flag::register(signal, Arc::clone(&caught))?;
    }
    // Nothing is ever written to it.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    for _ in 0..TRIES_MAX {
        match recover(mount_point) {
            Recovered::Yes => return Ok(()),
            // Or it is another daemon's by now, and lives.
            Recovered::Nothing if is_ours(mount_point) => {}
            Recovered::Nothing => return Ok(()),
            Recovered::Not(why) => return Err(io::Error::other(why)),
        }
        std::thread::sleep(TRY_INTERVAL);
    }
    Ok(())
}
