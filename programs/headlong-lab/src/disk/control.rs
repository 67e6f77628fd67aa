//! `headlong disk control`: one command to a running emulated disk.

use std::path::PathBuf;

use headlong_vdisk::control::{ControlCommand, request};

use crate::output::print_line;

/// Sends a command or query to a running emulated disk. Replies are JSON.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  headlong disk control /run/red.sock timing off
  headlong disk control /run/red.sock counters
  headlong disk control /run/red.sock fault error 1GiB 1100MiB --once")]
pub(crate) struct ControlArgs {
    /// Control socket of the disk
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    #[command(subcommand)]
    command: ControlCommand,
}

/// Sends the command and prints the reply, unless it is a plain confirmation.
pub(crate) fn control(controlling: &ControlArgs) -> anyhow::Result<()> {
    let mut command = controlling.command.clone();
    if let ControlCommand::TraceStart { path } = &mut command {
        // Relative to our working directory, not to that of the emulator.
        *path = std::path::absolute(&*path)?;
    }
    let answer = request(&controlling.socket, &command)?;
    match answer.as_object().is_none_or(serde_json::Map::is_empty) {
        true => Ok(()),
        false => print_line(&serde_json::to_string_pretty(&answer)?),
    }
}
