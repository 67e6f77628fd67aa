//! The program that is to take this one's place: the same path, and the same arguments.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::error::UpgradeError;

/// Says to a process that it takes another's place, and which part of that it is.
pub(super) const VARIABLE: &str = "HEADLONG_UPGRADE";
/// It looks at the configuration, starts the process that will serve, and ends.
const CHECK: &str = "check";
/// It is to serve.
pub(super) const SERVE: &str = "serve";

/// What the old process starts; to be looked up while its own file is still what it was started from.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// This one.
    pub(crate) fn of_this_process() -> std::io::Result<Self> {
        Ok(Self {
            path: std::env::current_exe()?,
            arguments: std::env::args_os().skip(1).collect(),
        })
    }

    /// What is there by now, to look at its configuration first.
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
        // They are about the process before.
        for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
            command.env_remove(name);
        }
        command
    }
}

/// To be called once the configuration is found to be right. If this process was started only to look
/// at it, starts the one that will serve, which has the service manager for a parent as soon as
/// this one ends; then answers `true`, and there is nothing more to do.
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
