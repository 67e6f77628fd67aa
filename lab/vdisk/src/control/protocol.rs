//! Commands of the control socket, and their execution.

use std::path::PathBuf;
use std::time::Duration;

use headlong_units::{Bytes, Duration as ModelTime, ParseError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::stop::StopSignal;
use crate::disk_components::DiskComponents;
use crate::disk_file::DiskFile;
use crate::error::Error;
use crate::fault::Fault;

/// A command, in the JSON protocol and on the command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Subcommand)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlCommand {
    /// Make requests take the modelled time (on) or no time (off, for filling)
    Timing {
        /// on or off
        #[arg(value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::Set)]
        on: bool,
    },
    /// Show requests, bytes, seeks, busy time and more, in model time, and the lateness of answers
    Counters {},
    /// Reset all counters
    CountersReset {},
    /// Reset the lateness of answers; the other counters continue
    #[command(skip)]
    LatenessReset {},
    /// Write a line for every request to a file
    TraceStart {
        /// Replaced if it exists
        // Relative to the directory in which the disk was started.
        #[arg(value_name = "FILE")]
        path: PathBuf,
    },
    /// End the trace
    // The answer has the number of traced requests.
    TraceStop {},
    /// Inject a fault
    #[command(subcommand)]
    Fault(FaultCommand),
    /// End a hang; other faults stay
    Release {},
    /// End all faults
    FaultsClear {},
    /// Write all data out, so that the store can be reopened even after a crash
    Sync {},
    /// Remount the file system, so that nothing of it is cached
    Remount {},
    /// Store a label with the content
    Label {
        /// Text of the label
        text: String,
    },
    /// Show device, mount, size, label and use of the store
    Info {},
    /// Stop the disk
    Stop {},
}

/// A fault, in the JSON protocol and on the command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Subcommand)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultCommand {
    /// Reads that touch these bytes fail with EIO
    Error {
        /// First byte, such as 1GiB
        #[arg(value_name = "FROM", value_parser = bytes)]
        from_byte: u64,
        /// First byte after them
        #[arg(value_name = "TO", value_parser = bytes)]
        to_byte: u64,
        /// Only the first such read fails
        #[arg(long)]
        #[serde(default)]
        once: bool,
    },
    /// Requests hang until `release`
    Hang {
        /// Or for this wall time, such as 2s
        #[arg(value_name = "TIME", value_parser = seconds)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
    },
    /// Every request takes this many times as long
    Slow {
        /// 1 is the modelled time
        factor: f64,
    },
    /// Every request fails with EIO, as when the cable is pulled
    Vanish {},
    /// Every write fails with EIO, as on a worn-out SSD
    ReadOnly {},
    /// One bit of each sector of these bytes is flipped when read
    Flip {
        /// First byte, such as 1GiB
        #[arg(value_name = "FROM", value_parser = bytes)]
        from_byte: u64,
        /// First byte after them
        #[arg(value_name = "TO", value_parser = bytes)]
        to_byte: u64,
    },
}

fn bytes(text: &str) -> Result<u64, ParseError> {
    text.parse().map(|Bytes(bytes)| bytes)
}

fn seconds(text: &str) -> Result<f64, ParseError> {
    text.parse().map(|time: ModelTime| time.as_secs_f64())
}

impl FaultCommand {
    /// Converts to a fault.
    ///
    /// # Errors
    /// If a number is invalid.
    pub fn fault(&self) -> Result<Fault, Error> {
        let refuse = |text: String| Err(Error::Refused(text));
        match *self {
            Self::Error {
                from_byte, to_byte, ..
            }
            | Self::Flip { from_byte, to_byte }
                if from_byte >= to_byte =>
            {
                refuse(format!(
                    "from_byte {from_byte} is not below to_byte {to_byte}"
                ))
            }
            Self::Error {
                from_byte,
                to_byte,
                once,
            } => Ok(Fault::Error {
                bytes: from_byte..to_byte,
                once,
            }),
            Self::Hang { seconds } => match seconds.map(Duration::try_from_secs_f64).transpose() {
                Ok(length) => Ok(Fault::Hang(length)),
                Err(error) => refuse(format!("seconds: {error}")),
            },
            Self::Slow { factor } if factor.is_finite() && factor > 0.0 => Ok(Fault::Slow(factor)),
            Self::Slow { factor } => refuse(format!("factor {factor} is not above 0")),
            Self::Vanish {} => Ok(Fault::Vanish),
            Self::ReadOnly {} => Ok(Fault::ReadOnly),
            Self::Flip { from_byte, to_byte } => Ok(Fault::Flip(from_byte..to_byte)),
        }
    }
}

/// Executes the command in a line and returns the answer.
pub(super) fn handle_line(line: &str, parts: &DiskComponents, stop: &StopSignal) -> Value {
    let command = match serde_json::from_str(line) {
        Ok(command) => command,
        Err(error) => return refusal(&format!("not a command: {error}")),
    };
    match handle(command, parts, stop) {
        Ok(mut answer) => {
            answer.insert("ok".to_owned(), true.into());
            Value::Object(answer)
        }
        Err(error) => refusal(&error.to_string()),
    }
}

pub(super) fn refusal(error: &str) -> Value {
    json!({ "ok": false, "error": error })
}

fn handle(
    command: ControlCommand,
    parts: &DiskComponents,
    stop: &StopSignal,
) -> Result<Map<String, Value>, Error> {
    let file = &parts.file;
    let mut answer = Map::new();
    match command {
        ControlCommand::Timing { on } => file.switch_timing(on),
        ControlCommand::Counters {} => {
            answer.insert("counters".to_owned(), value(&file.counters())?);
        }
        ControlCommand::CountersReset {} => file.reset_counters(),
        ControlCommand::LatenessReset {} => file.reset_lateness(),
        ControlCommand::TraceStart { path } => file.start_trace(&path)?,
        ControlCommand::TraceStop {} => {
            answer.insert("requests".to_owned(), file.stop_trace()?.into());
        }
        ControlCommand::Fault(fault) => add_fault(file, fault.fault()?)?,
        ControlCommand::Release {} => file.release(),
        ControlCommand::FaultsClear {} => file.clear_faults(),
        ControlCommand::Sync {} => parts.sync()?,
        ControlCommand::Remount {} => parts.remount()?,
        ControlCommand::Label { text } => parts.set_label(text)?,
        ControlCommand::Info {} => {
            answer.insert("info".to_owned(), value(&parts.info())?);
        }
        ControlCommand::Stop {} => stop.set(),
    }
    Ok(answer)
}

fn add_fault(file: &DiskFile, fault: Fault) -> Result<(), Error> {
    if let Some(beyond) = fault.beyond(file.size_bytes()) {
        return Err(Error::Refused(beyond));
    }
    file.add_fault(fault);
    Ok(())
}

fn value(of: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(of).map_err(|error| Error::Refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ControlCommand, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn commands_match_manual() {
        let cases = [
            (
                r#"{"do":"timing","on":false}"#,
                ControlCommand::Timing { on: false },
            ),
            (r#"{"do":"counters"}"#, ControlCommand::Counters {}),
            (
                r#"{"do":"fault","kind":"error","from_byte":1,"to_byte":2,"once":true}"#,
                ControlCommand::Fault(FaultCommand::Error {
                    from_byte: 1,
                    to_byte: 2,
                    once: true,
                }),
            ),
            (
                r#"{"do":"fault","kind":"hang"}"#,
                ControlCommand::Fault(FaultCommand::Hang { seconds: None }),
            ),
            (
                r#"{"do":"fault","kind":"vanish"}"#,
                ControlCommand::Fault(FaultCommand::Vanish {}),
            ),
        ];
        for (text, command) in cases {
            assert_eq!(parse(text).as_ref(), Ok(&command), "{text}");
            let again = serde_json::to_string(&command).expect("serializable");
            assert_eq!(parse(&again), Ok(command));
        }
    }

    #[test]
    fn unknown_command_lists_known_ones() {
        let error = parse(r#"{"do":"counter"}"#).expect_err("unknown");
        for known in [
            "timing",
            "counters_reset",
            "lateness_reset",
            "trace_start",
            "faults_clear",
            "stop",
        ] {
            assert!(error.contains(known), "{error}");
        }
        let error = parse(r#"{"do":"fault","kind":"melt"}"#).expect_err("unknown");
        assert!(error.contains("vanish"), "{error}");
    }

    #[test]
    fn unknown_fields_are_rejected() {
        let wrong = [
            r#"{"do":"timing","on":true,"of":false}"#,
            r#"{"do":"counters","reset":true}"#,
            r#"{"do":"timing"}"#,
            r#"{"do":"fault","kind":"slow"}"#,
            r#"{"do":"fault","kind":"hang","second":3}"#,
            "{}",
            "stop",
            "",
        ];
        for text in wrong {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn faults_with_invalid_numbers_are_rejected() {
        for fault in [
            FaultCommand::Error {
                from_byte: 2,
                to_byte: 2,
                once: false,
            },
            FaultCommand::Flip {
                from_byte: 2,
                to_byte: 1,
            },
            FaultCommand::Hang {
                seconds: Some(-1.0),
            },
            FaultCommand::Slow { factor: 0.0 },
            FaultCommand::Slow { factor: f64::NAN },
        ] {
            assert!(fault.fault().is_err(), "{fault:?}");
        }
    }
}
