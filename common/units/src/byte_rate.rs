//! Bytes per second, and their text form.

use core::str::FromStr;

use crate::parse::{ParseError, ParseFailure, quantity};
use crate::size::{GIB, KIB, MIB};

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRate(pub u64);

/// Units and their bytes per second.
const UNITS: [(&str, u64); 14] = [
    ("B/s", 1),
    ("KiB/s", KIB),
    ("MiB/s", MIB),
    ("GiB/s", GIB),
    ("KB/s", 1_000),
    ("kB/s", 1_000),
    ("MB/s", 1_000_000),
    ("GB/s", 1_000_000_000),
    ("Mbit/s", 125_000),
    ("Gbit/s", 125_000_000),
    ("Tbit/s", 125_000_000_000),
    ("Mbps", 125_000),
    ("Gbps", 125_000_000),
    ("Tbps", 125_000_000_000),
];

impl FromStr for ByteRate {
    type Err = ParseError;

    /// Parses `70MiB/s`, `500MB/s`, `40Gbit/s`; a unit is required.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let parsed = quantity(text, "70MiB/s")?;
        if parsed.unit.is_empty() {
            return Err(ParseError::new(text, ParseFailure::NoUnit("70MiB/s")));
        }
        let Some((_, factor)) = UNITS.iter().find(|(unit, _)| *unit == parsed.unit) else {
            let units = "B/s, KiB/s, MiB/s, GiB/s, KB/s, MB/s, GB/s, Mbit/s, Gbit/s and Tbit/s";
            return Err(ParseError::new(text, ParseFailure::UnknownUnit(units)));
        };
        let rate = parsed.scaled(*factor).map(Self);
        rate.ok_or_else(|| ParseError::new(text, ParseFailure::TooLarge))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_in_bits_or_bytes() {
        for (text, bytes) in [
            ("40Gbit/s", 5_000_000_000),
            ("8 Mbps", 1_000_000),
            ("1MiB/s", MIB),
            ("0.5MB/s", 500_000),
        ] {
            assert_eq!(text.parse(), Ok(ByteRate(bytes)), "{text}");
        }
        for wrong in ["", "40", "-1Gbit/s", "70MiB", "4 apples", "inf"] {
            wrong.parse::<ByteRate>().expect_err(wrong);
        }
    }
}
