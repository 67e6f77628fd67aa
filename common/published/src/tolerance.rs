//! The tolerance of a published figure.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

/// The tolerance for a measured figure. Its text form in lists of figures: empty, `fitted`, `5 %` or
/// `0.7 to 1.3`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum Tolerance {
    /// No tolerance is stated: the bound of the published number decides, if it has one.
    #[default]
    Unstated,
    /// The model was fitted to the published number: agreement says nothing.
    Fitted,
    /// The measured figure may differ by this fraction of the published number.
    Share(f64),
    /// The measured figure must lie between these two numbers, inclusive.
    Between(f64, f64),
}

/// A text that is not a tolerance.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a tolerance; write nothing, fitted, 5 % or 0.7 to 1.3")]
pub struct ToleranceError(String);

impl Tolerance {
    /// Whether no tolerance is stated.
    pub const fn is_unstated(&self) -> bool {
        matches!(self, Self::Unstated)
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unstated => Ok(()),
            Self::Fitted => f.write_str("fitted"),
            Self::Share(share) => write!(f, "{} %", libm::round(share * 1e6) / 1e4),
            Self::Between(from, to) => write!(f, "{from} to {to}"),
        }
    }
}

impl FromStr for Tolerance {
    type Err = ToleranceError;

    fn from_str(text: &str) -> Result<Self, ToleranceError> {
        let number = |text: &str| {
            let number = text.trim().parse::<f64>().ok();
            number
                .filter(|number| number.is_finite())
                .ok_or_else(|| ToleranceError(text.into()))
        };
        let text = text.trim();
        Ok(match text {
            "" => Self::Unstated,
            "fitted" => Self::Fitted,
            _ => match (text.strip_suffix('%'), text.split_once(" to ")) {
                (Some(percent), _) => Self::Share(number(percent)? / 100.0),
                (None, Some((from, to))) => Self::Between(number(from)?, number(to)?),
                (None, None) => return Err(ToleranceError(text.into())),
            },
        })
    }
}

impl TryFrom<String> for Tolerance {
    type Error = ToleranceError;

    fn try_from(text: String) -> Result<Self, ToleranceError> {
        text.parse()
    }
}

impl Serialize for Tolerance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    #[test]
    fn written_tolerance_reads_back_unchanged() {
        for text in ["", "fitted", "7 %", "0.7 to 1.3"] {
            let tolerance: Tolerance = text.parse().expect("a tolerance");
            assert_eq!(tolerance.to_string(), text);
        }
    }

    #[test]
    fn unknown_tolerance_is_rejected_with_valid_forms() {
        for text in ["5", "x %", "1 to", "nan to 2", "roughly"] {
            let error = text.parse::<Tolerance>().expect_err(text);
            assert!(error.to_string().contains("0.7 to 1.3"), "{error}");
        }
    }
}
