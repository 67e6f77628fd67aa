//! A running emulated drive, for any use.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::ChildStdout;

use serde_json::{Value, json};

use super::RigError;
use super::cleanup_guard::{CleanupGuard, ProcessContext, ProcessKind};
use super::control::ControlConnection;
use super::process::{ChildProcess, StderrHandling};

const PROGRAM: &str = "headlong disk emulate";

/// The drive; it is terminated when dropped.
#[derive(Debug)]
pub(crate) struct EmulatedDrive {
    process: ChildProcess,
    pub(crate) control: ControlConnection,
    /// Device name, such as `loop0`.
    pub(crate) device: String,
    /// Kept open, so that the process can continue to print.
    _stdout: BufReader<ChildStdout>,
}

impl EmulatedDrive {
    /// Starts it with its control socket at `socket`, and waits until it is ready.
    pub(crate) fn start(
        guard: &CleanupGuard,
        command: &[String],
        socket: &Path,
    ) -> Result<Self, RigError> {
        let start = ProcessContext {
            kind: ProcessKind::Disk,
            ..ProcessContext::PLAIN
        };
        let mut process = ChildProcess::start(guard, start, command, StderrHandling::Kept)?;
        let (ready, stdout) = ready_line(&mut process)?;
        let device = ready["device"].as_str();
        let device = device.and_then(|path| path.strip_prefix("/dev/"));
        let device = device.ok_or_else(|| RigError::Answer {
            what: PROGRAM.into(),
            answer: ready.to_string(),
        })?;
        Ok(Self {
            control: ControlConnection::connect(socket)?,
            process,
            device: device.to_owned(),
            _stdout: stdout,
        })
    }

    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    /// Its current counters.
    pub(crate) fn counters(&mut self) -> Result<Value, RigError> {
        self.control.ask(&json!({ "do": "counters" }))
    }

    /// Resets its counters.
    pub(crate) fn reset_counters(&mut self) -> Result<(), RigError> {
        self.control
            .ask(&json!({ "do": "counters_reset" }))
            .map(drop)
    }
}

impl Drop for EmulatedDrive {
    fn drop(&mut self) {
        self.process.stop();
    }
}

/// Reads the line of JSON by which the drive reports that it is ready.
fn ready_line(process: &mut ChildProcess) -> Result<(Value, BufReader<ChildStdout>), RigError> {
    let mut line = String::new();
    if let Some(stdout) = process.stdout() {
        let mut stdout = BufReader::new(stdout);
        let read = stdout.read_line(&mut line);
        read.map_err(|error| RigError::io(PROGRAM, error))?;
        let value: Value = serde_json::from_str(&line).unwrap_or_default();
        if value["ready"] == true {
            return Ok((value, stdout));
        }
    }
    process.stop();
    Err(RigError::Failed {
        what: PROGRAM.into(),
        words: process.last_words(),
    })
}
