//! A small process beside each scratch directory that outlives its owner and cleans up after it.
//!
//! It holds one end of a pipe whose other end only the owner has: however that process ends, the
//! pipe closes, and the guardian ends the programs recorded in the directory, unmounts, detaches and
//! deletes. It knows no other directory, so it can harm no other run. A signal to the owner's
//! process group, such as Ctrl-C, does not reach it.
//!
//! It is a script and not this code because the owner may be a test binary, which cannot be started
//! again as something else; the same script removes what is left when the owner ends in order, and
//! what [`crate::scratch`] finds of dead runs, so that there is one way to clean up. bash, because its `read` can wait for
//! a limited time.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const GUARD: &str = include_str!("guardian.sh");
const LAUNCH: &str = include_str!("launch.sh");
/// Name of the record of processes in a scratch directory: a process id and its start time a line.
const RECORD: &str = "processes";

/// The process beside one directory.
#[derive(Debug)]
pub(crate) struct Guardian(Child);

impl Guardian {
    /// Starts it; the directory need not exist yet.
    pub(crate) fn start(directory: &Path) -> io::Result<Self> {
        let mut command = guard(directory);
        command.arg(std::process::id().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Self(command.spawn()?))
    }

    /// Lets it clean up now, and waits for it; what it had to do besides deleting the directory.
    pub(crate) fn finish(self) -> Vec<String> {
        // This closes the pipe.
        lines(self.0.wait_with_output())
    }
}

/// Cleans up a directory whose owner is dead; what there was to do besides deleting it.
pub(crate) fn clean_up(directory: &Path) -> Vec<String> {
    lines(guard(directory).stdin(Stdio::null()).output())
}

/// A program that is ended with the directory. Its process is the one that is spawned: the recording
/// becomes the program.
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
        // It must not hold on to where its owner was started.
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
    fn a_launched_program_keeps_its_arguments_and_is_recorded_as_itself() {
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
    fn a_program_whose_owner_is_gone_is_not_started() {
        let scratch = Scratch::new("launch").expect("directory");
        let made = scratch.path().join("made");
        // Our parent's number stands for one that is not the launcher's parent any more.
        let mut late = launch(scratch.path(), std::process::id() + 1, OsStr::new("touch"));
        assert!(!late.arg(&made).status().expect("bash").success());
        assert!(!made.exists());
        let mut deleted = launch(&made, std::process::id(), OsStr::new("touch"));
        deleted.arg(&made).stderr(Stdio::null());
        assert!(!deleted.status().expect("bash").success());
        assert!(!made.exists());
    }
}
