//! Health of an origin for the log: reports when it fails, periodically while it does, and when it
//! recovers.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval between log lines about a failing origin.
const SAY_INTERVAL: Duration = Duration::from_secs(60);

/// State of one origin.
#[derive(Debug, Default)]
pub(super) struct OriginHealth {
    /// Time of the first failure, and of the last log line.
    since: Mutex<Option<(Instant, Instant)>>,
}

/// A change to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HealthChange {
    Out { seconds: u64 },
    Back { seconds: u64 },
}

impl OriginHealth {
    /// A request to the origin failed.
    pub(super) fn failed(&self, origin: &str, what: &str) {
        if let Some(HealthChange::Out { seconds }) = self.note(Instant::now(), false) {
            tracing::warn!(
                origin,
                what,
                seconds,
                "origin fails; titles confirmed within stale_max are still served"
            );
        }
    }

    /// The origin responded.
    pub(super) fn answered(&self, origin: &str) {
        if let Some(HealthChange::Back { seconds }) = self.note(Instant::now(), true) {
            tracing::info!(origin, seconds, "origin responds again");
        }
    }

    #[cfg(test)]
    pub(super) fn is_failing(&self) -> bool {
        let known = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        known.is_some()
    }

    fn note(&self, now: Instant, is_well: bool) -> Option<HealthChange> {
        let mut known = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = |since: Instant| now.duration_since(since).as_secs();
        if is_well {
            return known.take().map(|(since, _)| HealthChange::Back {
                seconds: seconds(since),
            });
        }
        let (since, said) = match *known {
            None => (now, None),
            Some((since, said)) => (since, Some(said)),
        };
        let is_due = said.is_none_or(|said| now.duration_since(said) >= SAY_INTERVAL);
        *known = Some((since, if is_due { now } else { said.unwrap_or(now) }));
        is_due.then(|| HealthChange::Out {
            seconds: seconds(since),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_origin_is_logged_once_a_minute_and_on_recovery() {
        let trouble = OriginHealth::default();
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        assert_eq!(trouble.note(at(0), true), None, "no failure before");
        assert_eq!(
            trouble.note(at(1), false),
            Some(HealthChange::Out { seconds: 0 })
        );
        assert_eq!(trouble.note(at(2), false), None);
        assert_eq!(trouble.note(at(60), false), None);
        assert_eq!(
            trouble.note(at(61), false),
            Some(HealthChange::Out { seconds: 60 })
        );
        assert_eq!(trouble.note(at(90), false), None);
        assert_eq!(
            trouble.note(at(100), true),
            Some(HealthChange::Back { seconds: 99 })
        );
        assert_eq!(trouble.note(at(101), true), None);
        assert_eq!(
            trouble.note(at(102), false),
            Some(HealthChange::Out { seconds: 0 })
        );
    }
}
