//! `headlong simulate sweep` and `simulate bound`: grids, and bounds for all servers.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;

use headlong_bench::grid::{
    GridAxis, GridPoint, Sweep, SweepJournal, SweepQuantity, combinations, to_csv,
};
use headlong_bench::{VirtualCell, grid_table, sweep_page};
use headlong_report::command_line;
use headlong_sim::{Bound, LossBound, VirtualExperiment, settings};
use headlong_units::Bytes;
use indicatif::{ProgressBar, ProgressStyle};

use crate::bench::{mib_rate as rate, threads};
use crate::drive_args::drive_spec;
use crate::mistake::Mistakes;
use crate::output::{have_folders, print_line};
use crate::world_args::{WorldArgs, pair};

/// Arguments of `simulate sweep`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    pub(crate) world: WorldArgs,
    /// A parameter and its values: workload, an option such as prefetch, memory, drive, policy,
    /// order, server or read-ahead, any setting of the engine, or a key of the workload with a dot
    /// in it, such as title.sd.zipf_alpha; may be given several times, for every combination
    #[arg(long, value_name = "NAME=VALUE,...", value_parser = axis, required = true)]
    grid: Vec<GridAxis>,
    /// Rate for every combination, such as 60MiB/s; may be given several times [default: search the
    /// highest failure-free rate]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Vec<f64>,
    /// Starting rate of a search
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "60MiB/s")]
    #[arg(conflicts_with = "rate")]
    guess: f64,
    /// Resolution of the highest rate
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "1MiB/s")]
    #[arg(conflicts_with = "rate")]
    resolution: f64,
    /// Number of seeds, from --seed on
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    seeds: u32,
    /// Combinations evaluated concurrently [default: the number of processors]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Record finished combinations in this file, and skip them in later runs
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Write the rows as comma-separated values
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(crate) const SWEEP_EXAMPLES: &str = "Examples:
  headlong simulate sweep youtube-sd --grid prefetch=1MiB,2MiB,4MiB,8MiB --grid memory=2GiB,4GiB
  headlong simulate sweep youtube-hd --grid drive=wd-red-wd10efrx,seagate-st1000dm003 \\
    --grid prefetch=2MiB,4MiB,8MiB,auto --html sweep.html --journal sweep.jsonl
  headlong simulate sweep youtube-sd --grid title.sd.zipf_alpha=0.6,0.8,1.0 --rate 60MiB/s --csv a.csv";

/// Arguments of `simulate bound`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct BoundArgs {
    #[command(flatten)]
    pub(crate) world: WorldArgs,
    /// Compute the least drive use for this rate; may be given several times [default: search the
    /// highest possible rate]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Vec<f64>,
    /// Number of seeds, from --seed on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Resolution of the highest rate
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "1MiB/s")]
    #[arg(conflicts_with = "rate")]
    resolution: f64,
    /// Compute the least number of viewers that any server loses until the measured time ends, if
    /// it starts with empty memory
    #[arg(long, requires = "rate")]
    lost: bool,
}

pub(crate) const BOUND_EXAMPLES: &str = "Examples:
  headlong simulate bound youtube-sd --memory 3.5GiB
  headlong simulate bound youtube-hd --rate 80MiB/s --rate 120MiB/s --json
  headlong simulate bound youtube-hd --rate 200MiB/s --lost --ramp 0s --measure 300s \\
    --set sessions.resume_time=225s";

/// `prefetch=1MiB,2MiB`.
fn axis(text: &str) -> Result<GridAxis, String> {
    let (name, values) = pair(text)?;
    let values = values.split(',').map(|value| value.trim().to_owned());
    let values: Vec<String> = values.filter(|value| !value.is_empty()).collect();
    if name.is_empty() || values.is_empty() {
        return Err(format!(
            "`{text}` names no values; write it like prefetch=1MiB,2MiB"
        ));
    }
    Ok(GridAxis { name, values })
}

/// Sets a parameter of the world.
fn vary(world: &mut WorldArgs, name: &str, value: &str) -> Result<(), String> {
    let of = |error: String| format!("--grid {name}={value}: {error}");
    let bytes = || {
        value
            .parse::<Bytes>()
            .map_err(|error| of(error.to_string()))
    };
    match name {
        "workload" => value.clone_into(&mut world.workload),
        "drive" => {
            world.drive = drive_spec(value).map_err(of)?;
        }
        "memory" => world.memory = bytes()?,
        "socket" => world.socket = bytes()?,
        "server" => value.clone_into(&mut world.vanilla.server),
        "read-ahead" => world.vanilla.read_ahead = Some(bytes()?),
        key if key.contains('.') => world.set.push((key.to_owned(), value.to_owned())),
        setting => {
            let setting = setting.replace('-', "_");
            let mut tried = headlong_sim::WorldSetup::default().engine;
            settings::set(&mut tried, &setting, value).map_err(of)?;
            // An explicit option comes first: the last value takes precedence.
            world.engine.push((setting, value.to_owned()));
        }
    }
    Ok(())
}

/// Parameters given more than once: only the last one would apply, and the columns would be wrong.
fn twice(grid: &[GridAxis]) -> Vec<String> {
    let name = |axis: &GridAxis| axis.name.replace('-', "_");
    let mut told: Vec<String> = Vec::new();
    for (place, axis) in grid.iter().enumerate() {
        if grid[..place].iter().any(|other| name(other) == name(axis)) {
            let name = &axis.name;
            told.push(format!(
                "--grid {name}: is given twice; give all its values once, such as {name}=A,B"
            ));
        }
    }
    told.dedup();
    told
}

impl SweepArgs {
    /// Every combination as an experiment, or all mistakes.
    fn points(&self) -> Result<Vec<GridPoint>, Mistakes> {
        let mut mistakes = twice(&self.grid);
        let mut points = Vec::new();
        let compares_servers = self.grid.iter().any(|axis| axis.name == "server");
        // A point has no command of its own; the whole command line repeats it.
        let command = command_line(std::env::args_os().skip(1));
        for values in combinations(&self.grid) {
            let mut world = self.world.clone();
            let mut told = Vec::new();
            for (axis, value) in self.grid.iter().zip(&values) {
                told.extend(vary(&mut world, &axis.name, value).err());
            }
            if told.is_empty() {
                let made = match compares_servers {
                    true => world.experiment_of_any(),
                    false => world.experiment(),
                };
                match made {
                    Ok(experiment) => points.push(GridPoint {
                        cell: VirtualCell::of_options(experiment, &world.workload, &command),
                        values,
                    }),
                    Err(Mistakes(wrong)) => told.extend(wrong),
                }
            }
            told.retain(|mistake| !mistakes.contains(mistake));
            mistakes.extend(told);
        }
        match mistakes.is_empty() {
            true => Ok(points),
            false => Err(Mistakes(mistakes)),
        }
    }
}

/// Runs a sweep.
pub(crate) fn sweep(arguments: &SweepArgs) -> anyhow::Result<()> {
    have_folders(&[
        ("--csv", arguments.csv.as_deref()),
        ("--html", arguments.html.as_deref()),
    ])?;
    let points = arguments.points()?;
    let aim = match arguments.rate.is_empty() {
        true => SweepQuantity::Maximum {
            guess_mib_s: arguments.guess,
            resolution_mib_s: arguments.resolution,
        },
        false => SweepQuantity::Rates(arguments.rate.clone()),
    };
    let sweep = Sweep {
        aim,
        seed: arguments.world.seed,
        seeds: arguments.seeds,
        threads: threads(arguments.threads),
    };
    let mut journal = arguments
        .journal
        .as_deref()
        .map(SweepJournal::open)
        .transpose()?;
    let bar = ProgressBar::new(points.len() as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let rows = sweep.run(&points, journal.as_mut(), |done, _| {
        bar.set_position(done as u64)
    })?;
    bar.finish_and_clear();
    let command = command_line(std::env::args_os().skip(1));
    if let Some(file) = &arguments.csv {
        std::fs::write(file, to_csv(&arguments.grid, &rows))
            .map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
    }
    if let Some(file) = &arguments.html {
        let title = format!("A grid of {}", arguments.world.workload);
        sweep_page(&title, &arguments.grid, &sweep.aim, &rows, &command).write(file)?;
    }
    match arguments.world.json {
        true => {
            let json = serde_json::json!({ "axes": arguments.grid, "rows": rows });
            print_line(&serde_json::to_string_pretty(&json)?)?;
        }
        false => print_line(grid_table(&arguments.grid, &rows).to_markdown().trim_end())?,
    }
    Ok(())
}

/// Computes bounds.
pub(crate) fn bound(arguments: &BoundArgs) -> anyhow::Result<()> {
    let experiment = arguments.world.experiment()?;
    let seeds = arguments.world.seed..arguments.world.seed.saturating_add(arguments.seeds);
    if arguments.lost {
        return lost(arguments, &experiment, seeds);
    }
    let mut bounds: Vec<Bound> = Vec::new();
    for rate in &arguments.rate {
        for seed in seeds.clone() {
            bounds.push(experiment.bound(*rate, seed)?);
        }
    }
    if arguments.rate.is_empty() {
        let (rate, found) = experiment.bound_rate(arguments.resolution, seeds)?;
        bounds = found;
        if !arguments.world.json {
            let words = "above it the drive's heads would be more than fully busy";
            print_line(&format!("possible up to {rate:.1} MiB/s; {words}"))?;
        }
    }
    if arguments.world.json {
        return print_line(&serde_json::to_string_pretty(&bounds)?);
    }
    for bound in &bounds {
        print_line(&bound.line())?;
    }
    Ok(())
}

/// Computes the least numbers of viewers lost.
fn lost(
    arguments: &BoundArgs,
    experiment: &VirtualExperiment,
    seeds: Range<u64>,
) -> anyhow::Result<()> {
    let mut bounds: Vec<LossBound> = Vec::new();
    for rate in &arguments.rate {
        for seed in seeds.clone() {
            bounds.push(experiment.loss_bound(*rate, seed)?);
        }
    }
    if arguments.world.json {
        return print_line(&serde_json::to_string_pretty(&bounds)?);
    }
    bounds
        .iter()
        .try_for_each(|bound| print_line(&bound.line()))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn sweeping(arguments: &str) -> SweepArgs {
        let words = ["headlong", "simulate", "sweep", "youtube-sd"];
        let args = Args::try_parse_from(words.into_iter().chain(arguments.split(' ')));
        let Command::Simulate(simulating) = args.expect("a command line").command else {
            panic!("another command");
        };
        simulating.sweeping().expect("a sweep").clone()
    }

    #[test]
    fn rejects_search_options_with_given_rates() {
        let is_right = |arguments: &str| {
            let words = ["headlong", "simulate"].into_iter();
            Args::try_parse_from(words.chain(arguments.split(' '))).is_ok()
        };
        for command in ["sweep youtube-sd --grid memory=1GiB", "bound youtube-sd"] {
            assert!(is_right(&format!("{command} --rate 60MiB/s")));
            assert!(is_right(&format!("{command} --resolution 2MiB/s")));
            let both = format!("{command} --rate 60MiB/s --resolution 2MiB/s");
            assert!(!is_right(&both), "{both}");
        }
        let guess = "sweep youtube-sd --grid memory=1GiB --guess 50MiB/s";
        assert!(is_right(guess) && !is_right(&format!("{guess} --rate 60MiB/s")));
    }

    #[test]
    fn varies_options_settings_and_keys() {
        let sweep = sweeping(
            "--grid prefetch=1MiB,2MiB --grid memory=1GiB,2GiB,4GiB \
             --grid title.sd.zipf_alpha=0.6,1 --grid outstanding-reads=1,4"
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .as_str(),
        );
        let points = sweep.points().expect("right");
        assert_eq!(points.len(), 24);
        let last = &points[23];
        assert_eq!(last.values, ["2MiB", "4GiB", "1", "4"]);
        let engine = &last.cell.world().setup.engine;
        assert_eq!(engine.sizing.reference_bytes, 2 << 20);
        assert_eq!(
            (engine.memory_bytes, engine.outstanding_reads_max),
            (4 << 30, 4)
        );
        assert_eq!(last.cell.world().workload.groups[0].zipf_alpha, 1.0);
    }

    #[test]
    fn reports_all_invalid_parameters() {
        let sweep = sweeping("--grid prefech=1MiB,2MiB --grid drive=wd-rad --grid a.b=1");
        let told = sweep.points().expect_err("mistakes").0.join("\n");
        for part in ["did you mean `prefetch`", "wd-red-wd10efrx"] {
            assert!(told.contains(part), "{part} is missing in: {told}");
        }
    }

    #[test]
    fn rejects_repeated_parameters_and_allows_server_axis() {
        let parse_sweep = |arguments: &str| sweeping(arguments).points().map_err(|wrong| wrong.0);
        let twice = parse_sweep("--grid outstanding-reads=1 --grid outstanding_reads=2");
        let words = "--grid outstanding_reads: is given twice";
        assert!(twice.expect_err("twice")[0].contains(words));
        let both = parse_sweep("--grid server=headlong,vanilla --read-ahead 1MiB --prefetch 2MiB");
        assert_eq!(both.expect("right").len(), 2);
        parse_sweep("--grid read-ahead=1MiB").expect_err("headlong has none");
    }
}
