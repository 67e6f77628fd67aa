//! A running emulated drive, for any use.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ChildStdout;
use std::time::Duration;

use serde_json::{Value, json};

use super::RigError;
use super::cleanup_guard::{CleanupGuard, ProcessContext, ProcessKind};
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

/// Flushing a filled file system may take long.
const PATIENCE: Duration = Duration::from_secs(300);

/// The connection.
#[derive(Debug)]
pub(crate) struct ControlConnection(BufReader<UnixStream>);

impl ControlConnection {
    pub(crate) fn connect(socket: &Path) -> Result<Self, RigError> {
        let stream = UnixStream::connect(socket);
        let stream = stream.and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        });
        let stream = stream.map_err(|error| RigError::io(socket.display(), error))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a request; a response that is not `ok` is an error.
    pub(crate) fn ask(&mut self, question: &Value) -> Result<Value, RigError> {
        let fail = |error| RigError::io("the emulated drive's control socket", error);
        let line = format!("{question}\n");
        self.0.get_mut().write_all(line.as_bytes()).map_err(fail)?;
        let mut answer = String::new();
        self.0.read_line(&mut answer).map_err(fail)?;
        let value: Value = serde_json::from_str(&answer).unwrap_or_default();
        match value["ok"].as_bool() {
            Some(true) => Ok(value),
            _ => Err(RigError::Answer {
                what: format!("the emulated drive, asked {question},"),
                answer: answer.trim().to_owned(),
            }),
        }
    }

    /// Turns the drive's timing on or off.
    pub(crate) fn timing(&mut self, on: bool) -> Result<(), RigError> {
        self.ask(&json!({ "do": "timing", "on": on })).map(drop)
    }

    /// Resets the counters of lateness.
    pub(crate) fn forget_lateness(&mut self) -> Result<(), RigError> {
        self.ask(&json!({ "do": "lateness_reset" })).map(drop)
    }
}
