//! `headlong fleet`: several servers as one service.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Subcommand, ValueEnum};
use headlong_fleet::{DiskId, Fleet};
use headlong_report::say;

use crate::fleet_plan::{Places, PlanArgs, plan, read_places, write};

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
    /// Send titles to the boxes that have them, with HAProxy: a file of `fleet plan --write`
    #[arg(long, value_name = "FILE", requires = "map")]
    places: Option<PathBuf>,
    /// Where HAProxy will find that: the map of titles to be written
    #[arg(long, value_name = "FILE", requires = "places")]
    map: Option<PathBuf>,
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
    let map = match (&args.places, &args.map, args.balancer) {
        (Some(_), _, Balancer::Nginx) => {
            bail!("--places: nginx cannot send a title to the boxes that have it; use HAProxy")
        }
        (Some(places), Some(map), Balancer::Haproxy) => {
            Some(write_map(&fleet, &read_places(places)?, map)?)
        }
        _ => None,
    };
    let text = match args.balancer {
        Balancer::Haproxy => fleet.haproxy(&source, map),
        Balancer::Nginx => fleet.nginx(&source),
    };
    headlong_survey::print(&text)?;
    Ok(())
}

/// Writes the map of titles to the keys of their boxes, and returns its name.
fn write_map<'m>(fleet: &Fleet, places: &Places, map: &'m Path) -> anyhow::Result<&'m str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._".contains(c);
    let name = map.to_str().filter(|name| name.chars().all(is_plain));
    let Some(name) = name.filter(|name| name.starts_with('/')) else {
        let name = map.display();
        bail!("--map {name}: write a path from / on, of letters, digits, - . _ and /");
    };
    let is_known = |id: &DiskId| fleet.boxes.iter().any(|one| one.name == id.of_box);
    if let Some(id) = places.values().flatten().find(|id| !is_known(id)) {
        let of_box = &id.of_box;
        bail!("--places: a title is on {of_box}, which is no box of the fleet; plan again");
    }
    let disks = places.iter();
    let disks = disks.map(|(title, disks)| (title.as_str(), disks.as_slice()));
    let placed = fleet.placed_titles(disks);
    write(map, &placed.map)?;
    if placed.unled > 0 {
        say!(
            "headlong: no key was found for the boxes of {} titles: their requests may go to a box \
             without a copy, at least while the first is down or full",
            placed.unled
        );
    }
    Ok(name)
}
