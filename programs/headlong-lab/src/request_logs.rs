//! Request logs as arguments, and their intake with progress output.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use headlong_chains::{ChainRules, GapRule, LinkRule};
use headlong_trace::{
    DropReason, DroppedLines, Format, Intake, IntakeError, IntakeProgress, IntakeResult,
    TrustedProxies, summary, take_in,
};
use headlong_units::Bytes;
use indicatif::{ProgressBar, ProgressStyle};

use crate::mistake::{EXIT_DROPPED, Mistakes, Verdict, inputs_are_kept};
use crate::output::print_line;
use headlong_report::say;

/// Lines of each log read by a check.
const CHECKED_LINES: u64 = 10_000;

/// Arguments that select the logs and their format.
#[derive(Debug, clap::Args)]
pub(crate) struct LogSource {
    /// Logs, plain or compressed (gz, zst): access logs, CSV, JSON lines or Parquet; - is standard
    /// input
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
    /// Table of files: file,title,kind,kbps,size,disk,duration_s (kind 0 audio, 1 video, 2
    /// combined)
    #[arg(long, value_name = "FILES")]
    files: Option<PathBuf>,
    /// Name of the format, if it is not detected
    #[arg(long, value_name = "FORMAT", conflicts_with = "log_format")]
    format: Option<String>,
    /// Format of the logs as configured in the server: nginx's log_format or Apache's LogFormat,
    /// verbatim
    #[arg(long, value_name = "TEXT")]
    log_format: Option<String>,
    /// Name of the session id: a column, variable or key, a header, a cookie, or a key of the query
    #[arg(long, value_name = "NAME")]
    session_field: Option<String>,
    /// Proxies whose lists of clients' addresses (X-Forwarded-For) are believed: addresses and
    /// networks, separated by commas [default: private and loopback ranges, and the sender]
    #[arg(long, value_name = "CIDR,...")]
    trusted: Option<TrustedProxies>,
    /// Regular expression on file names whose single group is the title, such as '^/([^/]+)/'
    #[arg(long, value_name = "REGEX")]
    title_rule: Option<String>,
    /// Continue even if more than a tenth of the lines were dropped
    #[arg(long)]
    allow_dropped: bool,
    /// Seconds without a request after which a viewer without a session id starts a new session
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    session_idle: u64,
    /// Threads [default: one for each core, as far as half of the memory suffices]
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// Folder for spilled requests [default: that for temporary files]
    #[arg(long, value_name = "DIR")]
    spill: Option<PathBuf>,
}

/// Arguments of a command that reports on logs.
#[derive(Debug, clap::Args)]
pub(crate) struct Logs {
    #[command(flatten)]
    source: LogSource,
    /// Read the first 10,000 lines of each log, report how they were understood, and exit
    #[arg(long)]
    check: bool,
    /// Memory for reading and for pending requests; the rest is spilled to a file
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: Bytes,
}

/// Arguments for joining requests to chains.
#[derive(Debug, clap::Args)]
pub(crate) struct JoinArgs {
    /// How the 40 s are measured: between arrivals, in either order, as in the thesis; or from the
    /// completion of one request to the arrival of the other
    #[arg(long, visible_alias = "gap-from", value_name = "HOW", default_value = "received",
          value_parser = ["received", "idle"])]
    gap: String,
    /// One successor and one predecessor each, so that a repeated read is another chain; or all
    /// adjacent requests are one chain
    #[arg(long, value_name = "HOW", default_value = "one-to-one",
          value_parser = ["one-to-one", "component"])]
    link: String,
}

impl JoinArgs {
    /// The selected rules.
    pub(crate) fn rules(&self) -> ChainRules {
        ChainRules {
            gap: match self.gap.as_str() {
                "idle" => GapRule::Idle,
                _ => GapRule::Received,
            },
            link: match self.link.as_str() {
                "component" => LinkRule::Component,
                _ => LinkRule::OneToOne,
            },
            ..ChainRules::default()
        }
    }
}

impl LogSource {
    /// The parameters of the intake, with this memory for reading.
    pub(crate) fn intake(&self, memory_bytes_max: u64) -> anyhow::Result<Intake> {
        let configured = self.log_format.as_deref().map(Format::from_configuration);
        let format = configured.or(self.format.as_ref().map(|text| text.parse()));
        let usual = Intake::default();
        Ok(Intake {
            logs: self.logs.clone(),
            files: self.files.clone(),
            format: format.transpose().map_err(Mistakes::of)?,
            session_field: self.session_field.clone(),
            trusted: self.trusted.clone().unwrap_or_default(),
            session_idle: Duration::from_secs(self.session_idle),
            title_rule: self.title_rule.clone(),
            memory_bytes_max,
            threads: self
                .threads
                .unwrap_or_else(|| Intake::threads_for(memory_bytes_max))
                .max(1),
            spill: self.spill.clone(),
            ..usual
        })
    }

    /// An error if a result would overwrite an input.
    pub(crate) fn are_kept<'a>(
        &'a self,
        outputs: impl IntoIterator<Item = &'a PathBuf>,
    ) -> anyhow::Result<()> {
        inputs_are_kept(outputs, self.logs.iter().chain(&self.files))
    }

    /// Reads the logs, and reports how they were understood: on standard output, or on standard
    /// error if standard output is in use.
    pub(crate) fn take_in(
        &self,
        intake: &Intake,
        is_output_taken: bool,
    ) -> anyhow::Result<IntakeResult> {
        taken_in(intake, self.allow_dropped, is_output_taken)
    }
}

impl Logs {
    /// The given logs.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.source.logs
    }

    /// Memory and threads.
    pub(crate) fn resources(&self) -> (u64, usize) {
        let threads = self.source.threads;
        let threads = threads.unwrap_or_else(|| Intake::threads_for(self.memory.0));
        (self.memory.0, threads.max(1))
    }

    /// The parameters of the intake.
    pub(crate) fn intake(&self) -> anyhow::Result<Intake> {
        Ok(Intake {
            lines_max: self.check.then_some(CHECKED_LINES),
            ..self.source.intake(self.memory.0)?
        })
    }

    /// An error if a result would overwrite an input.
    pub(crate) fn are_kept<'a>(
        &'a self,
        outputs: impl IntoIterator<Item = &'a PathBuf>,
    ) -> anyhow::Result<()> {
        self.source.are_kept(outputs)
    }

    /// Reads the logs, and reports how they were understood. `None` for a check only.
    pub(crate) fn take_in(
        &self,
        intake: &Intake,
        is_output_taken: bool,
    ) -> anyhow::Result<Option<IntakeResult>> {
        let log = self
            .source
            .take_in(intake, is_output_taken && !self.check)?;
        Ok((!self.check).then_some(log))
    }
}

/// Reads the logs, and reports how they were understood.
pub(crate) fn taken_in(
    intake: &Intake,
    allow_dropped: bool,
    is_output_taken: bool,
) -> anyhow::Result<IntakeResult> {
    let bar = LogProgressBar::new();
    let log = take_in(intake, &bar).map_err(taking_in)?;
    bar.0.finish_and_clear();
    let is_too_little = log.is_mostly_dropped() && !allow_dropped;
    let dropped = &log.dropped;
    if log.requests + dropped.count() + dropped.others() == 0 {
        return Err(nothing("the log is empty"));
    }
    for line in summary(&log) {
        match is_output_taken || is_too_little {
            true => say!("headlong: {line}"),
            false => print_line(&line)?,
        }
    }
    if is_too_little {
        let reason = "more than a tenth of the lines were dropped, so no figures are reported; \
                      use --allow-dropped to report them anyway";
        return Err(nothing(reason));
    }
    if log.requests == 0 {
        return Err(nothing(
            "there is no request in the log, so nothing can be reported",
        ));
    }
    Ok(log)
}

fn nothing(reason: &str) -> anyhow::Error {
    Verdict::of(EXIT_DROPPED, reason).into()
}

/// Dropped lines, without headers and other lines that are not requests.
pub(crate) fn dropped(log: &IntakeResult) -> impl Iterator<Item = &DroppedLines> {
    let lines = log.dropped.by_reason().iter();
    lines.filter(|lines| lines.reason != DropReason::NotARequest)
}

/// Errors that the user can fix before the start are usage errors, the rest failures.
fn taking_in(error: IntakeError) -> anyhow::Error {
    match error {
        IntakeError::Names { .. } | IntakeError::Spill { .. } | IntakeError::Parts(_) => {
            error.into()
        }
        _ => Mistakes::of(error).into(),
    }
}

/// Progress of reading, on a terminal.
struct LogProgressBar(ProgressBar);

impl LogProgressBar {
    fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(0);
        let shape = "reading {wide_bar} {bytes}/{total_bytes} {eta}";
        if let Ok(style) = ProgressStyle::with_template(shape) {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl IntakeProgress for LogProgressBar {
    fn read(&self, bytes: u64, of: Option<u64>) {
        if let Some(of) = of {
            self.0.set_length(of);
        }
        self.0.set_position(bytes);
    }

    fn note(&self, note: &str) {
        self.0.suspend(|| say!("headlong: {note}"));
    }
}
