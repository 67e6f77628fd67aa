//! `headlong bench`: experiments.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use headlong_bench::{
    BenchOptions, CommandOutcome, Experiment, ExperimentCell, VirtualOptions, command,
    default_store,
};
use headlong_report::{command_line, shell_word};
use headlong_settings::Value;

use crate::mistake::{EXIT_INVALID, EXIT_MISSED, Mistakes, Verdict};

/// Run experiments: servers on an emulated drive with generated viewers.
///
/// EXPERIMENT is a TOML file; docs/lab/bench.md lists its keys, and experiments/ has some. All
/// rates and times are of the model, whatever the time scale. Needs root.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// Make one run at one rate
    ///
    ///   headlong bench run experiments/server-must-win.toml --server nginx --workload sd --rate
    ///   25MiB/s
    #[command(verbatim_doc_comment)]
    Run(RunArgs),
    /// Find the highest failure-free rate of one server
    ///
    ///   headlong bench search experiments/server-must-win.toml --server headlong --workload hd
    #[command(verbatim_doc_comment)]
    Search(SearchArgs),
    /// Find that rate for all servers and workloads, with ratios and confidence intervals
    ///
    ///   headlong bench compare experiments/server-must-win.toml --quick
    ///
    /// Exit code 4 if a ratio is below the `at_least` of its baseline.
    #[command(verbatim_doc_comment)]
    Compare(CompareArgs),
    /// Run the same experiment on the emulated drive and in virtual time, and compare the results
    ///
    /// Searches the highest failure-free rate of every server on both, and compares their figures
    /// at the rate found on the drive.
    ///
    ///   headlong bench agree experiments/agree.toml
    ///   headlong bench agree experiments/agree.toml --server nginx --workload sd --rate 18MiB/s
    ///
    /// Exit code 4 if a pair of rates is further apart than 10 % (headlong) or 20 % (others).
    #[command(verbatim_doc_comment)]
    Agree(AgreeArgs),
}

/// Arguments of all bench verbs.
#[derive(Debug, clap::Args)]
struct CommonBenchArgs {
    /// The experiment, in TOML
    #[arg(value_name = "EXPERIMENT")]
    file: PathBuf,
    /// Use the values of its table [quick]
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: BenchOutput,
}

/// Options for results.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchOutput {
    /// Folder of filled drives: filled once, some GB each [default: the user's cache]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Folder for the records of runs [default: bench-results/NAME]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Skip runs that already have a record
    #[arg(long)]
    resume: bool,
    /// The page with charts [default: report.html among the results]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Selection of a part of an experiment.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ExperimentSelection {
    /// Only this server; needed for one run or search of several
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,
    /// Only this workload; likewise
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Option<String>,
}

/// Arguments of `bench run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    common: CommonBenchArgs,
    #[command(flatten)]
    names: ExperimentSelection,
    /// Rate offered by all viewers together, such as 25MiB/s [default: the experiment's]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// Seed of the sessions [default: the experiment's]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

/// Arguments of `bench search`.
#[derive(Debug, clap::Args)]
pub(crate) struct SearchArgs {
    #[command(flatten)]
    common: CommonBenchArgs,
    #[command(flatten)]
    names: ExperimentSelection,
    /// Starting rate of the search [default: the experiment's]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate_start: Option<f64>,
}

/// Arguments of `bench compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    common: CommonBenchArgs,
    /// Number of searches of each limit [default: the experiment's]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
}

/// Arguments of `bench agree`.
#[derive(Debug, clap::Args)]
pub(crate) struct AgreeArgs {
    #[command(flatten)]
    common: CommonBenchArgs,
    #[command(flatten)]
    names: ExperimentSelection,
    /// Make one run of each at this rate, real and virtual, instead of searching limits
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// Wall time that this machine adds to each request of the drive, such as 200us [default:
    /// measured, where a server has one read outstanding at a time; else 200us]
    #[arg(long, value_name = "TIME")]
    turnaround: Option<headlong_units::Duration>,
}

/// Parses `25MiB/s` as bytes per second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    headlong_settings::rate().read(&Value::of_word(text))
}

/// Runs the verb.
pub(crate) fn bench(arguments: &Bench) -> anyhow::Result<()> {
    judge(match arguments {
        Bench::Run(arguments) => run(arguments),
        Bench::Search(arguments) => search(arguments),
        Bench::Compare(arguments) => compare(arguments),
        Bench::Agree(arguments) => agree(arguments),
    }?)
}

/// Turns an ending into an error with its exit code, if it has one.
pub(crate) fn judge(ending: CommandOutcome) -> anyhow::Result<()> {
    let (code, reason) = match ending {
        CommandOutcome::Done => return Ok(()),
        CommandOutcome::Refused => (
            EXIT_INVALID,
            "the measurement is invalid; see the lines above and the record for the reasons",
        ),
        CommandOutcome::Unsettled => (
            EXIT_MISSED,
            "a search is not settled: it used up its runs between a passing and a failing rate; \
             raise search.probes_max, or set a better first rate (--rate, or the workload's)",
        ),
        CommandOutcome::Missed => (
            EXIT_MISSED,
            "a required value was not reached; see the tables",
        ),
    };
    Err(Verdict::of(code, reason).into())
}

fn run(arguments: &RunArgs) -> anyhow::Result<CommandOutcome> {
    let (mut experiment, options) = arguments.common.load()?;
    let cell = arguments.names.one(&experiment)?;
    let rate = arguments
        .rate
        .unwrap_or_else(|| experiment.first_rate(&cell));
    experiment.seed = arguments.seed.unwrap_or(experiment.seed);
    let seed = experiment.seed;
    Ok(command::run(&experiment, &cell, rate, seed, &options)?)
}

fn search(arguments: &SearchArgs) -> anyhow::Result<CommandOutcome> {
    let (experiment, options) = arguments.common.load()?;
    let cell = arguments.names.one(&experiment)?;
    let start = arguments.rate_start.unwrap_or_else(|| cell.rate_start());
    Ok(command::search(&experiment, &cell, start, &options)?)
}

fn compare(arguments: &CompareArgs) -> anyhow::Result<CommandOutcome> {
    let (mut experiment, options) = arguments.common.load()?;
    experiment.repeats = arguments.repeats.unwrap_or(experiment.repeats);
    Ok(command::compare_all(&experiment, &options)?)
}

fn agree(arguments: &AgreeArgs) -> anyhow::Result<CommandOutcome> {
    let (experiment, options) = arguments.common.load()?;
    let cells = arguments.names.all(&experiment)?;
    let quick = if arguments.common.quick {
        " --quick"
    } else {
        ""
    };
    let how = VirtualOptions {
        turnaround: headlong_units::Duration::ZERO,
        replay: format!(
            "headlong simulate {}{quick}",
            shell_word(&arguments.common.file)
        ),
        threads: threads(None),
    };
    let told = (arguments.rate, arguments.turnaround);
    Ok(headlong_bench::agree(
        &experiment,
        &cells,
        told,
        &how,
        &options,
    )?)
}

impl ExperimentSelection {
    /// The only cell with these names.
    pub(crate) fn one(&self, experiment: &Experiment) -> Result<ExperimentCell, Mistakes> {
        let cell = experiment.cell(self.server.as_deref(), self.workload.as_deref());
        cell.map_err(Mistakes::of)
    }

    /// All cells with these names; all of the experiment if none is given.
    pub(crate) fn all(&self, experiment: &Experiment) -> Result<Vec<ExperimentCell>, Mistakes> {
        let is_wanted =
            |name: &str, wanted: &Option<String>| wanted.as_ref().is_none_or(|w| w == name);
        let mut cells = experiment.cells();
        cells.retain(|cell| {
            is_wanted(&cell.server_name, &self.server)
                && is_wanted(&cell.workload_name, &self.workload)
        });
        if cells.is_empty() {
            // An unknown name: report it with the existing ones.
            cells.push(self.one(experiment)?);
        }
        Ok(cells)
    }
}

/// Number of concurrent searches.
pub(crate) fn threads(said: Option<NonZeroUsize>) -> NonZeroUsize {
    let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    said.unwrap_or_else(all)
}

/// Reads and checks an experiment file.
pub(crate) fn load(file: &Path, is_quick: bool) -> anyhow::Result<Experiment> {
    let experiment = Experiment::load(file, is_quick).map_err(Mistakes::of)?;
    experiment.check_workloads(file).map_err(Mistakes::of)?;
    Ok(experiment)
}

impl CommonBenchArgs {
    fn load(&self) -> anyhow::Result<(Experiment, BenchOptions)> {
        let experiment = load(&self.file, self.quick)?;
        let options = self.output.options(&experiment.name, self.quick)?;
        Ok((experiment, options))
    }
}

impl BenchOutput {
    /// An option that names a single file or folder for one result, if given.
    pub(crate) fn one_page(&self) -> Option<&'static str> {
        let given = [
            ("--results", self.results.is_some()),
            ("--report", self.report.is_some()),
            ("--json", self.json),
        ];
        let given = given.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(option, _)| option)
    }

    /// Bench options for an experiment of this name.
    pub(crate) fn options(&self, name: &str, is_quick: bool) -> anyhow::Result<BenchOptions> {
        let own = std::env::current_exe()
            .map_err(|error| anyhow!("the path of this program is unknown: {error}"))?;
        let headlong = own.with_file_name("headlong");
        if !headlong.is_file() {
            let path = headlong.display();
            anyhow::bail!(
                "{path} is missing; `make build` builds it beside {}",
                own.display()
            );
        }
        let folder = match is_quick {
            true => format!("{name}-quick"),
            false => name.to_owned(),
        };
        let results = || PathBuf::from("bench-results").join(folder);
        Ok(BenchOptions {
            headlong,
            store: self.store.clone().unwrap_or_else(default_store),
            results: self.results.clone().unwrap_or_else(results),
            resumes: self.resume,
            report: self.report.clone(),
            json: self.json,
            command_line: command_line(std::env::args_os().skip(1)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_needs_unit() {
        assert_eq!(rate("70MiB/s"), Ok(70.0 * 1_048_576.0));
        assert_eq!(rate("40Mbit/s"), Ok(5e6));
        let error = rate("70").expect_err("no unit");
        assert!(error.contains("unit"), "{error}");
        for wrong in ["", "0", "0MiB/s", "-1", "inf", "70 apples", "25M/s"] {
            rate(wrong).expect_err(wrong);
        }
    }
}
