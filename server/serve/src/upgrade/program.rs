//! The program of the new process: the same path and arguments as this one.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::error::UpgradeError;

/// Environment variable that marks a process as part of an upgrade, with its role.
pub(super) const VARIABLE: &str = "HEADLONG_UPGRADE";
/// Role: check the configuration, start the serving process, and exit.
const CHECK: &str = "check";
/// Role: serve.
pub(super) const SERVE: &str = "serve";

/// The program to start. Must be determined while this process's executable is still in place.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// The program of this process.
    pub(crate) fn of_this_process() -> std::io::Result<Self> {
        Ok(Self {
            path: std::env::current_exe()?,
            arguments: std::env::args_os().skip(1).collect(),
        })
    }

    /// Starts the program now at that path, first to check its configuration.
    pub(super) fn start(&self, channel: OwnedFd) -> Result<Child, UpgradeError> {
        let mut command = self.command(CHECK);
        let started = command.stdin(Stdio::from(channel)).spawn();
        started.map_err(|source| UpgradeError::Start {
            path: self.path.display().to_string(),
            source,
        })
    }

    fn command(&self, part: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).env(VARIABLE, part);
        // These variables refer to the previous process.
        for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
            command.env_remove(name);
        }
        command
    }
}

/// Must be called once the configuration was found valid. If this process was started only for that
/// check, starts the serving process, whose parent becomes the service manager when this process
/// exits, and returns `true`: the caller must exit.
///
/// # Errors
/// If the process cannot be started.
pub fn step_aside() -> std::io::Result<bool> {
    if std::env::var_os(VARIABLE).is_none_or(|part| part != CHECK) {
        return Ok(false);
    }
    Program::of_this_process()?.command(SERVE).spawn()?;
    Ok(true)
}
