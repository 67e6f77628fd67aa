//! Sizes in bytes, and their text form.

use core::fmt;
use core::str::FromStr;

use crate::parse::{ParseError, ParseFailure, quantity};

/// 2^10 bytes.
pub const KIB: u64 = 1 << 10;
/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;
/// 2^30 bytes.
pub const GIB: u64 = 1 << 30;
/// 2^40 bytes.
pub const TIB: u64 = 1 << 40;

/// A size in bytes, written as `2MiB`, `512 KiB`, `1.5GiB`, `4096` or `1GB`.
///
/// `K`, `M`, `G` and `T` alone are powers of 1024, as in other servers; `KB`, `MB`, `GB` and `TB`
/// are powers of 1000, as for disks. A number without a unit is in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let parsed = quantity(text, "2MiB")?;
        let factor = match parsed.unit {
            "" | "B" => 1,
            "K" | "k" | "KiB" => KIB,
            "M" | "m" | "MiB" => MIB,
            "G" | "g" | "GiB" => GIB,
            "T" | "t" | "TiB" => TIB,
            "KB" | "kB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            _ => {
                let units = "B, KiB, MiB, GiB, TiB, KB, MB, GB and TB";
                return Err(ParseError::new(text, ParseFailure::UnknownUnit(units)));
            }
        };
        let bytes = parsed.scaled(factor);
        bytes
            .map(Bytes)
            .ok_or_else(|| ParseError::new(text, ParseFailure::TooLarge))
    }
}

impl fmt::Display for Bytes {
    /// Uses the largest binary unit that divides the size exactly, so that no information is lost.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, name) in [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")] {
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return write!(f, "{}{name}", self.0 / unit);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl Bytes {
    /// For people: at most one decimal of the largest unit, such as `170.7MiB`.
    pub fn rounded(self) -> RoundedBytes {
        RoundedBytes(self)
    }
}

/// A size for people; it does not parse back to the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundedBytes(Bytes);

impl fmt::Display for RoundedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bytes(bytes) = self.0;
        for (unit, name) in [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")] {
            if bytes >= unit {
                let tenths = (u128::from(bytes) * 10 + u128::from(unit / 2)) / u128::from(unit);
                return match tenths % 10 {
                    0 => write!(f, "{}{name}", tenths / 10),
                    tenth => write!(f, "{}.{tenth}{name}", tenths / 10),
                };
            }
        }
        write!(f, "{bytes}B")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn sizes_can_be_written_in_many_ways() {
        for (text, bytes) in [
            ("2MiB", 2 * MIB),
            ("512 KiB", 512 * KIB),
            ("1.5GiB", GIB + GIB / 2),
            ("64G", 64 * GIB),
            ("1TB", 1_000_000_000_000),
            ("4096", 4096),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn the_error_for_a_wrong_size_shows_a_valid_one() {
        for text in ["", "MiB", "2QiB", "1.2.3MiB", "-5", "99999999TiB", "2 000"] {
            let error = text.parse::<Bytes>().expect_err(text).to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn rounded_sizes_have_at_most_one_decimal() {
        for (bytes, shown) in [
            (178_956_970, "170.7MiB"),
            (24_105 * MIB, "23.5GiB"),
            (4 * GIB, "4GiB"),
            (1023, "1023B"),
            (0, "0B"),
            (u64::MAX, "16777216TiB"),
        ] {
            assert_eq!(Bytes(bytes).rounded().to_string(), shown);
        }
    }

    proptest! {
        #[test]
        fn printed_sizes_parse_back(bytes: u64) {
            prop_assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }

        #[test]
        fn no_text_causes_a_panic(text in ".*") {
            let _ = text.parse::<Bytes>();
        }
    }
}
