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

/// Freshness of a version as stated by a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToldFreshness {
    /// Time since the origin confirmed it.
    pub age: Duration,
    /// How much longer it is fresh.
    pub left: Duration,
    /// Whether a peer told it, and not the origin.
    pub of_peer: bool,
}

impl ToldFreshness {
    /// An origin confirms a version now. The arguments are those of [`fresh_for`].
    pub fn of_origin(cache_control: Option<&str>, age: Option<&str>, usual: Duration) -> Self {
        Self {
            age: Duration::ZERO,
            left: fresh_for(cache_control, age, usual),
            of_peer: false,
        }
    }

    /// A peer has a version: the rest of its lifetime, which is zero without the field, and the time
    /// since the origin confirmed it, both in seconds.
    pub fn of_peer(left: Option<&str>, age: Option<&str>) -> Self {
        let seconds = |text: Option<&str>| {
            let seconds = text.and_then(|text| text.trim().parse().ok());
            Duration::from_secs(seconds.unwrap_or(0))
        };
        Self {
            // Both were rounded down, and no version becomes younger by that.
            age: seconds(age) + Duration::from_secs(1),
            left: seconds(left).min(FRESH_MAX),
            of_peer: true,
        }
    }

    /// Whether it may be served without a query.
    pub fn is_fresh(self) -> bool {
        self.left > Duration::ZERO
    }
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

    /// A version of which a response told now.
    pub fn told(now: Instant, told: ToldFreshness) -> Self {
        let confirmed = now - told.age;
        // A peer that has an outdated version was asked because the origin failed.
        let failed = (told.of_peer && !told.is_fresh()).then_some(now);
        Self {
            confirmed,
            fresh_for: now.since(confirmed) + told.left,
            failed,
        }
    }

    /// Whether the origin has confirmed the version of a peer later than this one. Only then it is
    /// news: boxes that lack the origin would otherwise confirm to each other what they know, and go
    /// back to versions that the origin has replaced.
    pub fn is_before(&self, now: Instant, told: ToldFreshness) -> bool {
        told.age < self.age(now)
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
    use alloc::string::ToString as _;

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
    fn boxes_that_ask_each_other_keep_no_version_beyond_stale_max() {
        let rules = FreshnessRules {
            fresh: Duration::from_secs(10),
            stale_max: Duration::from_secs(100),
        };
        let of_origin = ToldFreshness::of_origin(None, None, rules.fresh);
        let mut boxes = [Freshness::told(at(0), of_origin); 2];
        for tick in 100..1000 {
            let now = Instant(tick * 100_000_000);
            let [asked, asks] = &mut boxes;
            let age = asked.age(now).as_millis() / 1000;
            let told = ToldFreshness::of_peer(Some("0"), Some(&age.to_string()));
            assert!(!asks.is_before(now, told));
            asks.note_failure(now);
            assert_eq!(asks.judge(now, &rules), CacheDecision::Stale);
            boxes.reverse();
        }
        for known in boxes {
            let decision = known.judge(at(101), &rules);
            assert_eq!(
                decision,
                CacheDecision::Ask {
                    may_be_stale: false
                }
            );
        }
    }

    #[test]
    fn version_without_lifetime_is_asked_for_each_time() {
        let rules = FreshnessRules {
            fresh: Duration::ZERO,
            stale_max: Duration::from_secs(100),
        };
        let of_origin = ToldFreshness::of_origin(None, None, rules.fresh);
        let may_be_stale = true;
        let decision = Freshness::told(at(0), of_origin).judge(at(0), &rules);
        assert_eq!(decision, CacheDecision::Ask { may_be_stale });
    }

    #[test]
    fn version_of_a_peer_keeps_its_age() {
        let rules = FreshnessRules {
            fresh: Duration::from_secs(10),
            stale_max: Duration::from_secs(100),
        };
        let of_peer = |left, age| ToldFreshness::of_peer(left, age);
        let mut known = Freshness::told(at(1000), of_peer(Some("20"), Some("40")));
        assert_eq!(known.age(at(1000)), Duration::from_secs(41));
        assert_eq!(known.left(at(1005)), Duration::from_secs(15));
        let may_be_stale = true;
        let decision = known.judge(at(1020), &rules);
        assert_eq!(decision, CacheDecision::Ask { may_be_stale });
        let later = of_peer(None, Some("50"));
        assert!(known.is_before(at(1020), later));
        known = Freshness::told(at(1020), later);
        assert_eq!(known.judge(at(1020), &rules), CacheDecision::Stale);
        let forever = of_peer(Some("18446744073709551615"), None);
        assert_eq!(forever.left, FRESH_MAX);
        assert!(!of_peer(Some("-1"), Some("x")).is_fresh());
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
