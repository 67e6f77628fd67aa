//! `headlong workload`: traces, their statistics, and the files that they request.

use std::path::PathBuf;

use headlong_units::Duration;
use headlong_workload::specification::ArrivalDistribution;
use headlong_workload::{Specification, generate_in_steps};

use crate::describe::{DescribeArgs, describe};
use crate::fill::{FillArgs, fill};
use crate::mistake::Mistakes;
use crate::phased::{self, LogFiles};
use crate::spec_args::{SpecArgs, is_of_phases};

/// Largest number of sessions of a log as a trace, which is held in memory.
const PLAYED_SESSIONS_MAX: u64 = 20_000;

/// Generate viewers (traces) and the files that they request.
///
/// SPEC is a preset (youtube-sd, youtube-hd, youtube-2011, youtube-2011-2mb, flashstream,
/// dash-vod, netflix-2014-catalog) or a TOML file; docs/lab/workload.md lists its keys.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Workload {
    /// Write a trace: arrivals of viewers and their requests
    ///
    /// The same SPEC, seed and options give the same bytes. For example:
    ///
    ///   headlong workload generate youtube-sd --rate 60MiB/s --length 15min -o sd.trace
    ///   headlong workload generate youtube-2011 --set catalogue.chunk=512KiB -o chunks.trace
    ///   headlong workload generate netflix-2014-catalog --sessions 1000 -o netflix.trace
    ///   headlong workload generate netflix-2014-catalog --log log.csv --files files.csv
    #[command(verbatim_doc_comment)]
    Generate(GenerateArgs),
    /// Describe a specification or a trace, and compare it with published figures
    ///
    /// Prints the parameters (thesis Tables 3.1 and 3.2), and their results (Table 3.3). For
    /// example:
    ///
    ///   headlong workload describe youtube-2011
    ///   headlong workload describe youtube-sd --text > mine.toml
    ///   headlong workload describe sd.trace --json
    ///   headlong workload describe netflix-2014-catalog --sessions 126064
    #[command(verbatim_doc_comment)]
    Describe(DescribeArgs),
    /// Create the files requested by a trace
    ///
    /// Titles are created in a random order, the same in every form of storage, each in one piece.
    /// Existing files are kept, so an interrupted run can be continued. For example:
    ///
    ///   headlong workload fill /mnt/videos --spec youtube-sd
    ///   headlong workload fill /mnt/videos --spec youtube-sd --verify sample
    ///   headlong workload fill /mnt/videos --spec netflix-2014-catalog --sessions 20
    #[command(verbatim_doc_comment)]
    Fill(FillArgs),
}

/// Arguments of `workload generate`.
#[derive(Debug, clap::Args)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    spec: SpecArgs,
    /// Arrival rate: sessions like 2.5/s, or bytes requested by all viewers together, like 60MiB/s
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Time during which viewers arrive, such as 15min
    #[arg(
        long,
        visible_alias = "duration",
        value_name = "TIME",
        conflicts_with = "sessions"
    )]
    length: Option<String>,
    /// From TIME on, viewers arrive FACTOR times as often as --rate says: 600s=1.25 (repeatable, in
    /// order of time)
    #[arg(long, value_name = "TIME=FACTOR", value_parser = step, requires = "rate")]
    step: Vec<(Duration, f64)>,
    /// Number of viewers
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    sessions: Option<u64>,
    /// Another seed gives other viewers and choices with the same titles
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Viewers download as fast as they can
    #[arg(long)]
    no_pacing: bool,
    /// Viewers have no limit of bandwidth and no delay
    #[arg(long)]
    unthrottled: bool,
    /// Output file; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    log: LogFiles,
}

/// `600s=1.25`.
fn step(text: &str) -> Result<(Duration, f64), String> {
    let step = text.split_once('=').and_then(|(time, factor)| {
        let factor: f64 = factor.parse().ok()?;
        let is_valid = factor.is_finite() && factor > 0.0;
        is_valid.then_some((time.parse().ok()?, factor))
    });
    step.ok_or_else(|| format!("`{text}` is not a step; write it like 600s=1.25"))
}

/// Runs the verb.
pub(crate) fn workload(command: &Workload) -> anyhow::Result<()> {
    match command {
        Workload::Generate(arguments) => write_trace(arguments),
        Workload::Describe(arguments) => describe(arguments),
        Workload::Fill(arguments) => fill(arguments),
    }
}

impl GenerateArgs {
    /// The specification with the values of the options.
    fn specification(&self) -> anyhow::Result<Specification> {
        let name = &self.spec.name;
        let is_phased = is_of_phases(name);
        let mut wrong = Vec::new();
        for (is_given, flag, remedy) in [
            (
                self.no_pacing,
                "--no-pacing",
                "its devices fill a buffer; remove it",
            ),
            (
                self.unthrottled,
                "--unthrottled",
                "write --set network.headroom=1000",
            ),
        ] {
            if is_given && is_phased {
                wrong.push(format!("{flag}: {name} is a workload of phases; {remedy}"));
            }
        }
        Mistakes::if_any(wrong)?;
        let scaled = self.sessions.filter(|_| is_phased);
        let mut changes = Vec::new();
        let mut change =
            |key, value: Option<String>| changes.extend(value.map(|value| (key, value)));
        change("sessions.rate", self.rate.clone());
        change("sessions.length", self.length.clone());
        change(
            "sessions.count",
            self.sessions
                .filter(|_| !is_phased)
                .map(|count| count.to_string()),
        );
        change(
            "requests.pacing",
            self.no_pacing.then(|| "false".to_string()),
        );
        change(
            "requests.throttled",
            self.unthrottled.then(|| "false".to_string()),
        );
        self.spec.changes.read_scaled(name, &changes, scaled)
    }
}

fn write_trace(arguments: &GenerateArgs) -> anyhow::Result<()> {
    let specification = arguments.specification()?;
    if arguments.log.is_asked() {
        let Some(phases) = specification.phases else {
            let text = format!(
                "--log, --files: {} is not a workload of phases and has no log; \
                 try netflix-2014-catalog",
                arguments.spec.name
            );
            return Err(Mistakes::of(text).into());
        };
        return arguments.log.write(&phases, arguments.seed);
    }
    let is_logged = specification.sessions.arrivals == ArrivalDistribution::Logged;
    let sessions = specification.phases.as_ref().filter(|_| is_logged);
    let count = sessions.map_or(0, |phases| phases.sessions.count);
    if count > PLAYED_SESSIONS_MAX {
        let text = format!(
            "{}: a trace of {count} sessions does not fit in memory; write --sessions 1000 (at most \
             {PLAYED_SESSIONS_MAX}), --rate and --length, or a log with --log",
            specification.name
        );
        return Err(Mistakes::of(text).into());
    }
    if !arguments.step.is_sorted_by_key(|(from, _)| *from) {
        return Err(Mistakes::of("--step: the times descend; write them in order").into());
    }
    let trace = generate_in_steps(&specification, arguments.seed, &arguments.step).trace;
    let text = trace.to_text();
    phased::written(&arguments.output, |out| out.write_all(text.as_bytes()))
}
