//! Control connection to an emulated drive: one line of JSON per request and per response.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::RigError;

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
