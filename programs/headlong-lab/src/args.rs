//! The command line.

use clap::{Parser, Subcommand};

use crate::bench::Bench;
use crate::capacity::CapacityArgs;
use crate::disk::DiskCommand;
use crate::load::LoadArgs;
use crate::reproduce::ReproduceArgs;
use crate::simulate::SimulateArgs;
use crate::trace::Trace;
use crate::workload::Workload;

/// Emulated disks, workloads, load, experiments, simulation, logs and published figures.
///
/// `headlong VERB` runs these verbs too.
#[derive(Debug, Parser)]
#[command(
    name = "headlong-lab",
    bin_name = "headlong",
    version = env!("HEADLONG_VERSION"),
    arg_required_else_help = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Emulate, measure and inspect disks
    #[command(subcommand)]
    Disk(DiskCommand),
    #[command(subcommand)]
    Workload(Workload),
    Load(Box<LoadArgs>),
    Simulate(Box<SimulateArgs>),
    #[command(subcommand)]
    Bench(Bench),
    Capacity(Box<CapacityArgs>),
    Reproduce(ReproduceArgs),
    #[command(subcommand)]
    Trace(Trace),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Args;

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
