//! `headlong trace characterise`: what viewers did, from the server's logs.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::Context as _;
use headlong_characterise::Characterisation;
use headlong_trace::{
    CHARACTERISE_TABLES, CharacteriseSettings, Intake, characterise as characterise_log,
    characterise_bytes_max, page,
};
use headlong_workload::phased::fit;
use indicatif::{ProgressBar, ProgressStyle};

use crate::mistake::Mistakes;
use crate::output::{have_folders, print_line};
use crate::request_logs::{Joining, Logs, mistake};
use headlong_report::{command_line, say};

/// Tell what viewers did: tables and figures of a log
///
/// Reads access logs of any common server (its format is recognised by its first lines), cuts them
/// into sessions, chains and phases, and tells what operators and planners ask: how popular titles
/// are, which bit rates viewers choose, how much of a title they fetch, how sequential they read,
/// how long they stay, where they pause. First comes what was understood of the log, what was
/// dropped and why, and what it does not tell, with the lines for a server's configuration that
/// would. For example:
///
///   headlong trace characterise access.log --check
///   headlong trace characterise access.log.*.gz --html report.html
///   headlong trace characterise requests.csv --files files.csv --json > told.json
///   zcat old.gz | headlong trace characterise - --tables parquet/ --spec mine.toml
///
/// A line that cannot be read is counted and shown in the report, never fatal.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Characterise {
    #[command(flatten)]
    logs: Logs,
    /// One page with all tables and figures, to be opened in a browser
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
    /// The published figures of J. Summers' thesis beside those of the log
    #[arg(long)]
    thesis: bool,
    /// The same
    #[arg(long, value_name = "WHOSE", value_parser = ["thesis"], hide = true)]
    beside: Option<String>,
    #[command(flatten)]
    joining: Joining,
    /// What the report is called
    #[arg(long, value_name = "TEXT", default_value = "")]
    title: String,
}

impl Characterise {
    /// All files that it writes.
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

/// Does it.
pub(crate) fn characterise(arguments: &Characterise) -> anyhow::Result<()> {
    arguments.logs.are_kept(&arguments.outputs())?;
    have_folders(&[
        ("--html", arguments.html.as_deref()),
        ("--spec", arguments.spec.as_deref()),
    ])?;
    let intake = Intake {
        keep_unplaced: true,
        ..arguments.logs.intake()?
    };
    let bound = intake.memory_bound().map_err(|error| mistake(&error))?;
    say!("headlong: memory for the log: {bound}");
    let Some(taken) = arguments.logs.take_in(&intake, arguments.json)? else {
        return Ok(());
    };
    if arguments.spec.is_some() && !taken.has_offsets() {
        let mistake = "--spec: a log that does not say which bytes were asked for gives none";
        return Err(Mistakes(vec![mistake.to_owned()]).into());
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
                "{}: no such folder, and it cannot be made",
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
    let bar = counting(taken.requests);
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
        // This takes some seconds: logs of it are tried.
        let specification = fit(&result.observed).to_toml();
        std::fs::write(path, &specification).with_context(|| {
            format!("{}: the specification could not be written", path.display())
        })?;
        result.specification = Some(specification);
        say!("headlong: the specification is {}", path.display());
    }
    print(&result, arguments.json)
}

fn print(result: &Characterisation, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return print_line(&serde_json::to_string_pretty(result)?);
    }
    let mut text = String::from("\n");
    for id in ["table-5.1", "table-5.2", "table-5.4", "table-phases"] {
        for table in result.tables().filter(|table| table.id == id) {
            text.push_str(&headlong_trace::text(table));
            text.push('\n');
        }
    }
    crate::output::print(&text)
}

/// How far it is, if somebody is looking.
fn counting(requests: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(requests);
    if let Ok(style) = ProgressStyle::with_template("adding up {wide_bar} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar
}
