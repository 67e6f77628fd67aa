//! `headlong fleet`: several servers as one service.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use headlong_fleet::Fleet;

use crate::fleet_plan::{PlanArgs, plan};

/// Actions on the description of a fleet.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Print the configuration of the balancer before the boxes
    Config(ConfigArgs),
    /// Print where each title lives, and what has to be copied
    Plan(PlanArgs),
}

/// The description, and the balancer.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ConfigArgs {
    /// Description of the fleet in TOML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The balancer
    #[arg(long = "for", value_name = "NAME")]
    balancer: Balancer,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Balancer {
    /// HAProxy 2.6 or later
    Haproxy,
    /// The http section of nginx
    Nginx,
}

/// Executes the command.
pub(crate) fn fleet(command: &FleetCommand) -> anyhow::Result<()> {
    let args = match command {
        FleetCommand::Config(args) => args,
        FleetCommand::Plan(args) => return plan(args),
    };
    let source = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| anyhow::anyhow!("{source}: {error}; name the description of the fleet"))?;
    let fleet = Fleet::read(&source, &text)?;
    let text = match args.balancer {
        Balancer::Haproxy => fleet.haproxy(&source),
        Balancer::Nginx => fleet.nginx(&source),
    };
    headlong_survey::print(&text)?;
    Ok(())
}
