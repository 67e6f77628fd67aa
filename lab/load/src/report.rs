//! The result of a run: JSON with a schema (docs/schemas/load-1.json), and text for people.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use crate::recording::{CallCounts, ClassTally, FailureReport, Recording};
use crate::time_distribution::{DistributionSummary, TimeDistribution};

/// Name and version of the result's format. New fields may be added under the same name; existing
/// fields keep their names and meanings.
pub const REPORT_SCHEMA: &str = "headlong-load-1";

/// The steady state, in seconds of the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WindowReport {
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
}

/// Numbers of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StallsReport {
    /// Sessions with stalls.
    pub sessions: u64,
    /// Number of stalls.
    pub count: u64,
    /// Total stall time per session with stalls.
    pub ms: DistributionSummary,
}

/// Figures of one network class in the steady state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Their share.
    pub failure_share: f64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Outcomes of requests.
    pub requests: CallCounts,
    /// From the intended time to the first byte.
    pub first_byte_ms: DistributionSummary,
    /// From the intended time to the last byte.
    pub whole_ms: DistributionSummary,
    /// From the time of sending to the first byte.
    pub first_byte_from_sent_ms: DistributionSummary,
    /// From the time of sending to the last byte.
    pub whole_from_sent_ms: DistributionSummary,
    /// From arrival to playback.
    pub startup_ms: DistributionSummary,
    /// Stalls.
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

/// A few seconds of the run, for all sessions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Share of failed sessions in the steady state; 0 if there were none.
    pub failure_share: f64,
    /// Offered: long-run demand of the arriving viewers, bytes per second; nothing if unknown from
    /// the trace.
    #[serde(default)]
    pub offered_bytes_per_second: Option<f64>,
    /// Asked for: bytes requested in the window, by all sessions, per second.
    #[serde(default)]
    pub asked_for_bytes_per_second: f64,
    /// Delivered: bytes of bodies received in the window, by all sessions, per second.
    pub bytes_per_second: f64,
    /// Outcomes of requests of sessions in the steady state.
    pub requests: CallCounts,
    /// Refusals by status, of all sessions.
    pub refusals: BTreeMap<u16, u64>,
    /// Requests sent again, because the server had closed an idle connection.
    pub resent: u64,
    /// Replies with a wrong byte, of all sessions.
    pub wrong_bytes: u64,
    /// Bytes verified.
    pub checked_bytes: u64,
    /// From the intended time to the first byte.
    pub first_byte_ms: DistributionSummary,
    /// From the intended time to the last byte, of complete replies.
    pub whole_ms: DistributionSummary,
    /// From the time of sending to the first byte.
    pub first_byte_from_sent_ms: DistributionSummary,
    /// From the time of sending to the last byte, of complete replies.
    pub whole_from_sent_ms: DistributionSummary,
    /// How much later than intended requests were sent.
    pub schedule_error_ms: DistributionSummary,
    /// Limit of its 99th percentile.
    pub schedule_error_allowed_ms: f64,
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
        let all = class_told(&all);
        LoadReport {
            schema: REPORT_SCHEMA.into(),
            valid: self.invalid_because.is_empty(),
            invalid_because: self.invalid_because.clone(),
            stopped_early: self.stopped_early,
            url: self.url.clone(),
            generators: 1,
            time_scale: self.time_scale,
            window_s: WindowReport {
                from: self.window_from as f64 / 1e9,
                to: self.window_to as f64 / 1e9,
            },
            sessions: SessionsReport {
                arrived: self.arrived,
                steady: all.sessions,
                steady_failed: all.failed,
                failed: self.failed,
                active_max: self.active_max,
            },
            failure_share: all.failure_share,
            offered_bytes_per_second: self.offered,
            asked_for_bytes_per_second: self.asked_for,
            bytes_per_second: self.bytes_per_second,
            requests: all.requests,
            refusals: self.refusals.clone(),
            resent: self.resent,
            wrong_bytes: self.wrong_bytes,
            checked_bytes: self.checked_bytes,
            first_byte_ms: all.first_byte_ms,
            whole_ms: all.whole_ms,
            first_byte_from_sent_ms: all.first_byte_from_sent_ms,
            whole_from_sent_ms: all.whole_from_sent_ms,
            schedule_error_ms: self.schedule_error.spread(),
            schedule_error_allowed_ms: self.late_max_ms,
            startup_ms: all.startup_ms,
            stalls: all.stalls,
            switches: all.switches,
            gave_up: all.gave_up,
            bit_rate_bps: all.bit_rate_bps,
            played_s: all.played_s,
            classes: self.classes.iter().map(class_told).collect(),
            series: self.series_told(),
            cpu_share: self.cpu_share,
            cpu_share_max: self.cpu_share_max,
            first_failures: self.failures_told.clone(),
        }
    }

    fn series_told(&self) -> Vec<SeriesPoint> {
        let intervals = (0u64..).zip(&self.series);
        let point = |(index, interval): (u64, &crate::IntervalFigures)| SeriesPoint {
            t_s: (index * self.interval) as f64 / 1e9,
            bytes: interval.bytes,
            active: interval.active_max,
            failures: interval.failures,
            first_byte_ms_p99: interval.first_byte.quantile_ms(0.99),
        };
        intervals.map(point).collect()
    }
}

fn class_told(class: &ClassTally) -> ClassReport {
    ClassReport {
        name: class.name.clone(),
        bandwidth_bps: class.bandwidth_bps,
        delay_ms: class.delay_ms,
        sessions: class.sessions,
        failed: class.failed,
        failure_share: match class.sessions {
            0 => 0.0,
            sessions => class.failed as f64 / sessions as f64,
        },
        bytes: class.bytes,
        requests: class.calls,
        first_byte_ms: class.first_byte.spread(),
        whole_ms: class.whole.spread(),
        first_byte_from_sent_ms: class.first_byte_from_sent.spread(),
        whole_from_sent_ms: class.whole_from_sent.spread(),
        startup_ms: class.startup.spread(),
        stalls: StallsReport {
            sessions: class.stalled_sessions,
            count: class.stalls,
            ms: TimeDistribution::spread(&class.stall_time),
        },
        switches: class.switches,
        gave_up: class.gave_up,
        bit_rate_bps: match class.rated_sessions {
            0 => None,
            sessions => Some(class.bit_rates_bps as f64 / sessions as f64),
        },
        played_s: class.played_ns as f64 / 1e9,
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
            self.failure_share * 100.0
        )?;
        let of = &self.requests;
        writeln!(
            f,
            "requests    {} ended: {} whole, {} timed out, {} refused, {} broken, {} wrong, {} \
             abandoned",
            of.ended, of.whole, of.timed_out, of.refused, of.broken, of.wrong, of.abandoned
        )?;
        writeln!(f, "{}", heading("ms"))?;
        let rows = [
            ("first byte", &self.first_byte_ms),
            ("  from sending", &self.first_byte_from_sent_ms),
            ("whole reply", &self.whole_ms),
            ("  from sending", &self.whole_from_sent_ms),
            ("start-up", &self.startup_ms),
            ("schedule error", &self.schedule_error_ms),
        ];
        for (name, spread) in rows {
            writeln!(f, "{}", row(name, spread))?;
        }
        if self.stalls.count > 0 {
            writeln!(
                f,
                "stalls      {} in {} sessions",
                self.stalls.count, self.stalls.sessions
            )?;
        }
        if self.classes.len() > 1 {
            writeln!(f, "{}", heading("class: whole reply, ms"))?;
            for class in &self.classes {
                let failed = format!("{} ({} of {})", class.name, class.failed, class.sessions);
                writeln!(f, "{}", row(&failed, &class.whole_ms))?;
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
        self.asked_for_bytes_per_second < 0.5 * offered && self.failure_share < 0.01
    }

    /// Playback figures by class, if there are any.
    fn viewing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bit_rate_bps.is_none() {
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
            let stalled_s =
                class.stalls.ms.mean.unwrap_or(0.0) * class.stalls.sessions as f64 / 1e3;
            let whole_s = stalled_s + class.played_s;
            let share = if whole_s > 0.0 {
                stalled_s / whole_s
            } else {
                0.0
            };
            let per_session = class.switches as f64 / class.sessions.max(1) as f64;
            let figure = |value: Option<f64>| match value {
                Some(value) => format!("{value:.1}"),
                None => "-".to_owned(),
            };
            let figures = [
                class.sessions.to_string(),
                class.gave_up.to_string(),
                figure(class.startup_ms.p50),
                figure(class.startup_ms.p99),
                class.stalls.sessions.to_string(),
                class.stalls.count.to_string(),
                format!("{:.2} %", share * 100.0),
                figure(class.bit_rate_bps.map(|rate| rate / 1e3)),
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
