//! `headlong disk control`: one command to a running emulated disk.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use headlong_units::Bytes;
use headlong_vdisk::control::{Command, FaultCommand, request};

/// Tells a running emulated disk what to do, or asks it. Answers are JSON.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  headlong disk control /run/red.sock timing off
  headlong disk control /run/red.sock counters
  headlong disk control /run/red.sock fault error 1GiB 1100MiB --once")]
pub(crate) struct Controlling {
    /// The socket the disk said it listens on
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    #[command(subcommand)]
    command: ControlCommand,
}

#[derive(Debug, Subcommand)]
enum ControlCommand {
    /// Requests take as long as the model says (on), or no time (off, for filling)
    Timing {
        /// on or off
        #[arg(value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::Set)]
        on: bool,
    },
    /// Requests, bytes, seeks, busy time and more, in model time; and how late answers were
    Counters,
    /// Begin all sums anew
    CountersReset,
    /// Write a line for every request into a file
    TraceStart {
        /// Replaced if it is there
        #[arg(value_name = "FILE")]
        path: PathBuf,
    },
    /// End the trace
    TraceStop,
    /// Let something go wrong from now on
    #[command(subcommand)]
    Fault(FaultKind),
    /// End a hang; other faults stay
    Release,
    /// End all faults
    FaultsClear,
    /// Write everything out, so that the store can be opened again whatever happens
    Sync,
    /// Mount the file system anew, so that nothing of it is cached
    Remount,
    /// Remember a text with the content
    Label {
        /// Any text
        text: String,
    },
    /// Device, mount, size, label and what is kept of the content
    Info,
    /// End the disk
    Stop,
}

#[derive(Debug, Subcommand)]
enum FaultKind {
    /// Reads that touch these bytes fail with EIO
    Error {
        /// First byte, such as 1GiB
        from: Bytes,
        /// First byte behind them
        to: Bytes,
        /// Only the first such read fails
        #[arg(long)]
        once: bool,
    },
    /// Nothing is answered until `release`
    Hang {
        /// Or for so many seconds of the wall's
        #[arg(long)]
        seconds: Option<f64>,
    },
    /// Every request takes this many times as long
    Slow {
        /// 1 is as modelled
        factor: f64,
    },
    /// Every request fails with EIO, as when the cable is pulled
    Vanish,
}

/// Sends it and prints the answer, if there is more to it than that it was done.
pub(crate) fn control(controlling: &Controlling) -> anyhow::Result<()> {
    let answer = request(&controlling.socket, &controlling.command.command()?)?;
    let is_empty = answer.as_object().is_none_or(serde_json::Map::is_empty);
    if !is_empty {
        let text = serde_json::to_string_pretty(&answer)?;
        match writeln!(std::io::stdout(), "{text}") {
            // Whoever reads had enough: not a failure of ours.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            other => other?,
        }
    }
    Ok(())
}

impl ControlCommand {
    fn command(&self) -> anyhow::Result<Command> {
        Ok(match self {
            Self::Timing { on } => Command::Timing { on: *on },
            Self::Counters => Command::Counters {},
            Self::CountersReset => Command::CountersReset {},
            // Ours, not where the disk was started.
            Self::TraceStart { path } => Command::TraceStart {
                path: std::path::absolute::<&Path>(path)?,
            },
            Self::TraceStop => Command::TraceStop {},
            Self::Fault(kind) => Command::Fault(kind.command()),
            Self::Release => Command::Release {},
            Self::FaultsClear => Command::FaultsClear {},
            Self::Sync => Command::Sync {},
            Self::Remount => Command::Remount {},
            Self::Label { text } => Command::Label { text: text.clone() },
            Self::Info => Command::Info {},
            Self::Stop => Command::Stop {},
        })
    }
}

impl FaultKind {
    fn command(&self) -> FaultCommand {
        match *self {
            Self::Error { from, to, once } => FaultCommand::Error {
                from_byte: from.0,
                to_byte: to.0,
                once,
            },
            Self::Hang { seconds } => FaultCommand::Hang { seconds },
            Self::Slow { factor } => FaultCommand::Slow { factor },
            Self::Vanish => FaultCommand::Vanish {},
        }
    }
}
