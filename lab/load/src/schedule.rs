//! Properties of a run known before it begins: the measured window, its length, and the minimum of
//! resources needed.

use std::ops::Add;

use headlong_player::{ObjectId, ScriptCall, SessionPlan, ViewerAction};
use headlong_units::{ByteRange, Duration, Instant};
use headlong_workload::{NetworkClass, Ramp, Session, Trace};

use crate::settings::{LoadSettings, PlayError};
use crate::viewer::CONNECTIONS_MAX;

/// The window in which sessions count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SteadyWindow {
    pub(crate) from: Instant,
    /// [`Instant::NEVER`] if there is no ramp-down.
    pub(crate) to: Instant,
}

/// The window of a run whose sessions are sorted by arrival.
pub(crate) fn window(
    sessions: &[Session],
    settings: &LoadSettings,
) -> Result<SteadyWindow, PlayError> {
    let Some(last) = sessions.last() else {
        return Err(PlayError::Empty);
    };
    let arrival = |index: u64| -> Option<Instant> {
        let session = sessions.get(usize::try_from(index).ok()?)?;
        Some(Instant(session.arrival.0))
    };
    let (up, down) = (settings.ramp_up, settings.ramp_down);
    let count = sessions.len() as u64;
    let end = Instant(last.arrival.0);
    let from = arrival(up.sessions).unwrap_or(Instant::NEVER);
    let from = from.max(Instant(up.time.0));
    let to = match down {
        Ramp { sessions: 0, time } if time == Duration::ZERO => Instant::NEVER,
        // Without a ramp-down in sessions, the last session counts if its time is inside.
        Ramp { sessions: 0, time } => end - time,
        Ramp { sessions, time } => {
            let first_out = count.checked_sub(sessions).and_then(arrival);
            first_out.unwrap_or(Instant::ZERO).min(end - time)
        }
    };
    let steady = sessions
        .iter()
        .filter(|s| (from..to).contains(&Instant(s.arrival.0)));
    if steady.count() == 0 {
        return Err(PlayError::NothingCounts {
            length: last.arrival,
            sessions: count,
        });
    }
    Ok(SteadyWindow { from, to })
}

/// Lower bound of a session's length with an ideal server. Zero for an adaptive viewer.
pub(crate) fn shortest(plan: &SessionPlan) -> Duration {
    let script = match plan {
        SessionPlan::Script(script) => script,
        SessionPlan::Phases(plan) => {
            return plan.calls.last().map_or(Duration::ZERO, |call| call.at);
        }
        SessionPlan::Adaptive(_) => return Duration::ZERO,
    };
    let mut length = Duration::ZERO;
    for call in script.calls.iter().skip(1).filter(|c| !c.with_previous) {
        length += call.pace.max(call.think).unwrap_or(Duration::ZERO);
    }
    length
}

/// Expected upper bound of a session's length: every call of a script or of a phased plan takes until
/// its timeout (calls without a timeout as long as their bytes need on the viewer's line), and an
/// adaptive viewer waits three times as long as it watches.
pub(crate) fn longest(plan: &SessionPlan, class: &NetworkClass) -> Duration {
    let sum = |lengths: &mut dyn Iterator<Item = Duration>| lengths.fold(Duration::ZERO, Add::add);
    match plan {
        SessionPlan::Script(script) => {
            let calls = script.calls.iter();
            let lengths = calls.clone().map(|call| match call.timeout {
                Some(timeout) => timeout,
                None => on_the_line(call, class),
            });
            shortest(plan) + sum(&mut { lengths }) + sum(&mut calls.filter_map(|call| call.think))
        }
        SessionPlan::Adaptive(plan) => {
            let acts = plan.acts.iter().map(|act| match act {
                ViewerAction::Watch(length) => (*length).min(plan.title.length()),
                ViewerAction::Pause(length) => *length,
                ViewerAction::Skip(_) => Duration::ZERO,
            });
            sum(&mut { acts }).times(4)
        }
        SessionPlan::Phases(plan) => plan.length() + plan.timeout.times(plan.calls.len() as u64),
    }
}

/// Time of a call on its viewer's line alone: its bytes, as far as known, and the round trip, twice
/// for a new connection.
fn on_the_line(call: &ScriptCall, class: &NetworkClass) -> Duration {
    let range = call.range.filter(|range| range.end < u64::MAX);
    let bytes = call.expected_bytes.or(range.map(ByteRange::len));
    // Nothing is transferred at a rate of 0, so no time is reserved for it.
    let rate = class.bandwidth.filter(|rate| rate.0 > 0);
    let transfer = rate.zip(bytes);
    let transfer = transfer.map_or(Duration::ZERO, |(rate, bytes)| rate.time_for(bytes));
    transfer + class.delay.times(4)
}

/// Largest number of concurrent connections of a plan.
pub(crate) fn width(plan: &SessionPlan) -> u64 {
    match plan {
        SessionPlan::Script(script) => {
            let (mut widest, mut width) = (0, 0);
            for call in &script.calls {
                width = if call.with_previous { width + 1 } else { 1 };
                widest = widest.max(width);
            }
            widest
        }
        SessionPlan::Adaptive(plan) => u64::from(plan.make.connections).max(1),
        SessionPlan::Phases(plan) => u64::from(plan.connections()),
    }
}

/// Checks what the types of a trace do not guarantee.
pub(crate) fn check(trace: &Trace) -> Result<(), PlayError> {
    for (index, session) in trace.sessions.iter().enumerate() {
        let wrong = |reason: String| PlayError::Trace {
            session: index as u64,
            reason,
        };
        if session.class as usize >= trace.classes.len() {
            let class = session.class;
            return Err(wrong(format!("there is no network class {class}")));
        }
        let width = width(&session.plan);
        if width > CONNECTIONS_MAX as u64 {
            return Err(wrong(format!(
                "{width} concurrent connections; the maximum is {CONNECTIONS_MAX}"
            )));
        }
        let objects = trace.objects.len();
        let missing = |(object, _): &(ObjectId, _)| object.0 as usize >= objects;
        if let Some((object, _)) = session.asked().find(missing) {
            return Err(wrong(format!("there is no object {}", object.0)));
        }
        match &session.plan {
            SessionPlan::Script(_) => {}
            SessionPlan::Phases(plan) => plan.check().map_err(|error| wrong(error.to_string()))?,
            SessionPlan::Adaptive(plan) => {
                if let Some(error) = plan.check().first() {
                    return Err(wrong(error.to_string()));
                }
            }
        }
    }
    Ok(())
}

/// Lower bound of concurrent connections, for any speed of the server.
pub(crate) fn connections_min(sessions: &[Session]) -> u64 {
    let mut changes: Vec<(Duration, bool, u64)> = Vec::new();
    let mut most = 0;
    for session in sessions {
        let (width, length) = (width(&session.plan), shortest(&session.plan));
        most = most.max(width);
        // A session of length zero may overlap with no other.
        if length > Duration::ZERO {
            changes.push((session.arrival, true, width));
            changes.push((session.arrival + length, false, width));
        }
    }
    // At equal times, ends come before arrivals.
    changes.sort_unstable();
    let mut open = 0u64;
    for (_, comes, width) in changes {
        if comes {
            open += width;
            most = most.max(open);
        } else {
            open = open.saturating_sub(width);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_player::Script;
    use headlong_units::BitRate;

    /// One session every ten seconds, with two calls `pace` seconds apart.
    fn sessions(count: u64, pace: u64) -> Vec<Session> {
        let call = |pace: Option<Duration>, with_previous| ScriptCall {
            object: ObjectId(0),
            range: None,
            expected_bytes: None,
            timeout: Some(Duration::from_secs(10)),
            pace,
            think: None,
            with_previous,
        };
        let calls = vec![
            call(None, false),
            call(Some(Duration::from_secs(pace)), false),
            call(None, true),
        ];
        let session = |index| Session {
            arrival: Duration::from_secs(10 * index),
            class: 0,
            plan: SessionPlan::Script(Script::new(calls.clone())),
        };
        (0..count).map(session).collect()
    }

    fn ramps(up: Ramp, down: Ramp) -> LoadSettings {
        LoadSettings {
            ramp_up: up,
            ramp_down: down,
            ..LoadSettings::default()
        }
    }

    fn time(seconds: u64) -> Ramp {
        Ramp {
            sessions: 0,
            time: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn ramps_apply_by_time_and_by_sessions() {
        let sessions = sessions(10, 5);
        let second = |s: u64| Instant(s * 1_000_000_000);
        for (up, down, from, to) in [
            (time(0), time(0), Instant(0), Instant::NEVER),
            (time(15), time(20), second(15), second(70)),
            (
                Ramp {
                    sessions: 2,
                    ..time(0)
                },
                Ramp {
                    sessions: 3,
                    ..time(0)
                },
                second(20),
                second(70),
            ),
            (
                Ramp {
                    sessions: 2,
                    ..time(50)
                },
                time(0),
                second(50),
                Instant::NEVER,
            ),
        ] {
            let found = window(&sessions, &ramps(up, down)).expect("a window");
            assert_eq!(found, SteadyWindow { from, to });
        }
    }

    #[test]
    fn rejects_ramps_that_exclude_all_sessions() {
        let sessions = sessions(10, 5);
        for (up, down) in [
            (time(100), time(0)),
            (time(50), time(50)),
            (
                Ramp {
                    sessions: 10,
                    ..time(0)
                },
                time(0),
            ),
        ] {
            let error = window(&sessions, &ramps(up, down)).expect_err("nothing");
            assert!(matches!(error, PlayError::NothingCounts { .. }));
        }
    }

    #[test]
    fn counts_connections_of_overlapping_sessions() {
        // Two concurrent sessions, each with a burst of two.
        assert_eq!(connections_min(&sessions(10, 15)), 4);
        assert_eq!(connections_min(&sessions(10, 5)), 2);
        assert_eq!(connections_min(&sessions(10, 10)), 2);
        let mut at_once = sessions(10, 0);
        at_once.iter_mut().for_each(|s| s.arrival = Duration::ZERO);
        assert_eq!(connections_min(&at_once), 2);
    }

    #[test]
    fn session_length_is_bounded_by_paces_and_timeouts() {
        let session = &sessions(1, 15)[0];
        assert_eq!(shortest(&session.plan), Duration::from_secs(15));
        let class = NetworkClass::unlimited();
        assert_eq!(longest(&session.plan, &class), Duration::from_secs(45));
    }

    #[test]
    fn call_without_timeout_is_bounded_by_line() {
        let gigabyte = |expected_bytes, range| ScriptCall {
            object: ObjectId(0),
            range,
            expected_bytes,
            timeout: None,
            pace: None,
            think: None,
            with_previous: false,
        };
        let slow = NetworkClass {
            bandwidth: Some(BitRate::from_kbps(8_000)),
            delay: Duration::from_millis(50),
            ..NetworkClass::unlimited()
        };
        let range = ByteRange::new(0, 1_000_000_000);
        let open = ByteRange::new(0, u64::MAX);
        for (call, millis) in [
            (gigabyte(Some(1_000_000_000), None), 1_000_200),
            (gigabyte(None, Some(range)), 1_000_200),
            (gigabyte(Some(1_000_000_000), Some(open)), 1_000_200),
            (gigabyte(None, Some(open)), 200),
        ] {
            let plan = SessionPlan::Script(Script::new(vec![call]));
            assert_eq!(longest(&plan, &slow), Duration::from_millis(millis));
        }
    }
}
