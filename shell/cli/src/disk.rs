//! `headlong disk`: drives that are not there, and what is known about those that are.

mod control;
mod emulate;

use clap::Subcommand;

/// What to do with a disk.
#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// Make a block device that takes as long as a modelled drive
    Emulate(Box<emulate::Emulating>),
    /// Tell a running emulated disk what to do, or ask it
    Control(control::Controlling),
}

/// Does it.
pub(crate) fn disk(command: &DiskCommand) -> anyhow::Result<()> {
    match command {
        DiskCommand::Emulate(emulating) => emulate::emulate(emulating),
        DiskCommand::Control(controlling) => control::control(controlling),
    }
}
