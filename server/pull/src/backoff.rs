//! Pauses between requests to an origin that does not answer: without them, every viewer's retry
//! is a connection to it, at the moment when it comes back most of all.

use headlong_units::{Duration, Instant};

/// Consecutive failures before the first pause: a single lost connection is no outage.
const FAILURES_MIN: u32 = 4;
/// The first pause. Each further failure doubles it.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(16);
/// How long a single request may find out whether the origin is back.
const PROBE: Duration = Duration::from_secs(6);

/// Whether an origin may be asked now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OriginBackoff {
    failures: u32,
    /// No request before this time.
    until: Option<Instant>,
}

impl OriginBackoff {
    /// Whether a request may be sent now. After a pause one request is let through, and others only
    /// if it does not end in time.
    pub fn admit(&mut self, now: Instant) -> bool {
        match self.until {
            Some(until) if now < until => false,
            Some(_) => {
                self.until = Some(now + PROBE);
                true
            }
            None => true,
        }
    }

    /// The origin has answered.
    pub fn note_answer(&mut self) {
        *self = Self::default();
    }

    /// It could not be reached, or did not answer in time. `jitter` is any number: the pause is
    /// between half of its length and all of it, so that the boxes of a fleet do not ask together.
    pub fn note_failure(&mut self, now: Instant, jitter: u64) {
        self.failures = self.failures.saturating_add(1);
        let Some(doublings) = self.failures.checked_sub(FAILURES_MIN) else {
            return;
        };
        let pause = PAUSE_FIRST.times(1 << doublings.min(10)).min(PAUSE_MAX);
        let half = pause.0 / 2;
        self.until = Some(now + Duration(half + jitter % (half + 1)));
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const fn at(milliseconds: u64) -> Instant {
        Instant(milliseconds * 1_000_000)
    }

    #[test]
    fn pause_begins_after_several_failures_and_doubles() {
        let mut backoff = OriginBackoff::default();
        for _ in 1..FAILURES_MIN {
            backoff.note_failure(at(0), u64::MAX);
            assert!(backoff.admit(at(0)) && backoff.admit(at(0)));
        }
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            backoff.note_failure(at(now), 0);
            let pause = (0..).find(|ms| backoff.admit(at(now + ms))).expect("ends");
            pauses.push(pause);
            now += pause;
            assert!(!backoff.admit(at(now)), "one request finds out");
        }
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
        backoff.note_answer();
        assert!(backoff.admit(at(now)) && backoff.admit(at(now)));
    }

    #[test]
    fn request_that_never_ends_blocks_others_for_a_bounded_time() {
        let mut backoff = OriginBackoff::default();
        for _ in 0..FAILURES_MIN {
            backoff.note_failure(at(0), 0);
        }
        assert!(backoff.admit(at(1000)));
        assert!(!backoff.admit(at(6999)));
        assert!(backoff.admit(at(7000)));
    }

    #[test]
    fn jitter_spreads_the_pause_over_its_second_half() {
        for (jitter, last_refused) in [(0, 249), (125_000_000, 374), (250_000_000, 499)] {
            let mut backoff = OriginBackoff::default();
            for _ in 0..FAILURES_MIN {
                backoff.note_failure(at(0), jitter);
            }
            assert!(!backoff.admit(at(last_refused)), "{jitter}");
            assert!(backoff.admit(at(last_refused + 1)), "{jitter}");
        }
    }
}
