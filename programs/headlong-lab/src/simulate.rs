//! `headlong simulate`: the server's engine, viewers and a drive in virtual time.

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use headlong_drive::DriveSpec;
use headlong_sim::{
    Experiment, Placement, Record, Search, Setup, Viewed, Window, charts, settings,
};
use headlong_units::{Bytes, Duration, Instant};
use headlong_workload::Specification;

use crate::bench::mib_rate as rate;
use crate::mistake::Mistakes;
use crate::simulate_chains::{self, SimulatingChains};
use crate::simulate_plan::{self, Planning};
use crate::simulated::{Simulated, simulate_experiment};
use crate::sweep::{BOUND_EXAMPLES, Bounding, SWEEP_EXAMPLES, Sweeping};
use crate::vanilla::VanillaArgs;

/// Runs the server's own engine, or its rules alone, in virtual time or on what was logged
///
/// With an experiment's file, everything in it: its servers (headlong as it is, nginx and Apache with
/// an imitation of their kernel), its workloads and its drive; the highest rate of each without a
/// failure, with the same records, tables and page as `headlong bench compare` makes.
#[derive(Debug, Clone, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Simulating {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    experiment: Simulated,
}

const EXAMPLES: &str = "Examples:
  headlong simulate experiments/server-must-win.toml --quick
  headlong simulate experiments/server-must-win.toml --server nginx --workload sd --rate 21MiB/s
  headlong simulate search youtube-sd --server vanilla --read-ahead 512KiB";

#[derive(Debug, Clone, clap::Subcommand)]
enum What {
    /// Run a workload at one rate, or at several, and print what was seen
    ///
    /// One line for each rate and seed: rate asked for and served (MiB/s), failed calls, viewers,
    /// what was read from the drive, how busy it was, reads and what they cost (milliseconds: all,
    /// moving the arm, waiting for the sector, moving bytes), hits, waste and evictions, late jobs,
    /// jobs in the queue, calls that waited and for how long, times of responses, shares of memory.
    /// Of players that adapt, below it, what they saw: a line for each network.
    #[command(after_help = RUN_EXAMPLES)]
    Run {
        #[command(flatten)]
        world: WorldArgs,
        /// Rate that viewers ask for in all, such as 70MiB/s; may be given several times
        #[arg(long, value_name = "RATE", value_parser = rate, required = true)]
        rate: Vec<f64>,
        /// How many seeds, from --seed on
        #[arg(long, value_name = "N", default_value_t = 1)]
        seeds: u64,
        /// Write a page with charts of how each run went
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Find the highest rate at which no call fails in steady state
    #[command(after_help = SEARCH_EXAMPLES)]
    Search {
        #[command(flatten)]
        world: WorldArgs,
        /// Rate to begin with
        #[arg(long, value_name = "RATE", value_parser = rate, default_value = "60MiB/s")]
        rate: f64,
        /// How many seeds must pass, from --seed on
        #[arg(long, value_name = "N", default_value_t = 3)]
        seeds: u64,
        /// How exactly to find the rate
        #[arg(long, value_name = "RATE", value_parser = rate, default_value = "1MiB/s")]
        resolution: f64,
        /// Simulations run at once
        #[arg(long, value_name = "N", default_value = "2")]
        threads: NonZeroUsize,
        /// Print only the result, one line
        #[arg(long)]
        brief: bool,
    },
    /// Go through every combination of some values, at given rates or at the highest without failure
    #[command(after_help = SWEEP_EXAMPLES)]
    Sweep(Sweeping),
    /// Say what no server could beat, whatever it knew of the future
    #[command(after_help = BOUND_EXAMPLES)]
    Bound(Bounding),
    Chains(SimulatingChains),
    Plan(Planning),
}

const RUN_EXAMPLES: &str = "Examples:
  headlong simulate run youtube-sd --rate 60MiB/s --rate 70MiB/s --memory 3.5GiB
  headlong simulate run youtube-hd --rate 80MiB/s --order elevator --policy fixed --prefetch 8MiB \\
    --engine ahead_horizon=10s --engine patience=5s --json";

const SEARCH_EXAMPLES: &str = "Examples:
  headlong simulate search youtube-sd --memory 3.5GiB --prefetch 4MiB --outstanding-reads 4
  headlong simulate search youtube-hd --rate 90MiB/s --seeds 5 --brief";

/// What the world is made of.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WorldArgs {
    /// What is asked for: a preset such as youtube-sd or youtube-hd, or a specification in TOML
    /// (FILE.toml)
    #[arg(value_name = "WORKLOAD")]
    pub(crate) workload: String,
    /// A value of the workload's specification by its key, such as requests.size=20s; may be given
    /// several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) set: Vec<(String, String)>,
    /// Preset of the drive
    #[arg(long, value_name = "PRESET", default_value = "wd-red-wd10efrx", value_parser = drive)]
    pub(crate) drive: DriveSpec,
    /// The engine's memory for pieces of files; of a vanilla server the page cache
    #[arg(long, value_name = "SIZE", default_value = "3.5GiB")]
    pub(crate) memory: Bytes,
    /// Rule for the size of a prefetch; the same as --engine policy=NAME
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// The rule's reference size, or who finds it (auto, auto-paper); the same as --engine
    /// prefetch=SIZE
    #[arg(long, value_name = "SIZE|auto")]
    prefetch: Option<String>,
    /// Order of the device's jobs; the same as --engine order=NAME
    #[arg(long, value_name = "NAME")]
    order: Option<String>,
    /// Reads outstanding at the drive; the same as --engine outstanding_reads=N
    #[arg(long, value_name = "N")]
    outstanding_reads: Option<String>,
    /// Any setting of the engine, by its name in the server's configuration; may be given several
    /// times
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) engine: Vec<(String, String)>,
    /// First seed of the generated viewers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Length of the ramp, in which nothing counts
    #[arg(long, value_name = "TIME", default_value = "300s")]
    ramp: Duration,
    /// Length of the steady state, which counts
    #[arg(long, value_name = "TIME", default_value = "600s")]
    measure: Duration,
    /// Bytes that a viewer's socket takes beyond those that have left
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    pub(crate) socket: Bytes,
    /// Largest request that reaches the drive
    #[arg(long, value_name = "SIZE", default_value = "1280KiB")]
    request_max: Bytes,
    /// Spread the titles over all of the drive, as ext4 does, instead of packing them at its start
    #[arg(long)]
    spread: bool,
    /// Tell the engine the bit rates of titles, which it otherwise has to find out
    #[arg(long)]
    bit_rates: bool,
    #[command(flatten)]
    pub(crate) vanilla: VanillaArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn drive(name: &str) -> Result<DriveSpec, String> {
    headlong_drive::preset(name).map_err(|error| error.to_string())
}

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` has no `=`; write it like NAME=VALUE"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// `name=value` of an engine's setting, tried on an engine that is thrown away.
fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = pair(text)?;
    settings::set(&mut Setup::default().engine, &name, &value)?;
    Ok((name, value))
}

#[cfg(test)]
impl Simulating {
    /// What a sweep is told, if it is one.
    pub(crate) fn sweeping(&self) -> Option<&Sweeping> {
        match &self.what {
            Some(What::Sweep(sweeping)) => Some(sweeping),
            _ => None,
        }
    }
}

impl WorldArgs {
    fn workload(&self) -> Result<Specification, Vec<String>> {
        let read = match self.workload.strip_suffix(".toml") {
            None => Specification::preset(&self.workload, &self.set),
            Some(_) => {
                let text = std::fs::read_to_string(&self.workload)
                    .map_err(|error| vec![format!("{}: {error}", self.workload)])?;
                Specification::read(&self.workload, &text, &self.set)
            }
        };
        read.map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    /// What the arguments mean, or all that is wrong with them.
    pub(crate) fn experiment(&self) -> Result<Experiment, Mistakes> {
        let mut mistakes = Vec::new();
        let workload = self.workload().map_err(|errors| mistakes.extend(errors));
        let mut setup = Setup {
            socket_bytes: self.socket.0,
            request_bytes_max: self.request_max.0,
            bit_rates_known: self.bit_rates,
            placement: match self.spread {
                true => Placement::Spread,
                false => Placement::Packed,
            },
            server: self.vanilla.server(self.memory.0, &mut mistakes),
            window: Window {
                from: Instant::ZERO + self.ramp,
                to: Instant::ZERO + self.ramp + self.measure,
            },
            ..Setup::default()
        };
        setup.engine.memory_bytes = self.memory.0;
        let named = [
            ("policy", &self.policy),
            ("prefetch", &self.prefetch),
            ("order", &self.order),
            ("outstanding_reads", &self.outstanding_reads),
        ];
        let named = named.iter().filter_map(|(name, value)| {
            let value = value.as_deref()?;
            Some((*name, value))
        });
        let others = self.engine.iter();
        let others = others.map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in named.chain(others) {
            if let Err(mistake) = settings::set(&mut setup.engine, name, value) {
                mistakes.push(mistake);
            }
        }
        let is_flash = matches!(self.drive, DriveSpec::SolidState(_));
        let is_written = |(name, _): &(String, String)| name == "outstanding_reads_flash";
        if is_flash && self.engine.iter().any(is_written) {
            setup.engine.outstanding_reads_max = setup.engine.outstanding_reads_flash;
        }
        mistakes.extend(setup.engine.check().map(|error| error.to_string()));
        match workload {
            Ok(workload) if mistakes.is_empty() => Ok(Experiment {
                workload,
                drive: self.drive.clone(),
                setup,
                steps: Vec::new(),
            }),
            _ => Err(Mistakes(mistakes)),
        }
    }
}

/// Runs what was asked for.
pub(crate) fn simulate(simulating: &Simulating) -> anyhow::Result<()> {
    match &simulating.what {
        None => simulate_experiment(&simulating.experiment),
        Some(What::Run {
            world,
            rate,
            seeds,
            html,
        }) => run_each(world, rate, *seeds, html.as_deref()),
        Some(What::Search {
            world,
            rate,
            seeds,
            resolution,
            threads,
            brief,
        }) => {
            let search = Search {
                guess_mib_s: *rate,
                is_near: false,
                resolution_mib_s: *resolution,
                seed: world.seed,
                seeds: (*seeds).max(1),
                threads: *threads,
            };
            find(world, &search, *brief)
        }
        Some(What::Sweep(sweeping)) => crate::sweep::sweep(sweeping),
        Some(What::Bound(bounding)) => crate::sweep::bound(bounding),
        Some(What::Chains(simulating)) => simulate_chains::simulate(simulating),
        Some(What::Plan(planning)) => simulate_plan::simulate(planning),
    }
}

fn run_each(
    world: &WorldArgs,
    rates: &[f64],
    seeds: u64,
    html: Option<&std::path::Path>,
) -> anyhow::Result<()> {
    let records = run(&world.experiment()?, world, rates, seeds)?;
    if let Some(file) = html {
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        let title = format!("{} in virtual time", world.workload);
        charts::run_page(&title, &records, &command).write(file)?;
    }
    if world.json {
        print(&serde_json::to_string_pretty(&records)?)?;
    }
    Ok(())
}

fn find(world: &WorldArgs, search: &Search, brief: bool) -> anyhow::Result<()> {
    let mut experiment = world.experiment()?;
    experiment.setup.stops_at_failure = true;
    let shows_probes = !world.json && !brief;
    if shows_probes {
        print(Record::heading())?;
    }
    let mut failed = None;
    let found = search.run(
        |rate, seed| experiment.run(rate, seed),
        |record| {
            if record.failures > 0 {
                failed = Some((record.rate_mib_s, record.seed));
            }
            if shows_probes {
                // Whoever reads had enough; the end of the search says so.
                let _ = print(&record.line());
            }
        },
    )?;
    if world.json {
        print(&serde_json::to_string_pretty(&found)?)?;
    } else {
        print(&found.line())?;
    }
    if let Some((rate, seed)) = failed {
        let again = replay(std::env::args(), rate, seed);
        eprintln!("the last failure again: {again}");
    }
    Ok(())
}

fn run(
    experiment: &Experiment,
    world: &WorldArgs,
    rates: &[f64],
    seeds: u64,
) -> anyhow::Result<Vec<Record>> {
    let mut records = Vec::new();
    if !world.json {
        print(Record::heading())?;
    }
    for rate in rates {
        for seed in world.seed..world.seed + seeds.max(1) {
            let record = experiment.run(*rate, seed)?;
            if !world.json {
                print(&record.line())?;
                if experiment.workload.has_adaptive_players() {
                    print(Viewed::heading())?;
                    for seen in &record.viewing {
                        print(&seen.line())?;
                    }
                }
            }
            records.push(record);
        }
    }
    Ok(records)
}

/// The command that runs a world of a search again: its words but for those of the search.
fn replay(words: impl Iterator<Item = String>, rate: f64, seed: u64) -> String {
    const OF_SEARCH: [&str; 5] = ["--rate", "--seeds", "--seed", "--resolution", "--threads"];
    let mut kept = vec!["headlong simulate run".to_owned()];
    let mut skips = false;
    for word in words.skip_while(|word| word != "search").skip(1) {
        let name = word.split('=').next().unwrap_or_default();
        let is_of_search = OF_SEARCH.contains(&name);
        if !skips && !is_of_search && word != "--brief" && word != "--json" {
            kept.push(word.clone());
        }
        skips = is_of_search && !word.contains('=');
    }
    format!("{} --rate {rate}MiB/s --seed {seed}", kept.join(" "))
}

pub(crate) fn print(text: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{text}")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::{What, WorldArgs};
    use crate::args::{Args, Command};

    fn world(arguments: &str) -> WorldArgs {
        let words = arguments.split(' ');
        let args = Args::try_parse_from(["headlong", "simulate", "run"].into_iter().chain(words));
        let Command::Simulate(simulating) = args.expect("a command line").command else {
            panic!("another command");
        };
        match simulating.what {
            Some(What::Run { world, .. } | What::Search { world, .. }) => world,
            _ => panic!("another command"),
        }
    }

    #[test]
    fn a_world_of_a_search_can_be_run_again() {
        let typed = "headlong simulate search youtube-sd --rate 5MiB/s --seeds=3 --memory 1GiB --brief \
                     --threads 2 --engine order=fcfs";
        let words = typed.split_whitespace().map(str::to_owned);
        assert_eq!(
            super::replay(words, 6.5, 2),
            "headlong simulate run youtube-sd --memory 1GiB --engine order=fcfs --rate 6.5MiB/s \
             --seed 2"
        );
    }

    #[test]
    fn settings_reach_the_engine_and_the_last_word_wins() {
        let world = world("youtube-sd --rate 1MiB/s --prefetch 2MiB --engine prefetch=3MiB");
        let experiment = world.experiment().expect("an experiment");
        assert_eq!(experiment.setup.engine.sizing.reference_bytes, 3 << 20);
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let world = world("youtube-s --rate 1MiB/s --order random --prefetch 1B");
        let mistakes = world.experiment().expect_err("mistakes").0;
        let told = mistakes.join("\n");
        for part in ["youtube-sd", "deadline-elevator", "prefetch must be"] {
            assert!(told.contains(part), "{part} is missing in: {told}");
        }
    }
}
