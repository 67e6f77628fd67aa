//! Times of a session's calls that no server can change: the earliest at which a request can reach
//! the server, and the latest at which its reply may be complete.
//!
//! A viewer sends its first call when it arrives, and every other when the previous one is complete
//! and its pace allows. A call is complete no sooner than a round trip and its bytes over the
//! viewer's own line after it was sent, and no later than its timeout, or the viewer is lost.

use headlong_player::{ScriptCall, SessionPlan};
use headlong_units::Duration;
use headlong_workload::{NetworkClass, Session};

/// Calls that are sent together. Times are seconds from the start of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallBurst<'s> {
    pub(crate) calls: &'s [ScriptCall],
    /// Earliest time at which the requests can reach the server.
    pub(crate) earliest: f64,
    /// Latest time at which the replies may be complete.
    pub(crate) latest: f64,
    /// Least time from the sending of the previous burst to the sending of this one; 0 for the
    /// first.
    pub(crate) gap: f64,
    /// Longest time from the sending of the requests until the last byte leaves the server, less
    /// the time that a request takes to the server.
    pub(crate) patience: f64,
}

/// The bursts of a session in order; none of an adaptive player.
#[derive(Debug)]
pub(crate) struct CallTimes<'s> {
    rest: &'s [ScriptCall],
    class: &'s NetworkClass,
    /// Earliest and latest time of sending of the next burst.
    sent: (f64, f64),
    gap: f64,
}

impl<'s> CallTimes<'s> {
    pub(crate) fn new(session: &'s Session, class: &'s NetworkClass) -> Self {
        let arrival = session.arrival.as_secs_f64();
        Self {
            rest: match &session.plan {
                SessionPlan::Script(script) => &script.calls,
                SessionPlan::Adaptive(_) => &[],
            },
            class,
            sent: (arrival, arrival),
            gap: 0.0,
        }
    }
}

impl<'s> Iterator for CallTimes<'s> {
    type Item = CallBurst<'s>;

    fn next(&mut self) -> Option<CallBurst<'s>> {
        if self.rest.is_empty() {
            return None;
        }
        let members = self.rest.iter().skip(1);
        let count = 1 + members.take_while(|call| call.with_previous).count();
        let (calls, rest) = self.rest.split_at(count);
        let timeout = calls.iter().map(|call| {
            let timeout = call.timeout.map(Duration::as_secs_f64);
            timeout.unwrap_or(f64::INFINITY)
        });
        let timeout = timeout.fold(0.0, f64::max);
        let delay = self.class.delay.as_secs_f64();
        let bytes: u64 = calls.iter().filter_map(|call| call.expected_bytes).sum();
        let line = self.class.bandwidth;
        let line = line.map_or(0.0, |rate| rate.time_for(bytes).as_secs_f64());
        let (earliest, latest) = self.sent;
        let burst = CallBurst {
            calls,
            earliest: earliest + delay,
            latest: latest + timeout,
            gap: self.gap,
            patience: (timeout - 2.0 * delay).max(0.0),
        };
        self.rest = rest;
        if let Some(next) = rest.first() {
            let seconds = |time: Option<Duration>| time.map_or(0.0, Duration::as_secs_f64);
            let (pace, think) = (seconds(next.pace), seconds(next.think));
            self.gap = pace.max(2.0 * delay + line + think);
            self.sent = (
                earliest + self.gap,
                (latest + pace).max(latest + timeout + think),
            );
        }
        Some(burst)
    }
}
