//! `headlong simulate EXPERIMENT`: an experiment of the bench in virtual time.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use headlong_bench::{BenchOptions, VirtualOptions, default_store, simulate, simulate_run};
use headlong_report::{command_line, shell_word};
use headlong_units::Duration;

use crate::bench::{ExperimentSelection, judge, load, rate, threads};

/// Arguments of `headlong simulate EXPERIMENT`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SimulatedArgs {
    /// An experiment of `headlong bench`, in TOML: all its servers and workloads in virtual time,
    /// as far as they can be simulated
    #[arg(value_name = "EXPERIMENT", required = true)]
    file: Option<PathBuf>,
    /// Use the values of its table [quick]
    #[arg(long, help_heading = "Runs")]
    quick: bool,
    #[command(flatten)]
    names: ExperimentSelection,
    /// Make one run at this rate, such as 25MiB/s, instead of searching the highest without
    /// failures
    #[arg(long, help_heading = "Runs", value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// Seed of the sessions [default: the experiment's]
    #[arg(long, help_heading = "Runs", value_name = "NUMBER")]
    seed: Option<u64>,
    /// Wall time that the machine adds to each request of the drive, such as 200us: zero for a real
    /// drive, some for an emulated one (`headlong bench agree` measures it)
    #[arg(long, help_heading = "Runs", value_name = "TIME", default_value = "0s")]
    turnaround: Duration,
    /// Concurrent searches [default: the number of processors]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Folder for the records of runs [default: bench-results/NAME-virtual]
    #[arg(long, help_heading = "Results", value_name = "DIR")]
    results: Option<PathBuf>,
    /// Skip runs that already have a record
    #[arg(long, help_heading = "Results")]
    resume: bool,
    /// The page with charts [default: report.html among the results]
    #[arg(long, help_heading = "Results", value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long, help_heading = "Results")]
    json: bool,
}

/// Runs the verb.
pub(crate) fn simulate_experiment(arguments: &SimulatedArgs) -> anyhow::Result<()> {
    let file = arguments.file.clone().unwrap_or_default();
    let mut experiment = load(&file, arguments.quick)?;
    let quick = if arguments.quick { " --quick" } else { "" };
    let how = VirtualOptions {
        turnaround: arguments.turnaround,
        replay: format!(
            "headlong simulate {}{quick} --turnaround {}",
            shell_word(&file),
            arguments.turnaround
        ),
        threads: threads(arguments.threads),
    };
    let options = arguments.options(&experiment.name);
    if let Some(rate) = arguments.rate {
        let cell = arguments.names.one(&experiment)?;
        let seed = arguments.seed.unwrap_or(experiment.seed);
        let ending = simulate_run(&experiment, &cell, (rate, seed), &how, &options)?;
        return judge(ending);
    }
    experiment.seed = arguments.seed.unwrap_or(experiment.seed);
    let cells = arguments.names.all(&experiment)?;
    judge(simulate(&experiment, &cells, &how, &options)?)
}

impl SimulatedArgs {
    fn options(&self, name: &str) -> BenchOptions {
        let quick = if self.quick { "-quick" } else { "" };
        let results = || PathBuf::from("bench-results").join(format!("{name}{quick}-virtual"));
        BenchOptions {
            headlong: PathBuf::new(),
            store: default_store(),
            results: self.results.clone().unwrap_or_else(results),
            resumes: self.resume,
            report: self.report.clone(),
            markdown: None,
            json: self.json,
            command_line: command_line(std::env::args_os().skip(1)),
        }
    }
}
