//! `headlong simulate`: the server's engine, viewers and a drive in virtual time.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use headlong_bench::grid::without_series;
use headlong_bench::{RateSearch, RunRecord, run_page, search_line};
use headlong_report::{command_line, say};
use headlong_sim::{RunFigures, ViewingRecord};
use headlong_units::MIB;

use crate::bench::mib_rate as rate;
use crate::experiment_args::{SimulatedArgs, simulate_experiment};
use crate::mistake::Mistakes;
use crate::output::print_line;
use crate::records::RecordsFile;
use crate::simulate_chains::{self, SimulateChainsArgs};
use crate::simulate_faults::{self, FaultsArgs};
use crate::simulate_plan::{self, PlanArgs};
use crate::sweep::{BOUND_EXAMPLES, BoundArgs, SWEEP_EXAMPLES, SweepArgs};
use crate::world_args::WorldArgs;

/// Runs the server's own engine, or its rules alone, in virtual time or on logged requests
///
/// With an experiment file, everything in it: its servers (the real headlong engine, models of
/// nginx and Apache with their kernel), its workloads and its drive; the highest failure-free rate
/// of each, with the same records, tables and page as `headlong bench compare`.
#[derive(Debug, Clone, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimulateArgs {
    #[command(subcommand)]
    what: Option<SimulationMode>,
    #[command(flatten)]
    experiment: SimulatedArgs,
}

const EXAMPLES: &str = "Examples:
  headlong simulate experiments/server-must-win.toml --quick
  headlong simulate experiments/server-must-win.toml --server nginx --workload sd --rate 21MiB/s
  headlong simulate search youtube-sd --server vanilla --read-ahead 512KiB";

#[derive(Debug, Clone, clap::Subcommand)]
enum SimulationMode {
    /// Run a workload at one rate or at several, and print its figures
    ///
    /// One line for each rate and seed: MiB/s offered, asked for and delivered, failed calls,
    /// viewers, bytes read from the drive, its busy time, reads and their cost (milliseconds:
    /// total, seek, rotation, transfer), hits, waste and evictions, late jobs, queued jobs, calls
    /// that waited and their waiting times, response times, shares of memory. For adaptive players,
    /// below it, their playback: a line for each network.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunSimulationArgs),
    /// Find the highest rate at which no call fails in steady state
    #[command(after_help = SEARCH_EXAMPLES)]
    Search(SearchSimulationArgs),
    /// Evaluate every combination of some values, at given rates or at the highest without failure
    #[command(after_help = SWEEP_EXAMPLES)]
    Sweep(SweepArgs),
    /// Compute a bound that no server can exceed, with full knowledge of the future
    #[command(after_help = BOUND_EXAMPLES)]
    Bound(BoundArgs),
    Chains(SimulateChainsArgs),
    Plan(PlanArgs),
    Faults(FaultsArgs),
}

#[derive(Debug, Clone, clap::Args)]
struct RunSimulationArgs {
    #[command(flatten)]
    world: WorldArgs,
    /// Rate offered by all viewers, such as 70MiB/s; may be given several times
    #[arg(long, value_name = "RATE", value_parser = rate, required = true)]
    rate: Vec<f64>,
    /// Number of seeds, from --seed on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Write a page with charts of the course of each run
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write each request of the run as a row (one rate and seed only): comma-separated values, or
    /// Parquet if the name ends with .parquet; docs/lab/load.md has the columns
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
}

#[derive(Debug, Clone, clap::Args)]
struct SearchSimulationArgs {
    #[command(flatten)]
    world: WorldArgs,
    /// Starting rate
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "60MiB/s")]
    rate: f64,
    /// Number of seeds that must pass, from --seed on
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seeds: u32,
    /// Resolution of the rate
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "1MiB/s")]
    resolution: f64,
    /// Concurrent simulations
    #[arg(long, value_name = "N", default_value = "2")]
    threads: NonZeroUsize,
    /// Print only the result, one line
    #[arg(long)]
    brief: bool,
}

const RUN_EXAMPLES: &str = "Examples:
  headlong simulate run youtube-sd --rate 60MiB/s --rate 70MiB/s --memory 3.5GiB
  headlong simulate run youtube-hd --rate 80MiB/s --order elevator --policy fixed --prefetch 8MiB \\
    --engine ahead_horizon=10s --engine patience=5s --json";

const SEARCH_EXAMPLES: &str = "Examples:
  headlong simulate search youtube-sd --memory 3.5GiB --prefetch 4MiB --outstanding-reads 4
  headlong simulate search youtube-hd --rate 90MiB/s --seeds 5 --brief";

#[cfg(test)]
impl SimulateArgs {
    /// The arguments of a sweep, if it is one.
    pub(crate) fn sweeping(&self) -> Option<&SweepArgs> {
        match &self.what {
            Some(SimulationMode::Sweep(sweeping)) => Some(sweeping),
            _ => None,
        }
    }
}

/// Runs the verb.
pub(crate) fn simulate(simulating: &SimulateArgs) -> anyhow::Result<()> {
    match &simulating.what {
        None => simulate_experiment(&simulating.experiment),
        Some(SimulationMode::Run(running)) => run(running),
        Some(SimulationMode::Search(searching)) => search(searching),
        Some(SimulationMode::Sweep(sweeping)) => crate::sweep::sweep(sweeping),
        Some(SimulationMode::Bound(bounding)) => crate::sweep::bound(bounding),
        Some(SimulationMode::Chains(simulating)) => simulate_chains::simulate(simulating),
        Some(SimulationMode::Plan(planning)) => simulate_plan::simulate(planning),
        Some(SimulationMode::Faults(faults)) => simulate_faults::simulate(faults),
    }
}

fn run(running: &RunSimulationArgs) -> anyhow::Result<()> {
    let world = &running.world;
    let cell = world.cell()?;
    let mut each_call = match &running.records {
        Some(_) if running.rate.len() > 1 || running.seeds > 1 => {
            let mistake = "--records: one file holds one run; give one --rate and no --seeds";
            return Err(Mistakes(vec![mistake.to_owned()]).into());
        }
        path => path.as_deref().map(RecordsFile::create).transpose()?,
    };
    let mut records = Vec::new();
    if !world.json {
        print_line(RunFigures::heading())?;
    }
    for rate in &running.rate {
        for seed in world.seed..world.seed.saturating_add(running.seeds) {
            let rate = rate * MIB as f64;
            let record = match &mut each_call {
                Some(file) => {
                    let (record, calls) = cell.run_with_calls(rate, seed)?;
                    file.add(&calls)?;
                    record
                }
                None => cell.run(rate, seed, false)?,
            };
            if !world.json {
                print_figures(&record, world)?;
            }
            records.push(record);
        }
    }
    if let Some(file) = each_call {
        file.finish()?;
    }
    if let Some(file) = &running.html {
        let command = command_line(std::env::args_os().skip(1));
        run_page(&records, &command).write(file)?;
    }
    if world.json {
        print_line(&serde_json::to_string_pretty(&records)?)?;
    } else {
        print_line(&format!("imitated: {}", headlong_sim::IMITATED))?;
    }
    Ok(())
}

/// Prints the line of a run, and the playback of adaptive players.
fn print_figures(record: &RunRecord, world: &WorldArgs) -> anyhow::Result<()> {
    let Some(figures) = record.figures() else {
        return Ok(());
    };
    print_line(&figures.line())?;
    if let Some(flash) = &figures.flash {
        print_line(&flash.line(figures.flash_ratio))?;
    }
    if let Some(devices) = figures.devices() {
        print_line(&devices)?;
    }
    if world.has_adaptive_players()? {
        print_line(ViewingRecord::heading())?;
        for seen in &figures.viewing {
            print_line(&seen.line())?;
        }
    }
    Ok(())
}

fn search(searching: &SearchSimulationArgs) -> anyhow::Result<()> {
    let world = &searching.world;
    let wanted = RateSearch {
        start: searching.rate * MIB as f64,
        resolution: searching.resolution * MIB as f64,
        seed: world.seed,
        seeds: searching.seeds,
        threads: searching.threads,
    };
    let cell = world.cell()?;
    let shows_probes = !world.json && !searching.brief;
    if shows_probes {
        print_line(RunFigures::heading())?;
    }
    let mut again = None;
    let mut searched = cell.search(&wanted, |record| {
        let Some(figures) = record.figures() else {
            return;
        };
        if figures.failures > 0 {
            again = record.setup.commands.first().cloned();
        }
        if shows_probes {
            // If the pipe is closed, the end of the search reports it.
            let _ = print_line(&figures.line());
            if let Some(devices) = figures.devices() {
                let _ = print_line(&devices);
            }
        }
    })?;
    match world.json {
        false => print_line(&search_line(&searched))?,
        true => {
            searched.passed = without_series(searched.passed);
            let mib_s = |rate: Option<f64>| rate.map(|rate| rate / MIB as f64);
            let json = serde_json::json!({
                "passed_mib_s": mib_s(searched.found.rate),
                "failed_mib_s": mib_s(searched.found.failed),
                "records": searched.passed,
                "worlds": searched.found.probes,
            });
            print_line(&serde_json::to_string_pretty(&json)?)?;
        }
    }
    if let Some(again) = again {
        say!("repeat the last failure: {again}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::{SimulationMode, WorldArgs};
    use crate::args::{Args, Command};

    fn world(arguments: &str) -> WorldArgs {
        let words = arguments.split(' ');
        let args = Args::try_parse_from(["headlong", "simulate", "run"].into_iter().chain(words));
        let Command::Simulate(simulating) = args.expect("a command line").command else {
            panic!("another command");
        };
        match simulating.what {
            Some(SimulationMode::Run(running)) => running.world,
            _ => panic!("another command"),
        }
    }

    #[test]
    fn settings_reach_engine_and_last_one_wins() {
        let world = world("youtube-sd --rate 1MiB/s --prefetch 2MiB --engine prefetch=3MiB");
        let experiment = world.experiment().expect("an experiment");
        assert_eq!(experiment.setup.engine.sizing.reference_bytes, 3 << 20);
    }

    #[test]
    fn reports_all_mistakes() {
        let world = world("youtube-s --rate 1MiB/s --order random --prefetch 1B");
        let mistakes = world.experiment().expect_err("mistakes").0;
        let told = mistakes.join("\n");
        for part in ["youtube-sd", "deadline-elevator", "prefetch must be"] {
            assert!(told.contains(part), "{part} is missing in: {told}");
        }
    }

    #[test]
    fn options_without_effect_are_mistakes() {
        for (arguments, words) in [
            ("--measure 0s", "--measure 0s: nothing would be measured"),
            (
                "--ramp 1s --measure 2s --restart 3s",
                "the run is over at 3s",
            ),
            ("--read-ahead 1MiB", "--read-ahead: only a vanilla server"),
            (
                "--server vanilla --prefetch 1MiB",
                "--prefetch: a vanilla server does not",
            ),
            (
                "--server vanilla --pace 125",
                "--pace: a vanilla server does not",
            ),
            ("--socket 0B", "--socket 0B"),
            (
                "--flash 1GiB --ssd wd-red-wd10efrx",
                "--ssd wd-red-wd10efrx: is a hard disk",
            ),
            (
                "--flash 1KiB",
                "--flash 1KiB: has no room for blocks of 16MiB",
            ),
            ("--flash 9TiB", "--flash 9TiB: ssd-sata-low-end has"),
            ("--memory 9999TiB", "holds more pieces than can be counted"),
            ("--memory 1KiB", "must hold at least eight pieces"),
        ] {
            let world = world(&format!("youtube-sd --rate 1MiB/s {arguments}"));
            let told = world.experiment().expect_err(arguments).0;
            assert!(
                told.len() == 1 && told[0].contains(words),
                "{arguments}: {told:?}"
            );
        }
        for right in [
            "--server vanilla --read-ahead 1MiB",
            "--pace 125",
            "--flash 100GB",
        ] {
            let world = world(&format!("youtube-sd --rate 1MiB/s {right}"));
            world.experiment().expect(right);
        }
    }

    #[test]
    fn rejects_too_small_numbers_by_name() {
        for wrong in [
            "run youtube-sd --rate 1MiB/s --seeds 0",
            "search youtube-sd --seeds 0",
            "bound youtube-sd --seeds 0",
            "sweep youtube-sd --grid prefetch=1MiB --seeds 0",
            "search youtube-sd --request-max 0B",
            "search youtube-sd --server vanilla --workers 0",
            "search youtube-sd --server vanilla --tags 0",
            "search youtube-sd --server vanilla --max-sectors 1KiB",
        ] {
            let words = ["headlong", "simulate"].into_iter().chain(wrong.split(' '));
            let told = Args::try_parse_from(words).expect_err(wrong).to_string();
            let flag = wrong.rsplit(' ').nth(1).expect("a flag");
            assert!(told.contains(flag), "{wrong}: {told}");
        }
    }

    #[test]
    fn drive_may_be_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("mine.toml");
        let mine = headlong_drive::preset("hp-146-10k-sas").expect("a preset");
        std::fs::write(&file, toml::to_string(&mine).expect("text")).expect("written");
        let arguments = format!("youtube-sd --rate 1MiB/s --drive {}", file.display());
        assert_eq!(world(&arguments).drive, mine);
    }
}
