//! Whether an origin answers, told to the operator: when it stops, once in a while as long as it does
//! not, and when it is back.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two lines about an origin that does not answer.
const SAY_INTERVAL: Duration = Duration::from_secs(60);

/// What is known of one origin.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// Since when it has not answered, and when that was said last.
    since: Mutex<Option<(Instant, Instant)>>,
}

/// What there is to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    Out { seconds: u64 },
    Back { seconds: u64 },
}

impl Trouble {
    /// A request to the origin did not get what an origin that is well answers.
    pub(super) fn failed(&self, origin: &str, what: &str) {
        if let Some(News::Out { seconds }) = self.note(Instant::now(), false) {
            tracing::warn!(
                origin,
                what,
                seconds,
                "an origin fails; what is here and not older than stale_max is still served"
            );
        }
    }

    /// The origin answered.
    pub(super) fn answered(&self, origin: &str) {
        if let Some(News::Back { seconds }) = self.note(Instant::now(), true) {
            tracing::info!(origin, seconds, "an origin answers again");
        }
    }

    fn note(&self, now: Instant, is_well: bool) -> Option<News> {
        let mut known = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = |since: Instant| now.duration_since(since).as_secs();
        if is_well {
            return known.take().map(|(since, _)| News::Back {
                seconds: seconds(since),
            });
        }
        let (since, said) = match *known {
            None => (now, None),
            Some((since, said)) => (since, Some(said)),
        };
        let is_due = said.is_none_or(|said| now.duration_since(said) >= SAY_INTERVAL);
        *known = Some((since, if is_due { now } else { said.unwrap_or(now) }));
        is_due.then(|| News::Out {
            seconds: seconds(since),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_that_fails_is_told_of_once_a_minute_and_when_it_is_back() {
        let trouble = Trouble::default();
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        assert_eq!(trouble.note(at(0), true), None, "nothing was wrong");
        assert_eq!(trouble.note(at(1), false), Some(News::Out { seconds: 0 }));
        assert_eq!(trouble.note(at(2), false), None);
        assert_eq!(trouble.note(at(60), false), None);
        assert_eq!(trouble.note(at(61), false), Some(News::Out { seconds: 60 }));
        assert_eq!(trouble.note(at(90), false), None);
        assert_eq!(
            trouble.note(at(100), true),
            Some(News::Back { seconds: 99 })
        );
        assert_eq!(trouble.note(at(101), true), None);
        assert_eq!(trouble.note(at(102), false), Some(News::Out { seconds: 0 }));
    }
}
