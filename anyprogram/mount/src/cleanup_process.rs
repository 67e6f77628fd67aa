//! Cleanup process beside a mount: unmounts it however its daemon ends.
//!
//! It holds one end of a pipe whose other end only the daemon has, so the pipe closes when the
//! daemon exits. Signals to the daemon's process group, such as Ctrl-C, do not reach it. It
//! unmounts only a mount of ours whose daemon is dead.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::point::{RecoveryResult, is_ours, recover};

/// The subcommand that starts it.
pub const VERB: &str = "mount-keeper";
/// The kernel may take a moment to notice that the daemon has exited.
const TRIES_MAX: u32 = 50;
const TRY_INTERVAL: Duration = Duration::from_millis(100);

/// The cleanup process. It ends with the daemon.
#[derive(Debug)]
pub(crate) struct CleanupProcess(Child);

impl CleanupProcess {
    /// Starts the process. The daemon must not have mounted yet, or the process would keep the
    /// mount busy.
    ///
    /// # Errors
    /// If the program cannot be executed again.
    pub(crate) fn start(mount_point: &Path) -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("headlong")
            .arg(VERB)
            .arg(mount_point)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // It must not keep the daemon's working directory busy.
            .current_dir("/")
            .process_group(0);
        Ok(Self(command.spawn()?))
    }

    /// Makes the process check once more, and waits for it.
    pub(crate) fn finish(mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Main function of the process: waits for the daemon that started it to end, and unmounts its
/// mount.
///
/// # Errors
/// If signals cannot be caught, or unmounting fails.
pub fn run_cleanup(mount_point: &Path) -> io::Result<()> {
    let caught = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGHUP,
    ] {
        // These signals are for the daemon; this process ends with it.
        signal_hook::flag::register(signal, Arc::clone(&caught))?;
    }
    // The pipe carries no data.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    for _ in 0..TRIES_MAX {
        match recover(mount_point) {
            RecoveryResult::Yes => return Ok(()),
            // Either not yet noticed as dead, or already a live mount of another daemon.
            RecoveryResult::Nothing if is_ours(mount_point) => {}
            RecoveryResult::Nothing => return Ok(()),
            RecoveryResult::Not(why) => return Err(io::Error::other(why)),
        }
        std::thread::sleep(TRY_INTERVAL);
    }
    Ok(())
}
