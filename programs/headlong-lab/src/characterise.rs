//! `headlong trace characterise`: viewers' behaviour, from the server's logs.

use std::path::PathBuf;

use anyhow::Context as _;
use headlong_chain_sim::read_bytes_per_s;
use headlong_trace::{
    CHARACTERISE_TABLES, CharacteriseSettings, Intake, characterise as characterise_log,
    characterise_bytes_max, page,
};
use headlong_workload::phased::{BytesKnown, fit};

use crate::mistake::Mistakes;
use crate::output::{counting, have_folders, print_report};
use crate::request_logs::{JoinArgs, Logs};
use crate::trace_parts::{characterise_shard, no_shards};
use headlong_report::{command_line, say};

/// Options that a shard was already read with, and those of a report.
const ONE_RUN: [&str; 16] = [
    "files",
    "format",
    "log_format",
    "session_field",
    "trusted",
    "title_rule",
    "allow_dropped",
    "session_idle",
    "spill",
    "check",
    "html",
    "json",
    "tables",
    "spec",
    "thesis",
    "title",
];

/// Characterise viewers' behaviour: tables and figures of a log
///
/// Reads access logs of any common server (the format is detected from its first lines), divides
/// them into sessions, chains and phases, and reports for operators and planners: popularity of
/// titles, bit rates selected, share of a title fetched, how sequential reads are, session lengths,
/// pauses. The report starts with the properties of the log that were recognised, dropped lines
/// with reasons, and missing data, with server configuration lines that would log it. For example:
///
///   headlong trace characterise access.log --check
///   headlong trace characterise access.log.*.gz --html report.html
///   headlong trace characterise requests.csv --files files.csv --json > told.json
///   zcat old.gz | headlong trace characterise - --tables parquet/ --spec mine.toml
///
/// A line that cannot be read is counted and shown in the report; it is never fatal.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Characterise {
    #[command(flatten)]
    logs: Logs,
    /// One page with all tables and figures, for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Everything as JSON on standard output (docs/schemas/characterisation-2.json), with the
    /// specification if there is --spec too
    #[arg(long)]
    json: bool,
    /// Tables requests, chains, phases and sessions as Parquet, for DuckDB, Polars or Spark
    #[arg(long, value_name = "DIR")]
    tables: Option<PathBuf>,
    /// A workload specification fitted to the log, for `headlong workload generate` and `headlong
    /// simulate plan`
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Compare the figures with those published in J. Summers' thesis
    #[arg(long)]
    thesis: bool,
    /// The same
    #[arg(long, value_name = "WHOSE", value_parser = ["thesis"], hide = true)]
    beside: Option<String>,
    /// Sum the sessions of one shard of `headlong trace split` into a file, for `headlong trace merge`
    #[arg(long, value_name = "FILE", conflicts_with_all = ONE_RUN)]
    partial: Option<PathBuf>,
    #[command(flatten)]
    joining: JoinArgs,
    /// Title of the report
    #[arg(long, value_name = "TEXT", default_value = "")]
    title: String,
}

impl Characterise {
    /// All output files.
    fn outputs(&self) -> Vec<PathBuf> {
        let tables = self
            .tables
            .iter()
            .flat_map(|folder| CHARACTERISE_TABLES.map(|table| folder.join(table)));
        self.html
            .iter()
            .chain(&self.spec)
            .cloned()
            .chain(tables)
            .collect()
    }
}

/// Runs the verb.
pub(crate) fn characterise(arguments: &Characterise) -> anyhow::Result<()> {
    if let Some(partial) = &arguments.partial {
        let logs = &arguments.logs;
        let rules = arguments.joining.rules();
        return characterise_shard(logs.paths(), partial, rules, logs.resources());
    }
    no_shards(arguments.logs.paths())?;
    arguments.logs.are_kept(&arguments.outputs())?;
    have_folders(&[
        ("--html", arguments.html.as_deref()),
        ("--spec", arguments.spec.as_deref()),
    ])?;
    let intake = Intake {
        keep_unplaced: true,
        ..arguments.logs.intake()?
    };
    let bound = intake.memory_bound().map_err(Mistakes::of)?;
    say!("headlong: memory for the log: {bound}");
    let Some(taken) = arguments.logs.take_in(&intake, arguments.json)? else {
        return Ok(());
    };
    if arguments.spec.is_some() && !taken.has_offsets() {
        let mistake = "--spec: a log without byte ranges gives no specification";
        return Err(Mistakes::of(mistake).into());
    }
    let more = characterise_bytes_max(&taken, intake.threads);
    say!(
        "headlong: {} requests of {} sessions; memory for sums: at most {} MiB",
        taken.requests,
        taken.sessions,
        more.div_ceil(1 << 20)
    );
    if let Some(folder) = &arguments.tables {
        std::fs::create_dir_all(folder).with_context(|| {
            format!(
                "{}: no such folder, and it cannot be created",
                folder.display()
            )
        })?;
    }
    let settings = CharacteriseSettings {
        rules: arguments.joining.rules(),
        threads: intake.threads,
        tables: arguments.tables.clone(),
        title: arguments.title.clone(),
        command: command_line(std::env::args_os().skip(1)),
    };
    let bar = counting(taken.requests, "adding up");
    let mut result = characterise_log(&taken, &settings, |done| bar.set_position(done))?;
    bar.finish_and_clear();
    if arguments.thesis || arguments.beside.is_some() {
        result = result.beside_thesis();
    }
    if let Some(path) = &arguments.html {
        page(&result).write(path)?;
        say!("headlong: the report is {}", path.display());
    }
    if let Some(path) = &arguments.spec {
        // The fit takes some seconds: it generates trial logs.
        let mut specification = fit(&result.observed);
        let known = taken.catalogue_bytes();
        specification.catalogue.bytes = known.bytes;
        specification.catalogue.bytes_are = match known.is_least {
            true => BytesKnown::AtLeast,
            false => BytesKnown::Exact,
        };
        let pace = read_bytes_per_s(&taken, intake.threads)?;
        specification.sessions.read_bytes_per_s = pace.map_or(0.0, f64::round);
        let specification = specification.to_toml();
        std::fs::write(path, &specification).with_context(|| {
            format!("{}: the specification could not be written", path.display())
        })?;
        result.specification = Some(specification);
        say!("headlong: the specification is {}", path.display());
    }
    print_report(&result, arguments.json)
}
