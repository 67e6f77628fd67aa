//! Counts and distributions of a run.

use headlong_player::{CallEnd, CallRecord, SessionEnd};
use headlong_units::{Duration, Instant};
use headlong_workload::NetworkClass;
use serde::{Deserialize, Serialize};

use crate::time_distribution::{SparseCounts, TimeDistribution};

/// Number of failures reported individually.
const FAILURES_TOLD: usize = 10;

/// Outcomes of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    /// Its name.
    pub name: String,
    /// Bits per second, if limited.
    pub bandwidth_bps: Option<u64>,
    /// One-way delay, in milliseconds.
    pub delay_ms: f64,
    /// Sessions that ended.
    pub sessions: u64,
    /// Those that failed.
    pub failed: u64,
    /// Outcomes of calls.
    pub calls: CallCounts,
    /// Bytes of bodies received.
    pub bytes: u64,
    /// From the intended time of sending to the first byte.
    pub first_byte: TimeDistribution,
    /// From the time of sending to the first byte.
    pub first_byte_from_sent: TimeDistribution,
    /// From the intended time of sending to the last byte; complete replies only.
    pub whole: TimeDistribution,
    /// From the time of sending to the last byte; complete replies only.
    pub whole_from_sent: TimeDistribution,
    /// From arrival to playback.
    pub startup: TimeDistribution,
    /// Sessions with stalls.
    pub stalled_sessions: u64,
    /// Number of stalls.
    pub stalls: u64,
    /// Total stall time per session with stalls.
    pub stall_time: TimeDistribution,
    /// Changes of bit rate.
    pub switches: u64,
    /// Sessions whose viewers gave up waiting for playback.
    pub gave_up: u64,
    /// Sessions with a known mean bit rate.
    pub rated_sessions: u64,
    /// Sum of their mean bit rates, in bits per second.
    pub bit_rates_bps: u64,
    /// Media time played, in nanoseconds.
    pub played_ns: u64,
}

impl ClassTally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.failed += other.failed;
        self.calls.add(&other.calls);
        self.bytes += other.bytes;
        self.first_byte.add(&other.first_byte);
        self.first_byte_from_sent.add(&other.first_byte_from_sent);
        self.whole.add(&other.whole);
        self.whole_from_sent.add(&other.whole_from_sent);
        self.startup.add(&other.startup);
        self.stalled_sessions += other.stalled_sessions;
        self.stalls += other.stalls;
        self.stall_time.add(&other.stall_time);
        self.switches += other.switches;
        self.gave_up += other.gave_up;
        self.rated_sessions += other.rated_sessions;
        self.bit_rates_bps = self.bit_rates_bps.saturating_add(other.bit_rates_bps);
        self.played_ns = self.played_ns.saturating_add(other.played_ns);
    }

    fn count_call(&mut self, record: &CallRecord, sent: Instant) {
        self.calls.count(record.end);
        self.bytes += record.bytes;
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
        self.sessions += 1;
        self.failed += u64::from(end.end.is_failure());
        if let Some(delay) = end.startup_delay {
            self.startup.record(delay);
        }
        if end.stalls > 0 {
            self.stalled_sessions += 1;
            self.stalls += u64::from(end.stalls);
            self.stall_time.record(end.stall_time);
        }
        self.switches += u64::from(end.switches);
        self.gave_up += u64::from(end.end == CallEnd::Abandoned);
        if let Some(rate) = end.bit_rate {
            self.rated_sessions += 1;
            self.bit_rates_bps = self.bit_rates_bps.saturating_add(rate.0);
        }
        self.played_ns = self.played_ns.saturating_add(end.played.0);
    }
}

/// Figures of all sessions in a few seconds of the run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IntervalFigures {
    /// Bytes of bodies received.
    pub bytes: u64,
    /// Largest number of concurrent sessions.
    pub active_max: u64,
    /// Sessions that failed.
    pub failures: u64,
    /// From the intended time of sending to the first byte, of calls recorded in the interval.
    pub first_byte: SparseCounts,
}

/// A failure reported individually.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// URL of the server.
    pub url: String,
    /// Why the result is invalid; empty if it is valid.
    pub invalid_because: Vec<String>,
    /// Whether it ended at the first failure, as configured.
    pub stopped_early: bool,
    /// Model time divided by wall time.
    pub time_scale: f64,
    /// Start of the steady state, in nanoseconds.
    pub window_from: u64,
    /// End of the steady state, in nanoseconds.
    pub window_to: u64,
    /// Length of an interval, in nanoseconds.
    pub interval: u64,
    /// Sessions that arrived.
    pub arrived: u64,
    /// Sessions that failed, in the steady state or not.
    pub failed: u64,
    /// Largest number of concurrent sessions.
    pub active_max: u64,
    /// Long-run demand of the arriving viewers in bytes per second ([`Trace::offered`]).
    ///
    /// [`Trace::offered`]: headlong_workload::Trace::offered
    pub offered: Option<f64>,
    /// Bytes requested in the window, by all sessions.
    pub asked_bytes: u64,
    /// The same per second of the window.
    pub asked_for: f64,
    /// Bytes of bodies per second of the window, of all sessions.
    pub bytes_per_second: f64,
    /// Bytes received in the window, by all sessions.
    pub window_bytes: u64,
    /// Replies with a wrong byte, in the steady state or not.
    pub wrong_bytes: u64,
    /// Bytes verified.
    pub checked_bytes: u64,
    /// Requests sent again on a new connection, because the server had closed an idle one.
    pub resent: u64,
    /// Unsuccessful replies by status, in the steady state or not.
    pub refusals: std::collections::BTreeMap<u16, u64>,
    /// By network class.
    pub classes: Vec<ClassTally>,
    /// Schedule error: how much later than intended requests were sent.
    pub schedule_error: TimeDistribution,
    /// Limit of its 99th percentile, in milliseconds.
    pub late_max_ms: f64,
    /// CPU use as a share of one core, over the whole run.
    pub cpu_share: f64,
    /// Largest share of one core in any five seconds of wall time.
    pub cpu_share_max: f64,
    /// Consecutive intervals.
    pub series: Vec<IntervalFigures>,
    /// The first few failures, with details.
    pub failures_told: Vec<FailureReport>,
}

impl Recording {
    /// An empty recording of a run with the steady state from `from` to `to`.
    pub fn new(classes: &[NetworkClass], from: Instant, to: Instant, interval: Duration) -> Self {
        let class = |class: &NetworkClass| ClassTally {
            name: class.name.clone(),
            bandwidth_bps: class.bandwidth.map(|rate| rate.0),
            delay_ms: class.delay.as_secs_f64() * 1e3,
            ..ClassTally::default()
        };
        Self {
            time_scale: 1.0,
            window_from: from.0,
            window_to: to.0,
            interval: interval.0.max(1),
            classes: classes.iter().map(class).collect(),
            late_max_ms: 1.0,
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
        self.asked_for = of_a_second(self.asked_bytes);
        self.bytes_per_second = of_a_second(self.window_bytes);
    }

    /// Counts a call of a session of this class, sent `late` after its intended time. Outside the
    /// steady state only its lateness and refusals count.
    pub fn count_call(&mut self, class: usize, steady: bool, record: &CallRecord, late: Duration) {
        let sent = record.sent + late;
        self.schedule_error.record(sent.since(record.intended));
        if let CallEnd::Refused(status) = record.end {
            *self.refusals.entry(status).or_default() += 1;
        }
        if steady && let Some(class) = self.classes.get_mut(class) {
            class.count_call(record, sent);
        }
    }

    /// Counts a session of this class that has ended by itself.
    pub fn count_session(&mut self, class: usize, steady: bool, end: &SessionEnd) {
        self.failed += u64::from(end.end.is_failure());
        if steady && let Some(class) = self.classes.get_mut(class) {
            class.count_session(end);
        }
    }

    /// Records a failure, if it is one of the first.
    pub fn record_failure(&mut self, failure: impl FnOnce() -> FailureReport) {
        if self.failures_told.len() < FAILURES_TOLD {
            self.failures_told.push(failure());
        }
    }

    /// Sessions in the steady state that ended, and the failed ones among them.
    pub fn steady(&self) -> (u64, u64) {
        let sum = |count: fn(&ClassTally) -> u64| self.classes.iter().map(count).sum();
        (sum(|class| class.sessions), sum(|class| class.failed))
    }
}
