//! The result of a run: counts and distributions while it lasts, then JSON with a schema
//! (docs/schemas/load-1.json), and text for people.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use headlong_player::{CallEnd, CallRecord, SessionEnd};
use headlong_units::{Duration, Instant};
use headlong_workload::NetworkClass;
use serde::Serialize;

use crate::time_distribution::{DistributionSummary, TimeDistribution};

/// Name and version of the result's format. New fields may be added under the same name; existing
/// fields keep their names and meanings.
pub const REPORT_SCHEMA: &str = "headlong-load-1";

/// The steady state, in seconds of the run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct WindowReport {
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
}

/// Numbers of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SessionsReport {
    /// Arrived.
    pub arrived: u64,
    /// Arrived in the steady state, and ended.
    pub steady: u64,
    /// Failed, of these.
    pub steady_failed: u64,
    /// Failed, of all.
    pub failed: u64,
    /// Largest number of concurrent sessions.
    pub active_max: u64,
}

/// Stalls of playback.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct StallsReport {
    /// Sessions with stalls.
    pub sessions: u64,
    /// Number of stalls.
    pub count: u64,
    /// Total stall time per session with stalls.
    pub ms: DistributionSummary,
}

/// Figures of a network class, or of all together, in the steady state.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct PlaybackFigures {
    /// Share of failed sessions; 0 if there were none.
    pub failure_share: f64,
    /// Outcomes of requests.
    pub requests: CallCounts,
    /// From the intended time to the first byte.
    pub first_byte_ms: DistributionSummary,
    /// From the intended time to the last byte, of complete replies.
    pub whole_ms: DistributionSummary,
    /// From the time of sending to the first byte.
    pub first_byte_from_sent_ms: DistributionSummary,
    /// From the time of sending to the last byte, of complete replies.
    pub whole_from_sent_ms: DistributionSummary,
    /// From arrival to playback.
    pub startup_ms: DistributionSummary,
    /// Stalls of playback.
    pub stalls: StallsReport,
    /// Changes of bit rate.
    pub switches: u64,
    /// Sessions whose viewers gave up waiting for playback; they do not count as failed.
    pub gave_up: u64,
    /// Mean over sessions of the mean bit rate received; nothing if unknown for all.
    pub bit_rate_bps: Option<f64>,
    /// Media time played.
    pub played_s: f64,
}

/// Figures of one network class in the steady state.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// Bits per second, if limited.
    pub bandwidth_bps: Option<u64>,
    /// One-way delay.
    pub delay_ms: f64,
    /// Sessions that ended.
    pub sessions: u64,
    /// Those that failed.
    pub failed: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Its figures.
    #[serde(flatten)]
    pub figures: PlaybackFigures,
}

/// A few seconds of the run, for all sessions.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct SeriesPoint {
    /// Start, in seconds of the run.
    pub t_s: f64,
    /// Bytes of bodies received.
    pub bytes: u64,
    /// Largest number of concurrent sessions.
    pub active: u64,
    /// Sessions that failed.
    pub failures: u64,
    /// For calls that ended in it.
    pub first_byte_ms_p99: Option<f64>,
}

/// The result of a run; all times are model time.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct LoadReport {
    /// Always [`REPORT_SCHEMA`].
    pub schema: String,
    /// Whether the generator considers the result valid.
    pub valid: bool,
    /// The reasons if it does not.
    pub invalid_because: Vec<String>,
    /// Whether it ended at the first failure, as configured.
    pub stopped_early: bool,
    /// URL of the server.
    pub url: String,
    /// Always 1; kept for readers of the schema.
    pub generators: u64,
    /// Model time divided by wall time.
    pub time_scale: f64,
    /// The steady state.
    pub window_s: WindowReport,
    /// Sessions.
    pub sessions: SessionsReport,
    /// Offered: long-run demand of the arriving viewers, bytes per second; nothing if unknown from
    /// the trace.
    pub offered_bytes_per_second: Option<f64>,
    /// Asked for: bytes requested in the window, by all sessions, per second.
    pub asked_for_bytes_per_second: f64,
    /// Delivered: bytes of bodies received in the window, by all sessions, per second.
    pub bytes_per_second: f64,
    /// Refusals by status, of all sessions.
    pub refusals: BTreeMap<u16, u64>,
    /// Requests sent again, because the server had closed an idle connection.
    pub resent: u64,
    /// Replies with a wrong byte, of all sessions.
    pub wrong_bytes: u64,
    /// Bytes verified.
    pub checked_bytes: u64,
    /// How much later than intended requests were sent.
    pub schedule_error_ms: DistributionSummary,
    /// Limit of its 99th percentile.
    pub schedule_error_allowed_ms: f64,
    /// Figures of all classes together.
    #[serde(flatten)]
    pub figures: PlaybackFigures,
    /// By network class.
    pub classes: Vec<ClassReport>,
    /// The run by interval.
    pub series: Vec<SeriesPoint>,
    /// CPU use of the generator as a share of one core.
    pub cpu_share: f64,
    /// The same over its busiest five seconds of wall time.
    pub cpu_share_max: f64,
    /// The first failures, in and out of the steady state.
    pub first_failures: Vec<FailureReport>,
}

impl Recording {
    /// The result.
    pub fn report(&self) -> LoadReport {
        let mut all = ClassTally::default();
        self.classes.iter().for_each(|class| all.add(class));
        let all = all.report();
        let known = self.report.clone();
        LoadReport {
            schema: REPORT_SCHEMA.into(),
            valid: known.invalid_because.is_empty(),
            generators: 1,
            window_s: WindowReport {
                from: self.window_from as f64 / 1e9,
                to: self.window_to as f64 / 1e9,
            },
            sessions: SessionsReport {
                steady: all.sessions,
                steady_failed: all.failed,
                ..known.sessions
            },
            schedule_error_ms: self.schedule_error.spread(),
            figures: all.figures,
            classes: self.classes.iter().map(ClassTally::report).collect(),
            ..known
        }
    }
}

impl LoadReport {
    /// The result as JSON, for programs.
    pub fn to_json(&self) -> String {
        // Serialization cannot fail: all map keys become text, and no number is outside JSON.
        let text = serde_json::to_string_pretty(self);
        text.unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"))
    }
}

impl fmt::Display for LoadReport {
    /// The result as text, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for reason in &self.invalid_because {
            writeln!(f, "INVALID: {reason}")?;
        }
        if self.stopped_early {
            writeln!(f, "Stopped at the first failure, as configured.")?;
        }
        let (window, sessions) = (self.window_s, self.sessions);
        writeln!(
            f,
            "measured from {:.1} s to {:.1} s; {} sessions arrived, {} count, at most {} at a time",
            window.from, window.to, sessions.arrived, sessions.steady, sessions.active_max
        )?;
        let rates = [
            ("offered", self.offered_bytes_per_second),
            ("asked for", Some(self.asked_for_bytes_per_second)),
            ("delivered", Some(self.bytes_per_second)),
        ];
        for (name, rate) in rates
            .into_iter()
            .filter_map(|(name, rate)| Some((name, rate?)))
        {
            let (mb, mib) = (rate / 1e6, rate / f64::from(1 << 20));
            writeln!(f, "{name:<12}{mb:.2} MB/s ({mib:.2} MiB/s)")?;
        }
        if self.is_warm_up_short() {
            writeln!(
                f,
                "            too few viewers had arrived: use a longer ramp, or \
                 sessions.resume_time (docs/lab/bench.md)"
            )?;
        }
        writeln!(
            f,
            "failures    {} of {} sessions ({:.3} %)",
            sessions.steady_failed,
            sessions.steady,
            self.figures.failure_share * 100.0
        )?;
        let of = &self.figures.requests;
        writeln!(
            f,
            "requests    {} ended: {} whole, {} timed out, {} refused, {} broken, {} wrong, {} \
             abandoned",
            of.ended, of.whole, of.timed_out, of.refused, of.broken, of.wrong, of.abandoned
        )?;
        writeln!(f, "{}", heading("ms"))?;
        let rows = [
            ("first byte", &self.figures.first_byte_ms),
            ("  from sending", &self.figures.first_byte_from_sent_ms),
            ("whole reply", &self.figures.whole_ms),
            ("  from sending", &self.figures.whole_from_sent_ms),
            ("start-up", &self.figures.startup_ms),
            ("schedule error", &self.schedule_error_ms),
        ];
        for (name, spread) in rows {
            writeln!(f, "{}", row(name, spread))?;
        }
        if self.figures.stalls.count > 0 {
            writeln!(
                f,
                "stalls      {} in {} sessions",
                self.figures.stalls.count, self.figures.stalls.sessions
            )?;
        }
        if self.classes.len() > 1 {
            writeln!(f, "{}", heading("class: whole reply, ms"))?;
            for class in &self.classes {
                let failed = format!("{} ({} of {})", class.name, class.failed, class.sessions);
                writeln!(f, "{}", row(&failed, &class.figures.whole_ms))?;
            }
        }
        self.viewing(f)?;
        for failure in &self.first_failures {
            writeln!(
                f,
                "{:.1} s  session {}  {}  {}: {}",
                failure.at_s, failure.session, failure.url, failure.end, failure.detail
            )?;
        }
        writeln!(f, "generator   {:.1} % of a core", self.cpu_share * 100.0)
    }
}

impl LoadReport {
    /// Whether viewers requested less than half of the offered bytes, although almost no session
    /// failed: then the ramp was too short for long sessions to overlap.
    pub fn is_warm_up_short(&self) -> bool {
        let offered = self.offered_bytes_per_second.unwrap_or(0.0);
        self.asked_for_bytes_per_second < 0.5 * offered && self.figures.failure_share < 0.01
    }

    /// Playback figures by class, if there are any.
    fn viewing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.figures.bit_rate_bps.is_none() {
            return Ok(());
        }
        let names = [
            "sessions",
            "gave up",
            "start-up p50",
            "p99 ms",
            "stalled",
            "stalls",
            "of time",
            "mean kbps",
            "switches",
        ];
        write!(f, "{:<24}", "class: playback")?;
        for name in names {
            write!(f, "{name:>13}")?;
        }
        writeln!(f)?;
        for class in &self.classes {
            let stalled_s = class.figures.stalls.ms.mean.unwrap_or(0.0)
                * class.figures.stalls.sessions as f64
                / 1e3;
            let whole_s = stalled_s + class.figures.played_s;
            let share = if whole_s > 0.0 {
                stalled_s / whole_s
            } else {
                0.0
            };
            let per_session = class.figures.switches as f64 / class.sessions.max(1) as f64;
            let figure = |value: Option<f64>| match value {
                Some(value) => format!("{value:.1}"),
                None => "-".to_owned(),
            };
            let figures = [
                class.sessions.to_string(),
                class.figures.gave_up.to_string(),
                figure(class.figures.startup_ms.p50),
                figure(class.figures.startup_ms.p99),
                class.figures.stalls.sessions.to_string(),
                class.figures.stalls.count.to_string(),
                format!("{:.2} %", share * 100.0),
                figure(class.figures.bit_rate_bps.map(|rate| rate / 1e3)),
                format!("{per_session:.2}"),
            ];
            write!(f, "{:<24}", class.name)?;
            for figure in figures {
                write!(f, "{figure:>13}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn heading(what: &str) -> String {
    let names = ["count", "mean", "p50", "p90", "p99", "p99.9", "max"];
    let mut line = format!("{what:<24}");
    for name in names {
        let _ = write!(line, "{name:>11}");
    }
    line
}

fn row(name: &str, spread: &DistributionSummary) -> String {
    let figures = [
        spread.mean,
        spread.p50,
        spread.p90,
        spread.p99,
        spread.p999,
        spread.max,
    ];
    let mut line = format!("{name:<24}{:>11}", spread.count);
    for figure in figures {
        let _ = match figure {
            Some(figure) => write!(line, "{figure:>11.2}"),
            None => write!(line, "{:>11}", "-"),
        };
    }
    line
}

/// Number of failures reported individually.
const FAILURES_TOLD: usize = 10;

/// Outcomes of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CallCounts {
    /// All of them: each has one outcome.
    pub ended: u64,
    /// Every byte arrived.
    pub whole: u64,
    /// Incomplete at the timeout.
    pub timed_out: u64,
    /// Answered with an unsuccessful status.
    pub refused: u64,
    /// The connection failed or was closed early.
    pub broken: u64,
    /// Bytes were wrong, missing or surplus.
    pub wrong: u64,
    /// The viewer left.
    pub abandoned: u64,
}

impl CallCounts {
    fn count(&mut self, end: CallEnd) {
        self.ended += 1;
        let counter = match end {
            CallEnd::Whole => &mut self.whole,
            CallEnd::TimedOut => &mut self.timed_out,
            CallEnd::Refused(_) => &mut self.refused,
            CallEnd::Broken => &mut self.broken,
            CallEnd::Wrong => &mut self.wrong,
            CallEnd::Abandoned => &mut self.abandoned,
        };
        *counter += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.ended += other.ended;
        self.whole += other.whole;
        self.timed_out += other.timed_out;
        self.refused += other.refused;
        self.broken += other.broken;
        self.wrong += other.wrong;
        self.abandoned += other.abandoned;
    }
}

/// Figures of one network class, for sessions in the steady state only.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClassTally {
    /// Its counts; [`Self::report`] adds the figures that are computed from the rest.
    counts: ClassReport,
    /// From the intended time of sending to the first byte.
    first_byte: TimeDistribution,
    /// From the time of sending to the first byte.
    first_byte_from_sent: TimeDistribution,
    /// From the intended time of sending to the last byte; complete replies only.
    whole: TimeDistribution,
    /// From the time of sending to the last byte; complete replies only.
    whole_from_sent: TimeDistribution,
    /// From arrival to playback.
    startup: TimeDistribution,
    /// Total stall time per session with stalls.
    stall_time: TimeDistribution,
    /// Sessions with a known mean bit rate.
    rated_sessions: u64,
    /// Sum of their mean bit rates, in bits per second.
    bit_rates_bps: u64,
    /// Media time played, in nanoseconds.
    played_ns: u64,
}

impl ClassTally {
    fn new(class: &NetworkClass) -> Self {
        Self {
            counts: ClassReport {
                name: class.name.clone(),
                bandwidth_bps: class.bandwidth.map(|rate| rate.0),
                delay_ms: class.delay.as_secs_f64() * 1e3,
                ..ClassReport::default()
            },
            ..Self::default()
        }
    }

    fn report(&self) -> ClassReport {
        let mut report = self.counts.clone();
        let figures = &mut report.figures;
        if report.sessions > 0 {
            figures.failure_share = report.failed as f64 / report.sessions as f64;
        }
        figures.first_byte_ms = self.first_byte.spread();
        figures.whole_ms = self.whole.spread();
        figures.first_byte_from_sent_ms = self.first_byte_from_sent.spread();
        figures.whole_from_sent_ms = self.whole_from_sent.spread();
        figures.startup_ms = self.startup.spread();
        figures.stalls.ms = self.stall_time.spread();
        if self.rated_sessions > 0 {
            figures.bit_rate_bps = Some(self.bit_rates_bps as f64 / self.rated_sessions as f64);
        }
        figures.played_s = self.played_ns as f64 / 1e9;
        report
    }

    fn add(&mut self, other: &Self) {
        let (sum, more) = (&mut self.counts, &other.counts);
        sum.sessions += more.sessions;
        sum.failed += more.failed;
        sum.bytes += more.bytes;
        let (sum, more) = (&mut sum.figures, &more.figures);
        sum.requests.add(&more.requests);
        sum.stalls.sessions += more.stalls.sessions;
        sum.stalls.count += more.stalls.count;
        sum.switches += more.switches;
        sum.gave_up += more.gave_up;
        self.first_byte.add(&other.first_byte);
        self.first_byte_from_sent.add(&other.first_byte_from_sent);
        self.whole.add(&other.whole);
        self.whole_from_sent.add(&other.whole_from_sent);
        self.startup.add(&other.startup);
        self.stall_time.add(&other.stall_time);
        self.rated_sessions += other.rated_sessions;
        self.bit_rates_bps = self.bit_rates_bps.saturating_add(other.bit_rates_bps);
        self.played_ns = self.played_ns.saturating_add(other.played_ns);
    }

    fn count_call(&mut self, record: &CallRecord, sent: Instant) {
        self.counts.figures.requests.count(record.end);
        self.counts.bytes += record.bytes;
        if let Some(first_byte) = record.first_byte {
            self.first_byte.record(first_byte.since(record.intended));
            self.first_byte_from_sent.record(first_byte.since(sent));
        }
        if record.end == CallEnd::Whole {
            self.whole.record(record.ended.since(record.intended));
            self.whole_from_sent.record(record.ended.since(sent));
        }
    }

    fn count_session(&mut self, end: &SessionEnd) {
        self.counts.sessions += 1;
        self.counts.failed += u64::from(end.end.is_failure());
        if let Some(delay) = end.startup_delay {
            self.startup.record(delay);
        }
        let figures = &mut self.counts.figures;
        if end.stalls > 0 {
            figures.stalls.sessions += 1;
            figures.stalls.count += u64::from(end.stalls);
            self.stall_time.record(end.stall_time);
        }
        figures.switches += u64::from(end.switches);
        figures.gave_up += u64::from(end.end == CallEnd::Abandoned);
        if let Some(rate) = end.bit_rate {
            self.rated_sessions += 1;
            self.bit_rates_bps = self.bit_rates_bps.saturating_add(rate.0);
        }
        self.played_ns = self.played_ns.saturating_add(end.played.0);
    }
}

/// A failure reported individually.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailureReport {
    /// When, in seconds of the run.
    pub at_s: f64,
    /// Number of the session in the trace, from 0.
    pub session: u64,
    /// The URL requested.
    pub url: String,
    /// The outcome.
    pub end: String,
    /// Details of the failure.
    pub detail: String,
}

/// All results of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recording {
    /// The part of the result that is known so far; [`Self::report`] adds the rest.
    pub report: LoadReport,
    /// Start of the steady state, in nanoseconds.
    pub window_from: u64,
    /// End of the steady state, in nanoseconds.
    pub window_to: u64,
    /// Length of an interval, in nanoseconds.
    pub interval: u64,
    /// Bytes requested in the window, by all sessions.
    pub asked_bytes: u64,
    /// Bytes received in the window, by all sessions.
    pub window_bytes: u64,
    /// By network class.
    pub classes: Vec<ClassTally>,
    /// Schedule error: how much later than intended requests were sent.
    pub schedule_error: TimeDistribution,
}

impl Recording {
    /// An empty recording of a run with the steady state from `from` to `to`.
    pub fn new(classes: &[NetworkClass], from: Instant, to: Instant, interval: Duration) -> Self {
        Self {
            report: LoadReport {
                time_scale: 1.0,
                schedule_error_allowed_ms: 1.0,
                ..LoadReport::default()
            },
            window_from: from.0,
            window_to: to.0,
            interval: interval.0.max(1),
            classes: classes.iter().map(ClassTally::new).collect(),
            ..Self::default()
        }
    }

    /// Whether a session that arrives at `arrival` counts: after the ramp-up and before the
    /// ramp-down (thesis 3.6.1).
    pub fn is_steady(&self, arrival: Instant) -> bool {
        (self.window_from..self.window_to).contains(&arrival.0)
    }

    /// Counts bytes of bodies received by a viewer at `at`.
    pub fn count_bytes(&mut self, at: Instant, bytes: u64) {
        if self.is_steady(at) {
            self.window_bytes += bytes;
        }
    }

    /// Counts bytes requested by a request sent at `at`.
    pub fn count_asked(&mut self, at: Instant, bytes: u64) {
        if self.is_steady(at) {
            self.asked_bytes = self.asked_bytes.saturating_add(bytes);
        }
    }

    /// Ends the window, at `now` at the latest, and computes the rates per second.
    pub fn close(&mut self, now: Instant) {
        self.window_to = self.window_to.min(now.0).max(self.window_from);
        let seconds = Duration(self.window_to - self.window_from).as_secs_f64();
        let of_a_second = |bytes: u64| match seconds > 0.0 {
            true => bytes as f64 / seconds,
            false => 0.0,
        };
        self.report.asked_for_bytes_per_second = of_a_second(self.asked_bytes);
        self.report.bytes_per_second = of_a_second(self.window_bytes);
    }

    /// Counts a call of a session of this class, sent `late` after its intended time. Outside the
    /// steady state only its lateness and refusals count.
    pub fn count_call(&mut self, class: usize, steady: bool, record: &CallRecord, late: Duration) {
        let sent = record.sent + late;
        self.schedule_error.record(sent.since(record.intended));
        if let CallEnd::Refused(status) = record.end {
            *self.report.refusals.entry(status).or_default() += 1;
        }
        if steady && let Some(class) = self.classes.get_mut(class) {
            class.count_call(record, sent);
        }
    }

    /// Counts a session of this class that has ended by itself.
    pub fn count_session(&mut self, class: usize, steady: bool, end: &SessionEnd) {
        self.report.sessions.failed += u64::from(end.end.is_failure());
        if steady && let Some(class) = self.classes.get_mut(class) {
            class.count_session(end);
        }
    }

    /// Records a failure, if it is one of the first.
    pub fn record_failure(&mut self, failure: impl FnOnce() -> FailureReport) {
        if self.report.first_failures.len() < FAILURES_TOLD {
            self.report.first_failures.push(failure());
        }
    }
}
