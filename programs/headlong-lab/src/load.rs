//! `headlong load`: plays a trace against a server.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use headlong_load::{
    LoadProgress, LoadSettings, PlayError, ProgressOutput, Recording, RunObserver, SourceAddresses,
    Target, TargetError, TimeScale, parse_ramp, play,
};
use headlong_player::ExportedCall;
use headlong_units::{BitRate, Bytes, Duration};
use headlong_workload::specification::ArrivalRate;
use headlong_workload::trace::with_arrivals;
use headlong_workload::{Ramp, Trace};

use crate::mistake::{EXIT_INVALID, Mistakes, Verdict, inputs_are_kept};
use crate::output::print;
use crate::records::{RecordsFile, RecordsThread};
use crate::stop::stop_on_signals;
use crate::trace_file::read_trace;

/// Play a trace of viewers against any HTTP server
///
/// Viewers arrive at the times in the trace, independent of the server; each has the bandwidth and
/// the delay of its network class; every byte received is checked. The result is invalid (exit code
/// 3) if this generator was late or short of resources. docs/lab/load.md describes the
/// measurements.
///
///   headlong load sd.trace http://127.0.0.1:8080/
///   headlong load sd.trace http://127.0.0.1:8080/ --time-scale 10 --json result.json
///       --ramp-up 300s --ramp-down 60s
///   headlong load old.wsesslog http://10.0.0.1/ --rate 2.5/s --bandwidth 3.5Mbps --delay 50ms
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LoadArgs {
    /// Trace, as `headlong workload generate` writes it, or in any dialect of wsesslog; - is standard
    /// input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Base URL of the objects in the trace, such as http://127.0.0.1:8080/
    #[arg(value_name = "URL")]
    url: String,
    /// Write each request as a row: its session, intended and actual time of sending, first byte,
    /// end, bytes, and outcome; comma-separated values, or Parquet if the name ends with .parquet
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    #[command(flatten)]
    playing: PlaybackArgs,
    /// Write the result as JSON; - is standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct PlaybackArgs {
    /// Run K times faster: arrivals, paces, timeouts and delays are divided by K, bandwidths are
    /// multiplied; results are in model time. The server's own times must be scaled, too
    #[arg(long, value_name = "K", default_value = "1")]
    time_scale: String,
    /// Arrival rate, if the trace has none or to override it: sessions like 2.5/s, or bytes
    /// requested like 60MiB/s
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Seed of the arrivals for --rate
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Exclude viewers who arrive at the start from the statistics: 300s, or 500sessions [default:
    /// as in the trace, else none]
    #[arg(long, value_name = "RAMP")]
    ramp_up: Option<String>,
    /// Exclude viewers who arrive at the end: 60s, or 200sessions [default: likewise]
    #[arg(long, value_name = "RAMP")]
    ramp_down: Option<String>,
    /// Bandwidth of all viewers instead of that of their class, such as 3.5Mbps
    #[arg(long, value_name = "RATE")]
    bandwidth: Option<String>,
    /// Delay (one way) of all viewers instead of that of their class, such as 50ms
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// Bytes of a chunk file, such as 512KiB [default: as in the trace]
    #[arg(long, value_name = "SIZE")]
    chunk: Option<String>,
    /// Whether bytes are compared with the titles written by `headlong workload fill`; objects with
    /// other names are not checked
    #[arg(long, value_name = "WHETHER", default_value = "on", value_parser = ["on", "off"])]
    verify: String,
    /// Play at most this many sessions of the trace
    #[arg(long, value_name = "COUNT")]
    sessions_max: Option<u64>,
    /// End when the last session arrives. Sessions in progress then are not counted; without this,
    /// the run continues with decreasing load until all sessions that count have ended
    #[arg(long)]
    end_with_arrivals: bool,
    /// End at the first failure in the steady state; the result is valid
    #[arg(long)]
    stop_at_failure: bool,
    /// Source addresses of viewers: `session` gives each its own within 127.0.0.0/8 if the server
    /// is on loopback, `kernel` leaves it to the kernel; or addresses of this machine, used in turn
    #[arg(long, value_name = "ADDR,...", default_value = "session")]
    source: String,
    /// Accept the result if at most one request in a hundred was sent later than this after its
    /// intended time, in wall time
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    late_max: String,
    /// Do not show progress
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the verb.
pub(crate) fn load(command: &LoadArgs) -> anyhow::Result<()> {
    let (file, url) = (&command.trace, &command.url);
    inputs_are_kept(command.json.iter().chain(&command.records), [file])?;
    let mut mistakes = Vec::new();
    let mut settings = command.playing.settings(&mut mistakes);
    let overrides = command.playing.overrides(&mut mistakes);
    let target = Target::new(url);
    match &target {
        Ok(target) => {
            let misfit = settings.sources.misfit(target.address());
            mistakes.extend(misfit.map(|misfit| format!("--source: {misfit}")));
        }
        Err(error @ TargetError::Url { .. }) => mistakes.push(error.to_string()),
        Err(_) => {}
    }
    let trace = read_trace(file).map_err(|wrong| mistakes.extend(wrong));
    let trace = trace.ok().and_then(|trace| {
        let applied = overrides.apply(trace, &mut settings);
        applied.map_err(|mistake| mistakes.push(mistake)).ok()
    });
    let Some(trace) = trace.filter(|_| mistakes.is_empty()) else {
        return Err(Mistakes(mistakes).into());
    };
    let mut result = ResultFile::create(command.json.as_deref())?;
    let records = command
        .records
        .as_deref()
        .map(RecordsFile::create)
        .transpose()?;
    settings.tells_calls = records.is_some();
    let target = target?;
    target.probe()?;

    let stop = stop_on_signals()?;
    let mut watching = LoadObserver {
        live: (!command.playing.quiet).then(ProgressOutput::stderr),
        records: records.map(RecordsThread::start),
    };
    let played = play(trace, &target, &settings, &stop, &mut watching);
    let recording = played.map_err(|error: PlayError| match error.is_usage() {
        true => Mistakes::of(format!("{}: {error}", file.display())).into(),
        false => anyhow::Error::from(error),
    })?;
    // Before the records file is finished: an error there must not lose the result.
    let mut lost = result.write(&recording);
    if let (Some(path), Some(records)) = (&command.records, watching.records) {
        let error = records.finish().err();
        lost.extend(error.map(|error| format!("{}: {error}", path.display())));
    }
    anyhow::ensure!(lost.is_empty(), "{}", lost.join("; "));
    judge(&recording)
}

/// Shows progress, and passes on the record of each call.
struct LoadObserver {
    live: Option<ProgressOutput<std::io::Stderr>>,
    records: Option<RecordsThread>,
}

impl RunObserver for LoadObserver {
    fn look(&mut self, glance: &LoadProgress<'_>) {
        if let Some(live) = &mut self.live {
            live.look(glance);
        }
    }

    fn calls(&mut self, calls: Vec<ExportedCall>) {
        if let Some(records) = &self.records {
            records.add(calls);
        }
    }
}

/// The value of an option, or `None` and a mistake.
fn flag<T, E: std::fmt::Display>(
    name: &str,
    text: Option<&String>,
    read: impl Fn(&str) -> Result<T, E>,
    mistakes: &mut Vec<String>,
) -> Option<T> {
    match read(text?) {
        Ok(value) => Some(value),
        Err(error) => {
            mistakes.push(format!("--{name}: {error}"));
            None
        }
    }
}

impl PlaybackArgs {
    fn settings(&self, mistakes: &mut Vec<String>) -> LoadSettings {
        let scale = flag("time-scale", Some(&self.time_scale), read_scale, mistakes);
        let chunk: Option<Bytes> = flag("chunk", self.chunk.as_ref(), str::parse, mistakes);
        let sources = flag("source", Some(&self.source), read_sources, mistakes);
        let late_max: Option<Duration> =
            flag("late-max", Some(&self.late_max), str::parse, mistakes);
        let late_max = std::time::Duration::from_nanos(late_max.unwrap_or_default().0);
        LoadSettings {
            late_max,
            time_scale: scale.unwrap_or(TimeScale::ONE),
            verify: self.verify == "on",
            stop_at_failure: self.stop_at_failure,
            end_with_arrivals: self.end_with_arrivals,
            sessions_max: self.sessions_max,
            chunk_bytes: chunk.map(|size| size.0),
            sources: sources.unwrap_or_default(),
            ..LoadSettings::default()
        }
    }

    fn overrides(&self, mistakes: &mut Vec<String>) -> TraceOverrides {
        let bandwidth = flag("bandwidth", self.bandwidth.as_ref(), str::parse, mistakes);
        if bandwidth == Some(BitRate(0)) {
            let remedy = "--bandwidth: 0 is not possible; leave it out for no limit";
            mistakes.push(remedy.into());
        }
        TraceOverrides {
            ramp_up: flag("ramp-up", self.ramp_up.as_ref(), parse_ramp, mistakes),
            ramp_down: flag("ramp-down", self.ramp_down.as_ref(), parse_ramp, mistakes),
            bandwidth,
            delay: flag("delay", self.delay.as_ref(), str::parse, mistakes),
            rate: flag("rate", self.rate.as_ref(), str::parse, mistakes),
            has_rate: self.rate.is_some(),
            seed: self.seed,
        }
    }
}

/// Options that override values of the trace.
struct TraceOverrides {
    ramp_up: Option<Ramp>,
    ramp_down: Option<Ramp>,
    bandwidth: Option<BitRate>,
    delay: Option<Duration>,
    rate: Option<ArrivalRate>,
    /// Whether a rate was given, valid or not.
    has_rate: bool,
    seed: u64,
}

impl TraceOverrides {
    /// Applies the options to the trace and the settings.
    fn apply(&self, mut trace: Trace, settings: &mut LoadSettings) -> Result<Trace, String> {
        settings.ramp_up = self.ramp_up.unwrap_or(trace.about.ramp_up);
        settings.ramp_down = self.ramp_down.unwrap_or(trace.about.ramp_down);
        settings.chunk_bytes = settings.chunk_bytes.or(trace.about.chunk_bytes);
        for class in &mut trace.classes {
            class.bandwidth = self.bandwidth.or(class.bandwidth);
            class.delay = self.delay.unwrap_or(class.delay);
        }
        match self.rate {
            Some(rate) => {
                with_arrivals(trace, rate, self.seed).map_err(|error| format!("--rate: {error}"))
            }
            None if !trace.about.has_arrivals && !self.has_rate => {
                Err("the trace has no arrivals; give --rate, like 2.5/s".into())
            }
            None => Ok(trace),
        }
    }
}

fn read_scale(text: &str) -> Result<TimeScale, String> {
    let scale = text.parse().ok().and_then(TimeScale::new);
    let max = TimeScale::MAX;
    scale.ok_or_else(|| format!("`{text}` is not a time scale; it is a number from 0.01 to {max}"))
}

fn read_sources(text: &str) -> Result<SourceAddresses, String> {
    match text {
        "session" => Ok(SourceAddresses::PerSession),
        "kernel" => Ok(SourceAddresses::Kernel),
        addresses => {
            let addresses = addresses.split(',').map(|address| address.trim().parse());
            let addresses: Result<_, _> = addresses.collect();
            addresses.map(SourceAddresses::These).map_err(|_| {
                format!("`{text}` is neither session, kernel, nor addresses like 10.0.0.2,10.0.0.3")
            })
        }
    }
}

/// Where the result goes. A file is opened before anything is sent: a missing folder must not lose
/// the result of a long run.
enum ResultFile<'a> {
    /// Only the text is printed.
    None,
    /// JSON to this file.
    Json(&'a Path, File),
    /// JSON to standard output.
    Printed,
}

impl<'a> ResultFile<'a> {
    fn create(path: Option<&'a Path>) -> Result<Self, Mistakes> {
        match path {
            None => Ok(Self::None),
            Some(path) if path == Path::new("-") => Ok(Self::Printed),
            Some(path) => match File::create(path) {
                Ok(file) => Ok(Self::Json(path, file)),
                Err(error) => Err(Mistakes::of(format!("{}: {error}", path.display()))),
            },
        }
    }

    /// Writes and prints the result; errors are independent. Returns the outputs that failed, with
    /// reasons.
    fn write(&mut self, recording: &Recording) -> Vec<String> {
        let report = recording.report();
        let (json, mut lost) = (report.to_json() + "\n", Vec::new());
        if let Self::Json(path, file) = self
            && let Err(error) = file.write_all(json.as_bytes())
        {
            lost.push(format!("{}: {error}", path.display()));
        }
        let printed = match self {
            Self::Printed => print(&json),
            _ => print(&report.to_string()),
        };
        lost.extend(
            printed
                .err()
                .map(|error| format!("standard output: {error}")),
        );
        lost
    }
}

/// An error if the result is invalid.
fn judge(recording: &Recording) -> anyhow::Result<()> {
    let invalid = recording.report.invalid_because.iter();
    let reasons: Vec<String> = invalid
        .map(|reason| format!("the result is invalid: {reason}"))
        .collect();
    if reasons.is_empty() {
        return Ok(());
    }
    let code = EXIT_INVALID;
    Err(Verdict { code, reasons }.into())
}
