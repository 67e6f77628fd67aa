//! `headlong reproduce`: reproductions of the papers' experiments.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::builder::PossibleValuesParser;
use headlong_bench::{BenchOptions, default_store};
use headlong_chain_sim::SimulationSettings;
use headlong_reproduce::{
    ClaimsSize, FlashstreamOptions, FlashstreamPart, Paper, RunChoice, ScenarioSelection,
    claim_groups, flashstream, netflix, reproduce_virtual, run_claims, scenario_names,
    stored_claims,
};

use crate::bench::judge;
use crate::libception::LibceptionArgs;
use crate::mistake::{EXIT_MISSED, Verdict};
use crate::output::{print, print_line};
use crate::reproduction_args::{RealOrVirtualArgs, ReproductionArgs, of_paper};

/// Reproduce published experiments, and compare the figures. Without a subcommand: the claims.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ReproduceArgs {
    #[command(subcommand)]
    what: Option<Reproduce>,
    #[command(flatten)]
    claims: ClaimsArgs,
}

/// A reproduction.
#[derive(Debug, clap::Subcommand)]
enum Reproduce {
    Claims(ClaimsArgs),
    /// Titles in chunk files or whole (NOSSDAV 2012; thesis 3.5 to 3.7)
    ///
    /// Exit code 4 if a published result is not reproduced, 3 if a run does not count.
    ///
    ///   headlong reproduce to-chunk --quick
    ///   headlong reproduce to-chunk --virtual
    #[command(verbatim_doc_comment)]
    ToChunk(RealOrVirtualArgs),
    Libception(LibceptionArgs),
    Netflix(NetflixArgs),
    Flashstream(FlashstreamArgs),
    /// Fixed and automatic prefetch sizes (SYSTOR 2014; thesis chapter 4)
    ///
    /// In virtual time; needs no root. Exit code 4 if a published result is not reproduced.
    ///
    ///   headlong reproduce automated-prefetching --quick
    ///   headlong reproduce automated-prefetching --scenario "HD, 8 GB, Red"
    ///   headlong reproduce automated-prefetching --real --quick
    #[command(verbatim_doc_comment)]
    AutomatedPrefetching {
        /// Selected points of its first figure in real time, on an emulated drive. Needs root
        #[arg(long)]
        real: bool,
        /// Only this scenario; repeatable
        #[arg(long, value_name = "NAME", conflicts_with = "real",
            value_parser = PossibleValuesParser::new(scenario_names()))]
        scenario: Vec<String>,
        /// Concurrent simulations [default: the number of processors]
        #[arg(long, value_name = "N", conflicts_with = "real")]
        threads: Option<NonZeroUsize>,
        /// Search each rate this many times, with other viewers each time, and report the mean: it
        /// reduces the variance, and multiplies the run time
        #[arg(long, value_name = "N", conflicts_with = "real")]
        seeds: Option<NonZeroU32>,
        #[command(flatten)]
        again: ReproductionArgs,
    },
}

/// Runs work that reports its progress as finished and total numbers, with a progress bar; draws
/// nothing if standard error is not a terminal.
fn with_bar<T>(work: impl FnOnce(&dyn Fn(usize, usize)) -> T) -> T {
    let bar = indicatif::ProgressBar::new(0);
    let done = work(&|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    done
}

/// A flash tier between memory and disk (ACM Multimedia 2013)
///
/// In virtual time; needs no root. Its SSDs and block sizes (Table 2, Figures 1 to 3), its systems
/// at their highest rate without a missed segment (Figure 7), blocks of 4 KB (Figure 8), its
/// machines (Table 5), and this server in their place. ZFS and flashcache are models. Exit code 4
/// if a published result is not reproduced.
///
///   headlong reproduce flashstream --quick
///   headlong reproduce flashstream --part systems --part machines
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct FlashstreamArgs {
    /// Only this part; repeatable
    #[arg(long, value_name = "NAME", value_parser = flash_part)]
    part: Vec<FlashstreamPart>,
    /// Divide titles, memory and flash by this factor [default: 16, 40 with --quick]
    #[arg(long, value_name = "N")]
    scale: Option<NonZeroU64>,
    /// Exponent of Zipf's law [default: 0.8, explained on the page]
    #[arg(long, value_name = "NUMBER")]
    alpha: Option<f64>,
    /// First seed of the requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of seeds that a rate must pass [default: two, one with --quick]
    #[arg(long, value_name = "N")]
    seeds: Option<NonZeroU32>,
    /// Concurrent measurements [default: the number of processors]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    again: ReproductionArgs,
}

fn flash_part(name: &str) -> Result<FlashstreamPart, String> {
    let mut all = FlashstreamPart::ALL.into_iter();
    let found = all.find(|(known, _)| *known == name);
    let names = || FlashstreamPart::ALL.map(|(name, _)| name).join(", ");
    found
        .map(|(_, part)| part)
        .ok_or_else(|| format!("write one of {}", names()))
}

impl FlashstreamArgs {
    fn run(&self) -> anyhow::Result<()> {
        let options = self.again.output.options("flashstream", self.again.quick)?;
        if self
            .alpha
            .is_some_and(|alpha| !(0.0..=10.0).contains(&alpha))
        {
            return Err(anyhow!("--alpha: write a number from 0 to 10"));
        }
        let flashing = FlashstreamOptions {
            choice: RunChoice {
                is_quick: self.again.quick,
                seed: self.seed,
                seeds: self.seeds,
                threads: self.threads,
            },
            parts: self.part.clone(),
            scale: self.scale,
            alpha: self.alpha,
        };
        judge(with_bar(|told| flashstream(&flashing, &options, told))?)
    }
}

/// Statistics of Netflix' logs, and prefetching on their chains (thesis chapter 5)
///
/// Generates the shipped specification netflix-2014-catalog, session by session, compares its
/// statistics with the published ones, joins its requests to chains, and simulates every rule for
/// prefetch sizes on them. Needs no privileges and writes only the page and the results. The whole
/// log of 126,064 sessions takes minutes, a thousand sessions seconds. Exit code 4 if a published
/// result is not reproduced.
///
///   headlong reproduce netflix --sessions 5000
///   headlong reproduce netflix --report netflix.html --json > netflix.json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct NetflixArgs {
    /// Number of sessions; the number of titles is scaled
    #[arg(long, value_name = "N", default_value_t = netflix::SESSIONS)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    sessions: u64,
    /// Seed of the log
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the report as one HTML page
    #[arg(long, value_name = "REPORT.html")]
    report: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

impl NetflixArgs {
    fn run(&self) -> anyhow::Result<()> {
        let reproducing = netflix::NetflixOptions {
            sessions: self.sessions,
            seed: self.seed,
            sizes_mb: netflix::sizes_mb(),
            settings: SimulationSettings::default(),
        };
        // Draws nothing if standard error is not a terminal.
        let bar = indicatif::ProgressBar::new(self.sessions);
        let made = netflix::netflix(&reproducing, |step| match step {
            netflix::NetflixProgress::Sessions(count) => bar.set_position(count),
            netflix::NetflixProgress::Point(point) => {
                bar.set_message(format!("{} {} MB", point.algorithm, point.size));
            }
        });
        bar.finish_and_clear();
        let made = made?;
        if let Some(path) = &self.report {
            let (sessions, seed) = (self.sessions, self.seed);
            let command = format!("headlong reproduce netflix --sessions {sessions} --seed {seed}");
            made.page(&command).write(path)?;
        }
        let told = match self.json {
            true => serde_json::to_string_pretty(&made)?,
            false => made.text(),
        };
        print_line(told.trim_end())?;
        judge(made.outcome())
    }
}

/// Runs the verb.
pub(crate) fn again(arguments: &ReproduceArgs) -> anyhow::Result<()> {
    let Some(what) = &arguments.what else {
        return arguments.claims.run();
    };
    let (paper, again, is_virtual) = match what {
        Reproduce::Claims(again) => return again.run(),
        Reproduce::Netflix(again) => return again.run(),
        Reproduce::Flashstream(again) => return again.run(),
        Reproduce::AutomatedPrefetching {
            real: false,
            scenario,
            threads,
            seeds,
            again,
        } => {
            let options = again.output.options("automated-prefetching", again.quick)?;
            let choice = ScenarioSelection {
                choice: RunChoice {
                    is_quick: again.quick,
                    seed: 1,
                    seeds: *seeds,
                    threads: *threads,
                },
                scenarios: scenario.clone(),
            };
            return judge(reproduce_virtual(&choice, &options)?);
        }
        Reproduce::AutomatedPrefetching { again, .. } => (Paper::Sizes, again, false),
        Reproduce::Libception(again) => return again.run(),
        Reproduce::ToChunk(way) => (Paper::ToChunk, &way.again, way.is_virtual),
    };
    judge(of_paper(paper, again, is_virtual)?)
}

// `headlong reproduce claims`: the claims of all papers, as stored or as a run finds them.

/// Claims of all papers, and whether they come out
///
/// Prints the stored table: published, in virtual time, on emulated drives, whether it comes out,
/// and why not. With --check, runs the claims in virtual time and compares them with what is
/// stored; exit code 4 if they differ. The smallest size takes minutes, the largest an hour.
///
///   headlong reproduce claims
///   headlong reproduce claims --check --group flashstream
///   headlong reproduce claims --save papers/reproduce/src/claims/stored.csv --size quick
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ClaimsArgs {
    /// Run the claims, and compare them with the stored ones
    #[arg(long)]
    check: bool,
    /// Run the claims, and write the stored table with them into this file
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    save: Option<PathBuf>,
    /// How much is run
    #[arg(long, value_name = "SIZE", default_value = "small", value_parser = size)]
    size: ClaimsSize,
    /// Only the claims of this reproduction; repeatable
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(claim_groups()))]
    group: Vec<String>,
    /// Concurrent simulations [default: the number of processors]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Folder for the records of runs
    #[arg(long, value_name = "DIR", default_value = "bench-results/claims")]
    results: PathBuf,
}

fn size(name: &str) -> Result<ClaimsSize, String> {
    let names = || ClaimsSize::ALL.iter().map(|size| size.name());
    ClaimsSize::from_name(name)
        .ok_or_else(|| format!("write one of {}", names().collect::<Vec<_>>().join(", ")))
}

impl ClaimsArgs {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if !self.check && self.save.is_none() {
            return print(&stored_claims());
        }
        let choice = RunChoice {
            threads: self.threads,
            ..RunChoice::default()
        };
        let options = BenchOptions {
            headlong: PathBuf::new(),
            store: default_store(),
            results: self.results.clone(),
            resumes: false,
            report: None,
            json: false,
            command_line: String::new(),
        };
        let made = run_claims(self.size, &self.group, &choice, &options)?;
        if let Some(file) = &self.save {
            return std::fs::write(file, made.stored())
                .with_context(|| format!("cannot write {}", file.display()));
        }
        let differences = made.differences();
        if differences.is_empty() {
            return print_line("all claims are as stored");
        }
        let (code, reasons) = (EXIT_MISSED, differences);
        Err(Verdict { code, reasons }.into())
    }
}
