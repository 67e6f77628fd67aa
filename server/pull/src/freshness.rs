//! Freshness of titles at an edge.

use headlong_units::{Duration, Instant};

/// Upper limit of an origin's `max-age`.
const FRESH_MAX: Duration = Duration::from_secs(24 * 3600);
/// Lower limit, whatever the origin says: all viewers of a live stream request its playlist at
/// once.
const FRESH_MIN: Duration = Duration::from_secs(1);
/// Minimum interval between queries about a title while its origin fails.
const RETRY: Duration = Duration::from_secs(1);

/// Settings of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreshnessRules {
    /// Freshness lifetime if the origin does not specify one.
    pub fresh: Duration,
    /// How long after its last validation a version is served while the origin fails.
    pub stale_max: Duration,
}

/// Validation state of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    confirmed: Instant,
    fresh_for: Duration,
    failed: Option<Instant>,
}

/// How to handle a request for a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheDecision {
    /// Serve it.
    Fresh,
    /// Query the origin. If that fails, the version may be served if `may_be_stale`.
    Ask {
        /// Whether the version may be served if the query fails.
        may_be_stale: bool,
    },
    /// Serve it stale; a recent query failed.
    Stale,
    /// Serve nothing; a recent query failed, and the version is too old.
    TooOld,
}

impl Freshness {
    /// A version validated at `confirmed`.
    pub const fn new(confirmed: Instant, fresh_for: Duration) -> Self {
        Self {
            confirmed,
            fresh_for,
            failed: None,
        }
    }

    /// A query of the origin failed.
    pub fn note_failure(&mut self, now: Instant) {
        self.failed = Some(now);
    }

    /// Time since the last validation.
    pub fn age(&self, now: Instant) -> Duration {
        now.since(self.confirmed)
    }

    /// How much longer it is fresh.
    pub fn left(&self, now: Instant) -> Duration {
        Duration(self.fresh_for.0.saturating_sub(self.age(now).0))
    }

    /// How to handle a request now.
    pub fn judge(&self, now: Instant, rules: &FreshnessRules) -> CacheDecision {
        let age = self.age(now);
        if age < self.fresh_for {
            return CacheDecision::Fresh;
        }
        let may_be_stale = age < rules.stale_max;
        let failed_now = self.failed.is_some_and(|at| now.since(at) < RETRY);
        match (failed_now, may_be_stale) {
            (false, may_be_stale) => CacheDecision::Ask { may_be_stale },
            (true, true) => CacheDecision::Stale,
            (true, false) => CacheDecision::TooOld,
        }
    }
}

/// Freshness lifetime of a response, from its `cache-control` and `age`.
pub fn fresh_for(cache_control: Option<&str>, age: Option<&str>, usual: Duration) -> Duration {
    let Some(text) = cache_control else {
        return usual;
    };
    let mut told = None;
    for directive in text.split(',') {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        let seconds = value.trim().trim_matches('"').parse::<u64>().ok();
        match name.trim() {
            name if name.eq_ignore_ascii_case("s-maxage") => {
                told = seconds.or(told);
                break;
            }
            name if name.eq_ignore_ascii_case("max-age") => told = seconds.or(told),
            name if ["no-cache", "no-store"]
                .iter()
                .any(|no| name.eq_ignore_ascii_case(no)) =>
            {
                return FRESH_MIN;
            }
            _ => {}
        }
    }
    let Some(told) = told else {
        return usual;
    };
    let age = age.and_then(|age| age.trim().parse::<u64>().ok());
    let left = told
        .saturating_sub(age.unwrap_or(0))
        .min(FRESH_MAX.as_millis() / 1000);
    Duration::from_secs(left).max(FRESH_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    #[test]
    fn stale_version_is_validated_with_pause_after_failure() {
        let rules = FreshnessRules {
            fresh: Duration::from_secs(10),
            stale_max: Duration::from_secs(100),
        };
        let mut known = Freshness::new(at(0), rules.fresh);
        assert_eq!(known.judge(at(9), &rules), CacheDecision::Fresh);
        assert_eq!(
            known.judge(at(10), &rules),
            CacheDecision::Ask { may_be_stale: true }
        );
        known.note_failure(at(11));
        assert_eq!(known.judge(at(11), &rules), CacheDecision::Stale);
        assert_eq!(
            known.judge(at(12), &rules),
            CacheDecision::Ask { may_be_stale: true }
        );
        assert_eq!(
            known.judge(at(100), &rules),
            CacheDecision::Ask {
                may_be_stale: false
            }
        );
        known.note_failure(at(100));
        assert_eq!(known.judge(at(100), &rules), CacheDecision::TooOld);
    }

    #[test]
    fn max_age_of_origin_applies_within_limits() {
        let usual = Duration::from_secs(60);
        let cases = [
            (None, None, 60),
            (Some("public"), None, 60),
            (Some("max-age=5"), None, 5),
            (Some("public, Max-Age=\"7\""), None, 7),
            (Some("max-age=5, s-maxage=9"), None, 9),
            (Some("s-maxage=9, max-age=5"), None, 9),
            (Some("max-age=50"), Some("20"), 30),
            (Some("max-age=50"), Some("99"), 1),
            (Some("max-age=0"), None, 1),
            (Some("no-store"), None, 1),
            (Some("max-age=10, no-cache"), None, 1),
            (Some("max-age=99999999999999999999"), None, 60),
            (Some("max-age=9999999999999999999"), None, 86_400),
        ];
        for (control, age, seconds) in cases {
            let told = fresh_for(control, age, usual);
            assert_eq!(told, Duration::from_secs(seconds), "{control:?} {age:?}");
        }
    }
}
