//! Viewers in the middle of a title when a trace begins, as after a restart of the server.
//!
//! They are the viewers who would be present if viewers had always arrived at the current rate.
//! Each resumes at a time drawn evenly from `sessions.resume_time`, at its playback position by
//! then, with an empty buffer; viewers who would have left by then do not resume. So the total
//! demand rises to that of the steady state, and not above it.

use alloc::vec::Vec;

use headlong_random::Generator;
use headlong_units::Duration;

use crate::catalogue::Catalogue;
use crate::specification::{ArrivalDistribution, SESSIONS_MAX, Specification};

/// A viewer that resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ResumedViewer {
    /// Time of its arrival, from the start of the trace.
    pub(super) arrival: Duration,
    /// Index of its session: above those of all new sessions.
    pub(super) index: u64,
    /// How long it would have watched by then.
    pub(super) seen: Duration,
}

/// The resumed viewers, by arrival; `goes_on` tells whether a session continues after the given
/// time of watching.
pub(super) fn resumed(
    (specification, catalogue): (&Specification, &Catalogue),
    mean_gap_s: f64,
    mut chance: Generator,
    goes_on: impl Fn(u64, Duration) -> bool,
) -> Vec<ResumedViewer> {
    let sessions = &specification.sessions;
    let within_s = sessions.resume_time.as_secs_f64();
    let longest_s = longest_s(specification, catalogue);
    let mut age_s = 0.0;
    let mut found = Vec::new();
    if sessions.resume_time == Duration::ZERO {
        return found;
    }
    // Newest first: a viewer who began longer ago than the longest session has left.
    for index in SESSIONS_MAX..2 * SESSIONS_MAX {
        age_s += match sessions.arrivals {
            ArrivalDistribution::Poisson => chance.exponential(mean_gap_s),
            ArrivalDistribution::Constant => mean_gap_s,
        };
        if age_s > longest_s {
            break;
        }
        let arrival_s = chance.unit() * within_s;
        let seen = Duration(libm::round((age_s + arrival_s) * 1e9) as u64);
        if goes_on(index, seen) {
            let arrival = Duration(libm::round(arrival_s * 1e9) as u64);
            found.push(ResumedViewer {
                arrival,
                index,
                seen,
            });
        }
    }
    found.sort_unstable();
    found
}

/// Upper bound of a session's length: the longest title, and a pause before each further request.
fn longest_s(specification: &Specification, catalogue: &Catalogue) -> f64 {
    let viewing = &specification.viewing;
    let pauses = viewing.pause_time.law.points();
    let pause_s = match viewing.pause > 0.0 {
        true => pauses.last().map_or(0.0, |point| point.0),
        false => 0.0,
    };
    let titles = catalogue.titles.iter();
    let length_s = titles.map(|title| {
        let segments = f64::from(title.segments());
        segments * (title.segment_time.as_secs_f64() + pause_s)
    });
    length_s.fold(0.0, f64::max)
}
