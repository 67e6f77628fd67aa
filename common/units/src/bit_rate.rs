//! Bit rates of titles and networks.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::parse::{ParseError, ParseFailure, quantity};
use crate::time::Duration;

/// Bits per second. Zero means no data at all, never "unknown", for which an `Option` is used.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct BitRate(pub u64);

impl BitRate {
    /// From kilobits per second, the unit of manifests, CMCD and the papers.
    pub const fn from_kbps(kilobits: u64) -> Self {
        Self(kilobits.saturating_mul(1000))
    }

    /// From a transfer of `bytes` that took `length`; `None` if `length` is zero.
    pub fn from_transfer(bytes: u64, length: Duration) -> Option<Self> {
        let bits = u128::from(bytes) * 8 * 1_000_000_000;
        let rate = bits.checked_div(u128::from(length.0))?;
        Some(Self(u64::try_from(rate).unwrap_or(u64::MAX)))
    }

    /// How long `bytes` last at this rate; [`Duration::MAX`] at rate zero.
    pub fn time_for(self, bytes: u64) -> Duration {
        let bits = u128::from(bytes) * 8 * 1_000_000_000;
        let length = bits.checked_div(u128::from(self.0));
        length.map_or(Duration::MAX, |ns| {
            Duration(u64::try_from(ns).unwrap_or(u64::MAX))
        })
    }

    /// The number of bytes in `length` at this rate.
    pub fn bytes_in(self, length: Duration) -> u64 {
        let bits = u128::from(self.0) * u128::from(length.0) / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }
}

impl FromStr for BitRate {
    type Err = ParseError;

    /// Parses `2000kbps`, `2.5Mbps`, `800bps`; a unit is required.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let parsed = quantity(text, "2000kbps")?;
        let factor = match parsed.unit {
            "bps" => 1,
            "kbps" | "Kbps" => 1_000,
            "Mbps" => 1_000_000,
            "Gbps" => 1_000_000_000,
            "" => return Err(ParseError::new(text, ParseFailure::NoUnit("2000kbps"))),
            _ => {
                let units = "bps, kbps, Mbps and Gbps";
                return Err(ParseError::new(text, ParseFailure::UnknownUnit(units)));
            }
        };
        parsed
            .scaled(factor)
            .map(Self)
            .ok_or_else(|| ParseError::new(text, ParseFailure::TooLarge))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) {
            write!(f, "{}kbps", self.0 / 1000)
        } else {
            write!(f, "{}bps", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_time_convert_both_ways() {
        let rate = BitRate::from_kbps(2_000);
        assert_eq!(rate.time_for(500_000), Duration::from_secs(2));
        assert_eq!(rate.bytes_in(Duration::from_secs(2)), 500_000);
        assert_eq!(
            BitRate::from_transfer(500_000, Duration::from_secs(2)),
            Some(rate)
        );
    }

    #[test]
    fn extreme_rates_are_handled() {
        assert_eq!(BitRate(0).time_for(1), Duration::MAX);
        assert_eq!(BitRate::from_transfer(1, Duration::ZERO), None);
        assert_eq!(BitRate(u64::MAX).bytes_in(Duration::MAX), u64::MAX);
    }

    #[test]
    fn rates_are_written_with_a_unit() {
        assert_eq!("2.5Mbps".parse(), Ok(BitRate(2_500_000)));
        assert_eq!("419kbps".parse(), Ok(BitRate::from_kbps(419)));
        assert!("419".parse::<BitRate>().is_err());
    }
}
