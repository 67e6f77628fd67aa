//! `headlong trace characterise`: what viewers did, told from the server's logs.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use headlong_chains::{Gap, Link, Rules};
use headlong_trace::told::{
    Characterisation, Telling, characterise as tell, page, telling_bytes_max,
};
use headlong_trace::{Format, Intake, IntakeError, Progress, take_in};
use headlong_units::Bytes;
use indicatif::{ProgressBar, ProgressStyle};

use crate::mistake::Mistakes;

/// Tell what viewers did: tables and figures of a log
///
/// Reads access logs of any common server (its format is recognised by its first lines), cuts them
/// into sessions, chains and phases, and tells what operators and planners ask: how popular titles
/// are, which bit rates viewers choose, how much of a title they fetch, how sequential they read,
/// how long they stay, where they pause. Tables and figures have the numbers of their counterparts
/// in chapter 5 of J. Summers' thesis. For example:
///
///   headlong trace characterise access.log.*.gz --html report.html
///   headlong trace characterise requests.csv --files files.csv --json > told.json
///   zcat old.gz | headlong trace characterise - --tables parquet/ --spec mine.toml
///
/// A line that cannot be read is counted and shown in the report, never fatal.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Characterise {
    /// Logs, plain or packed (gz, zst), CSV, JSON lines or Parquet; - is standard input
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
    /// What files are: file,title,kind,kbps,size,disk,duration_s (kind 0 audio, 1 video, 2 combined)
    ///
    /// Without it, kinds, bit rates and sizes are estimated from names and requests, and the report
    /// says so.
    #[arg(long, value_name = "FILE")]
    files: Option<PathBuf>,
    /// Format of the logs if it is not recognised: a name, or nginx's log_format or Apache's
    /// LogFormat word for word
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Column, key or variable that names the session
    #[arg(long, value_name = "NAME")]
    session_field: Option<String>,
    /// A viewer without a session's name begins a new one after so many seconds without a request
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    session_idle: u64,
    /// One page with all tables and figures, to be opened in a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Everything as JSON on standard output (docs/schemas/characterisation-1.json)
    #[arg(long)]
    json: bool,
    /// Tables requests, chains, phases and sessions as Parquet, for DuckDB, Polars or Spark
    #[arg(long, value_name = "DIR")]
    tables: Option<PathBuf>,
    /// A workload specification fitted to the log, for `headlong workload generate`
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Published numbers beside those of the log
    #[arg(long, value_name = "WHOSE", value_parser = ["thesis"])]
    beside: Option<String>,
    /// What the gap of two requests of a chain is measured between
    #[arg(long, value_name = "HOW", default_value = "received", value_parser = ["received", "idle"])]
    gap_from: String,
    /// How requests that touch are joined: one successor each, or everything that touches
    #[arg(long, value_name = "HOW", default_value = "one-to-one", value_parser = ["one-to-one", "component"])]
    link: String,
    /// Memory for reading and for requests that wait; what does not fit waits in a file
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: Bytes,
    /// Threads; all cores if it is not given
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// Folder for requests that do not fit in memory
    #[arg(long, value_name = "DIR")]
    spill: Option<PathBuf>,
    /// What the report is called
    #[arg(long, value_name = "TEXT", default_value = "")]
    title: String,
}

/// Does it.
pub(crate) fn characterise(arguments: &Characterise) -> anyhow::Result<()> {
    let intake = intake(arguments)?;
    let bound = intake.memory_bound().map_err(mistake)?;
    eprintln!("headlong: memory for the log: {bound}");
    let bar = Bar::new();
    let taken = take_in(&intake, &bar).map_err(mistake)?;
    bar.0.finish_and_clear();
    let more = telling_bytes_max(&taken, intake.threads);
    eprintln!(
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
    let telling = Telling {
        rules: rules(arguments),
        threads: intake.threads,
        tables: arguments.tables.clone(),
        title: arguments.title.clone(),
        command: command(),
    };
    let bar = Bar::counting(taken.requests);
    let mut told = tell(&taken, &telling, |done| bar.set_position(done))?;
    bar.finish_and_clear();
    if arguments.beside.is_some() {
        told = told.beside_thesis();
    }
    if let Some(path) = &arguments.html {
        page(&told).write(path)?;
        eprintln!("headlong: the report is {}", path.display());
    }
    print(&told, arguments.json)
}

fn intake(arguments: &Characterise) -> anyhow::Result<Intake> {
    let format = match &arguments.format {
        Some(text) => Some(
            text.parse::<Format>()
                .map_err(|error| Mistakes(vec![error.to_string()]))?,
        ),
        None => None,
    };
    let usual = Intake::default();
    Ok(Intake {
        logs: arguments.logs.clone(),
        files: arguments.files.clone(),
        format,
        session_field: arguments.session_field.clone(),
        session_idle: Duration::from_secs(arguments.session_idle),
        memory_bytes_max: arguments.memory.0,
        threads: arguments.threads.unwrap_or(usual.threads).max(1),
        spill: arguments.spill.clone(),
    })
}

fn rules(arguments: &Characterise) -> Rules {
    Rules {
        gap: match arguments.gap_from.as_str() {
            "idle" => Gap::Idle,
            _ => Gap::Received,
        },
        link: match arguments.link.as_str() {
            "component" => Link::Component,
            _ => Link::OneToOne,
        },
        ..Rules::default()
    }
}

/// What a person can mend at the command line ends with the code for that.
fn mistake(error: IntakeError) -> anyhow::Error {
    match error {
        IntakeError::Spill { .. } | IntakeError::Parts(_) => error.into(),
        other => Mistakes(vec![other.to_string()]).into(),
    }
}

/// The command as it was given, so that a report can be made again.
fn command() -> String {
    let words = std::env::args()
        .enumerate()
        .map(|(place, word)| match place {
            0 => "headlong".to_string(),
            _ if word.contains([' ', '"', '$', '\'']) => {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
            _ => word,
        });
    words.collect::<Vec<_>>().join(" ")
}

fn print(told: &Characterisation, as_json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if as_json {
        serde_json::to_writer_pretty(&mut out, told)?;
        writeln!(out)?;
        return Ok(());
    }
    for id in ["table-5.1", "table-5.2", "table-5.4", "table-phases"] {
        for table in told.tables().filter(|table| table.id == id) {
            writeln!(out, "{}", headlong_trace::told::text(table))?;
        }
    }
    let dropped: u64 = told.about.dropped.iter().map(|dropped| dropped.count).sum();
    writeln!(out, "{dropped} lines were dropped.")?;
    for dropped in &told.about.dropped {
        writeln!(
            out,
            "  {} {}; such as {}",
            dropped.count, dropped.reason, dropped.sample
        )?;
    }
    Ok(())
}

/// How far it is, on a terminal only.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        Self(Self::styled(
            0,
            "{bar:30} {bytes} of {total_bytes}, {eta} to go",
        ))
    }

    fn counting(requests: u64) -> ProgressBar {
        Self::styled(requests, "{bar:30} {pos} of {len} requests, {eta} to go")
    }

    fn styled(length: u64, template: &str) -> ProgressBar {
        if !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(length);
        // A template that is wrong shows the usual bar.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar
    }
}

impl Progress for Bar {
    fn read(&self, bytes: u64, of: Option<u64>) {
        if let Some(of) = of {
            self.0.set_length(of);
        }
        self.0.set_position(bytes);
    }

    fn note(&self, note: &str) {
        self.0.suspend(|| eprintln!("headlong: {note}"));
    }
}
