//! Client of the control socket: sends one command, receives one answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use super::protocol::ControlCommand;
use crate::error::Error;

/// Sends a command to the disk that listens at `socket`; returns its answer, without the `ok`.
///
/// # Errors
/// If no disk listens there, or it refuses the command.
pub fn request(socket: &Path, command: &ControlCommand) -> Result<Value, Error> {
    let doing = || format!("sending a command to the disk at {}", socket.display());
    let line = serde_json::to_string(command).map_err(|error| Error::Refused(error.to_string()))?;
    let mut stream = UnixStream::connect(socket).map_err(Error::system(doing()))?;
    writeln!(stream, "{line}").map_err(Error::system(doing()))?;
    let mut answer = String::new();
    BufReader::new(stream)
        .read_line(&mut answer)
        .map_err(Error::system(doing()))?;
    let mut answer: Value = serde_json::from_str(&answer)
        .map_err(|error| Error::Refused(format!("{}: invalid answer: {error}", doing())))?;
    let fields = answer.as_object_mut();
    match fields.and_then(|fields| fields.remove("ok")) {
        Some(Value::Bool(true)) => Ok(answer),
        _ => {
            let text = answer["error"]
                .as_str()
                .unwrap_or("the disk refused the command")
                .to_owned();
            Err(Error::Refused(text))
        }
    }
}
