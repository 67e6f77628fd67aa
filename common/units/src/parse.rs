//! Splits `12.5MiB` into a number and a unit, exactly and without floating point.

use alloc::string::{String, ToString};
use core::fmt;

/// Why a size, a duration or a bit rate could not be parsed.
///
/// The message contains the value and the remedy, so that a configuration error can quote it
/// unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    value: String,
    reason: ParseFailure,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ParseFailure {
    NoNumber(&'static str),
    NoUnit(&'static str),
    UnknownUnit(&'static str),
    TooLarge,
}

impl ParseError {
    pub(crate) fn new(value: &str, reason: ParseFailure) -> Self {
        Self {
            value: value.to_string(),
            reason,
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = &self.value;
        match self.reason {
            ParseFailure::NoNumber(example) => {
                write!(
                    f,
                    "`{value}` does not start with a number; write it like {example}"
                )
            }
            ParseFailure::NoUnit(example) => {
                write!(f, "`{value}` has no unit; write it like {example}")
            }
            ParseFailure::UnknownUnit(units) => {
                write!(f, "`{value}` has an unknown unit; the units are {units}")
            }
            ParseFailure::TooLarge => write!(f, "`{value}` is too large to represent"),
        }
    }
}

impl core::error::Error for ParseError {}

/// A decimal number separated from the unit after it: `12.5MiB` is 125 tenths and `MiB`.
pub(crate) struct Quantity<'a> {
    digits: u128,
    denominator: u128,
    pub(crate) unit: &'a str,
}

impl Quantity<'_> {
    /// The number times `factor`, rounded down; `None` if it does not fit into 64 bits.
    pub(crate) fn scaled(&self, factor: u64) -> Option<u64> {
        let product = self.digits.checked_mul(u128::from(factor))?;
        u64::try_from(product / self.denominator).ok()
    }
}

/// Splits `text`; `example` is the valid form shown in the error.
pub(crate) fn quantity<'a>(
    text: &'a str,
    example: &'static str,
) -> Result<Quantity<'a>, ParseError> {
    let trimmed = text.trim();
    let end = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let no_number = || ParseError::new(text, ParseFailure::NoNumber(example));
    if whole.is_empty() || fraction.contains('.') {
        return Err(no_number());
    }
    // Nine decimals are more than any unit here can represent.
    let fraction = &fraction[..fraction.len().min(9)];
    let mut digits: u128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        digits = digits
            .checked_mul(10)
            .and_then(|d| d.checked_add(u128::from(digit - b'0')))
            .ok_or_else(|| ParseError::new(text, ParseFailure::TooLarge))?;
    }
    let denominator = 10u128.pow(fraction.len() as u32);
    Ok(Quantity {
        digits,
        denominator,
        unit: unit.trim(),
    })
}
