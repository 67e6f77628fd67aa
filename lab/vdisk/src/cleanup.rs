//! Guardian: a small process beside each scratch directory that outlives its owner and cleans up
//! after it.
//!
//! It holds one end of a pipe whose other end only the owner has: however that process ends, the
//! pipe closes, and the guardian ends the programs recorded in the directory, unmounts, detaches
//! and deletes. It knows no other directory, so it cannot harm another run. A signal to the owner's
//! process group, such as Ctrl-C, does not reach it.
//!
//! It is a script because the owner may be a test binary, which cannot be started again as
//! something else. The same script cleans up when the owner ends in order, and after dead runs that
//! [`crate::scratch`] finds, so there is only one implementation. It needs bash for `read` with a
//! timeout.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const GUARD: &str = include_str!("guardian.sh");
const LAUNCH: &str = include_str!("launch.sh");
/// Name of the record of processes in a scratch directory: a process id and its start time per
/// line.
const RECORD: &str = "processes";

/// The guardian of one directory.
#[derive(Debug)]
pub(crate) struct CleanupProcess(Child);

impl CleanupProcess {
    /// Starts the guardian; the directory need not exist yet.
    pub(crate) fn start(directory: &Path) -> io::Result<Self> {
        let mut command = guard(directory);
        command.arg(std::process::id().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Self(command.spawn()?))
    }

    /// Triggers the cleanup and waits for it; returns what it did besides deleting the directory.
    pub(crate) fn finish(self) -> Vec<String> {
        // Closes the pipe.
        lines(self.0.wait_with_output())
    }
}

/// Cleans up the directory of a dead owner; returns what it did besides deleting it.
pub(crate) fn clean_up(directory: &Path) -> Vec<String> {
    lines(guard(directory).stdin(Stdio::null()).output())
}

/// A program that ends with the directory. The spawned process records itself and then becomes the
/// program.
pub(crate) fn command(directory: &Path, program: &OsStr) -> Command {
    launch(directory, std::process::id(), program)
}

fn launch(directory: &Path, owner: u32, program: &OsStr) -> Command {
    let mut command = Command::new("bash");
    command
        .args(["-c", LAUNCH, "launch"])
        .arg(directory.join(RECORD))
        .arg(owner.to_string())
        .arg(program);
    command
}

fn guard(directory: &Path) -> Command {
    let mut command = Command::new("bash");
    command
        .args(["-c", GUARD, "guardian"])
        .arg(directory)
        // It must not keep the owner's working directory in use.
        .current_dir("/")
        .stderr(Stdio::null())
        .process_group(0);
    command
}

fn lines(output: io::Result<std::process::Output>) -> Vec<String> {
    match output {
        Ok(output) => String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(str::to_owned)
            .collect(),
        Err(error) => vec![format!("cannot run bash to clean up: {error}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn launched_program_keeps_arguments_and_process_id() {
        let scratch = Scratch::new("launch").expect("directory");
        let output = scratch
            .command("sh")
            .args(["-c", "echo $$ \"$@\"", "sh", "a b", "*", ""])
            .output()
            .expect("bash");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let (pid, arguments) = said.split_once(' ').expect("two words");
        assert_eq!(arguments, "a b * \n");
        let record = std::fs::read_to_string(scratch.path().join(RECORD)).expect("a record");
        assert_eq!(record.split(' ').next(), Some(pid));
    }

    #[test]
    fn program_of_dead_owner_is_not_started() {
        let scratch = Scratch::new("launch").expect("directory");
        let made = scratch.path().join("made");
        // Simulates a parent that has changed since.
        let mut late = launch(scratch.path(), std::process::id() + 1, OsStr::new("touch"));
        assert!(!late.arg(&made).status().expect("bash").success());
        assert!(!made.exists());
        let mut deleted = launch(&made, std::process::id(), OsStr::new("touch"));
        deleted.arg(&made).stderr(Stdio::null());
        assert!(!deleted.status().expect("bash").success());
        assert!(!made.exists());
    }
}
