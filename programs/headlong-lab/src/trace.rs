//! `headlong trace`: analysis of request logs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use headlong_trace::{
    ChainSettings, ChainSums, ChainTable, Intake, IntakeResult, TableFile, TableForm,
};

use crate::characterise::{Characterise, characterise};
use crate::mistake::Mistakes;
use crate::output::print;
use crate::request_logs::{JoinArgs, Logs, dropped};
use crate::trace_parts::{Merge, Split, merge, split};
use headlong_report::say;

/// Read request logs of any server and report viewers' behaviour
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Trace {
    Chains(Box<Chains>),
    Characterise(Box<Characterise>),
    Split(Box<Split>),
    Merge(Merge),
}

/// Join the requests of logs to chains: sequential reads (thesis 5.3)
///
/// A chain consists of requests of one session for adjacent ranges of one file, each received
/// within 40 s of the next, in any order and on any connections. The table has the columns
/// session,file,start,length,t_start,t_end,open,nreq (times in ms, sizes in bytes), sorted by
/// session, t_start, file, start, and the longest first. docs/lab/trace-chains.md has the rules.
///
///   headlong trace chains requests.csv --files files.csv --out chains.csv
///   headlong trace chains access.log.*.gz --out chains.parquet --gap idle
///   zcat old.gz | headlong trace chains - --out - --link component | head
///
/// A line that cannot be read is counted and reported; it is never fatal.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Chains {
    #[command(flatten)]
    logs: Logs,
    /// Output table: comma-separated values, or Parquet if the name ends with .parquet; - is
    /// standard output
    #[arg(long, value_name = "CHAINS")]
    out: PathBuf,
    #[command(flatten)]
    joining: JoinArgs,
    /// Print a summary as JSON on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(crate) fn trace(command: &Trace) -> anyhow::Result<()> {
    match command {
        Trace::Chains(arguments) => chains(arguments),
        Trace::Characterise(arguments) => characterise(arguments),
        Trace::Split(arguments) => split(arguments),
        Trace::Merge(arguments) => merge(arguments),
    }
}

fn chains(arguments: &Chains) -> anyhow::Result<()> {
    arguments.logs.are_kept([&arguments.out])?;
    let intake = Intake {
        // Chains do not depend on estimated properties of files.
        estimates: false,
        devices_and_drives: false,
        ..arguments.logs.intake()?
    };
    let bound = intake.memory_bound().map_err(Mistakes::of)?;
    say!("headlong: memory: {bound}");
    let is_stream = arguments.out == Path::new("-");
    let table = (!is_stream)
        .then(|| TableFile::begin(&arguments.out))
        .transpose()
        .map_err(Mistakes::of)?;
    let is_output_taken = is_stream || arguments.json;
    let Some(log) = arguments.logs.take_in(&intake, is_output_taken)? else {
        return Ok(());
    };
    let settings = ChainSettings {
        rules: arguments.joining.rules(),
        threads: intake.threads,
        // Memory of the intake has not been released yet; chains are fewer and smaller than
        // requests.
        keep_bytes_max: intake.memory_bytes_max / 4,
    };
    let sums = match table {
        Some(table) => table.finish(&log, &settings)?,
        None => {
            let folder = intake.spill.clone().unwrap_or_else(std::env::temp_dir);
            let table = ChainTable::join(&log, &settings, TableForm::Text, &folder)?;
            match table.write(std::io::stdout().lock()) {
                // The reader has closed the pipe.
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
                written => written?,
            }
            table.sums
        }
    };
    let told = if arguments.json {
        json(&sums, &log)
    } else {
        text(&sums)
    };
    if is_stream {
        say!("{}", told.trim_end());
        return Ok(());
    }
    print(&told)
}

fn text(sums: &ChainSums) -> String {
    let share = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
    let per_chain = |sum: u64| sum as f64 / sums.chains.max(1) as f64;
    let mut text = format!(
        "{} chains of {} requests in {} sessions\n",
        sums.chains, sums.joined, sums.sessions
    );
    let _ = writeln!(
        text,
        "a chain has {:.1} requests and {:.2} MB (10^6 bytes) on average; {:.1} % are open-ended",
        per_chain(sums.joined),
        per_chain(sums.bytes) / 1e6,
        share(sums.open, sums.chains),
    );
    let without = sums.requests - sums.joined;
    if without > 0 {
        let _ = writeln!(text, "{without} requests got no byte and are in no chain");
    }
    text
}

fn json(sums: &ChainSums, log: &IntakeResult) -> String {
    let dropped: serde_json::Map<_, _> = dropped(log)
        .map(|lines| (lines.reason.to_string(), lines.count.into()))
        .collect();
    let told = serde_json::json!({
        "requests": sums.requests,
        "joined": sums.joined,
        "sessions": sums.sessions,
        "chains": sums.chains,
        "bytes": sums.bytes,
        "open": sums.open,
        "dropped": dropped,
    });
    format!("{told:#}\n")
}
