//! Time in 64-bit nanoseconds, and the text form of durations.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::parse::{ParseError, ParseFailure, quantity};

/// A point in time: nanoseconds since an origin chosen by the caller (process start, or simulation
/// start).
///
/// The current time cannot be queried here: it is passed as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

/// A length of time in nanoseconds. Arithmetic saturates: a deadline may be "never".
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Duration(pub u64);

impl Instant {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// Later than any event.
    pub const NEVER: Self = Self(u64::MAX);

    /// The time since `earlier`; zero if it lies in the future.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// Longer than any duration that occurs.
    pub const MAX: Self = Self(u64::MAX);

    /// From whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// From whole milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_mul(1_000_000))
    }

    /// From whole microseconds.
    pub const fn from_micros(microseconds: u64) -> Self {
        Self(microseconds.saturating_mul(1_000))
    }

    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Seconds, for printing and for rates.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `count` times this duration.
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, length: Duration) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(length.0))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl FromStr for Duration {
    type Err = ParseError;

    /// Parses `5s`, `250ms`, `1.5min`, `2h`, `30d`. A unit is required, because seconds and milliseconds
    /// are easily confused.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let parsed = quantity(text, "5s")?;
        let name = match parsed.unit {
            "m" => "min",
            "µs" => "us",
            "" => return Err(ParseError::new(text, ParseFailure::NoUnit("5s or 250ms"))),
            other => other,
        };
        let Some((_, factor)) = UNITS.iter().find(|(unit, _)| *unit == name) else {
            return Err(ParseError::new(
                text,
                ParseFailure::UnknownUnit("d, h, min, s, ms, us and ns"),
            ));
        };
        let length = parsed.scaled(*factor);
        length
            .map(Duration)
            .ok_or_else(|| ParseError::new(text, ParseFailure::TooLarge))
    }
}

impl fmt::Display for Duration {
    /// Uses the largest unit that divides the duration exactly, so that no information is lost.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        for (name, factor) in UNITS {
            if self.0.is_multiple_of(factor) {
                return write!(f, "{}{name}", self.0 / factor);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn durations_can_be_written_in_many_ways() {
        for (text, length) in [
            ("5s", Duration::from_secs(5)),
            ("250ms", Duration::from_millis(250)),
            ("1.5 min", Duration::from_secs(90)),
            ("2h", Duration::from_secs(7200)),
            ("30d", Duration::from_secs(30 * 86_400)),
            ("0s", Duration::ZERO),
        ] {
            assert_eq!(text.parse(), Ok(length), "{text}");
        }
    }

    #[test]
    fn a_duration_without_a_unit_is_rejected() {
        let error = "30".parse::<Duration>().expect_err("no unit").to_string();
        assert!(error.contains("30") && error.contains("5s"), "{error}");
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Instant::NEVER + Duration::from_secs(1), Instant::NEVER);
        assert_eq!(Instant::ZERO - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant(5).since(Instant(9)), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn printed_durations_parse_back(nanoseconds: u64) {
            let length = Duration(nanoseconds);
            prop_assert_eq!(length.to_string().parse(), Ok(length));
        }
    }
}
