//! `headlong workload`: traces, their statistics, and the files that they request.

use std::path::PathBuf;

use headlong_workload::{Dialect, Trace, generate};

use crate::describe::{DescribeArgs, describe};
use crate::fill::{FillArgs, fill};
use crate::mistake::Mistakes;
use crate::phased::{self, LogFiles};
use crate::spec_args::SpecArgs;

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
    /// Prints the parameters (thesis Tables 3.1 and 3.2), their results (Table 3.3), and plots. For
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
    /// Number of viewers
    #[arg(long, value_name = "COUNT")]
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
    /// Format of the trace: headlong is complete; httperf, videoperf and thesis are for other tools
    #[arg(long, value_name = "NAME", default_value = "headlong")]
    #[arg(value_parser = dialects())]
    dialect: String,
    /// Output file; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    log: LogFiles,
}

fn dialects() -> clap::builder::PossibleValuesParser {
    Dialect::ALL.map(|(name, _)| name).into()
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
    /// The specification of phases, if it is one.
    fn phased(&self) -> anyhow::Result<Option<headlong_workload::phased::PhasedSpecification>> {
        let overrides = self.spec.changes.overrides()?;
        let Some(specification) = phased::read(&self.spec.name, &overrides)? else {
            return Ok(None);
        };
        let mut wrong = Vec::new();
        for (is_given, flag, remedy) in [
            (
                self.rate.is_some(),
                "--rate",
                "it has --sessions in the time of sessions.length",
            ),
            (
                self.length.is_some(),
                "--length",
                "write --set sessions.length=1h",
            ),
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
            if is_given {
                wrong.push(format!(
                    "{flag}: {} is a workload of phases; {remedy}",
                    self.spec.name
                ));
            }
        }
        if !wrong.is_empty() {
            return Err(Mistakes(wrong).into());
        }
        phased::scaled(specification, self.sessions).map(Some)
    }

    fn trace(&self) -> anyhow::Result<Trace> {
        if let Some(specification) = self.phased()? {
            return phased::trace(&specification, self.seed);
        }
        let mut changes = Vec::new();
        let mut change =
            |key, value: Option<String>| changes.extend(value.map(|value| (key, value)));
        change("sessions.rate", self.rate.clone());
        change("sessions.length", self.length.clone());
        change(
            "sessions.count",
            self.sessions.map(|count| count.to_string()),
        );
        change(
            "requests.pacing",
            self.no_pacing.then(|| "false".to_string()),
        );
        change(
            "requests.throttled",
            self.unthrottled.then(|| "false".to_string()),
        );
        Ok(generate(&self.spec.read(&changes)?, self.seed).trace)
    }
}

fn write_trace(arguments: &GenerateArgs) -> anyhow::Result<()> {
    if arguments.log.is_asked() {
        let Some(specification) = arguments.phased()? else {
            let text = format!(
                "--log, --files: {} is not a workload of phases and has no log; \
                 try netflix-2014-catalog",
                arguments.spec.name
            );
            return Err(Mistakes(vec![text]).into());
        };
        return arguments.log.write(&specification, arguments.seed);
    }
    let trace = arguments.trace()?;
    let dialect = Dialect::ALL
        .iter()
        .find(|(name, _)| *name == arguments.dialect);
    let dialect = dialect.map_or(Dialect::Headlong, |(_, dialect)| *dialect);
    let text = trace.to_text(dialect);
    let text =
        text.map_err(|error| Mistakes(vec![format!("--dialect {}: {error}", arguments.dialect)]))?;
    phased::written(&arguments.output, |out| out.write_all(text.as_bytes()))
}
