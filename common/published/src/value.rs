//! A published number as the paper prints it: with its bound and its unit.

use alloc::borrow::ToOwned as _;
use alloc::string::{String, ToString as _};
use core::fmt;
use core::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// What a printed number says about the value.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The number is the value.
    #[default]
    Exact,
    /// The paper says "about", "nearly" or "approximately".
    About,
    /// The value is below the number: "fewer than", "less than".
    Below,
    /// The value is above the number: "more than".
    Above,
    /// The value lies between the number and this one: "800 to 1000".
    To(f64),
}

/// A number with its bound and unit. Its text form: `25.11 MB/s`, `about 45 MB/s`, `< 3 %`, `> 99
/// %` or `800 to 1000 ms`; a number without a unit is a ratio or a count.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedValue {
    /// The printed number, in `unit`.
    #[serde(rename = "published")]
    pub number: f64,
    /// Whether it is the value, or a bound of it.
    #[serde(skip_serializing_if = "Bound::is_exact")]
    pub bound: Bound,
    /// Unit as printed; empty for ratios and counts.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unit: String,
}

/// A text that is not a published value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a published value; write a number with its unit, such as 25.11 MB/s, about 45 \
     MB/s, < 3 %, > 99 % or 800 to 1000 ms"
)]
pub struct ValueError(String);

impl Bound {
    /// Whether the number is the value.
    pub const fn is_exact(&self) -> bool {
        matches!(self, Self::Exact)
    }
}

impl PublishedValue {
    /// An exact number in this unit.
    pub fn new(number: f64, unit: impl Into<String>) -> Self {
        Self {
            number,
            bound: Bound::Exact,
            unit: unit.into(),
        }
    }

    /// Whether `ours` is within the bound, widened by `share` of the number; `None` if the paper
    /// gives neither a bound nor a share.
    pub(crate) fn allows(&self, ours: f64, share: Option<f64>) -> Option<bool> {
        let width = share.unwrap_or(0.0) * libm::fabs(self.number);
        match self.bound {
            Bound::Below => Some(ours < self.number + width),
            Bound::Above => Some(ours > self.number - width),
            Bound::To(high) => {
                let above = share.unwrap_or(0.0) * libm::fabs(high);
                Some((self.number - width..=high + above).contains(&ours))
            }
            Bound::Exact | Bound::About => share.map(|_| libm::fabs(ours - self.number) <= width),
        }
    }
}

impl From<f64> for PublishedValue {
    fn from(number: f64) -> Self {
        Self::new(number, "")
    }
}

impl fmt::Display for PublishedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bound {
            Bound::Exact => {}
            Bound::About => f.write_str("about ")?,
            Bound::Below => f.write_str("< ")?,
            Bound::Above => f.write_str("> ")?,
            Bound::To(high) => {
                write!(f, "{} to {high}", self.number)?;
                return write_unit(f, &self.unit);
            }
        }
        write!(f, "{}", self.number)?;
        write_unit(f, &self.unit)
    }
}

fn write_unit(f: &mut fmt::Formatter<'_>, unit: &str) -> fmt::Result {
    match unit {
        "" => Ok(()),
        unit => write!(f, " {unit}"),
    }
}

impl FromStr for PublishedValue {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wrong = || ValueError(text.to_owned());
        let finite = |text: &str| {
            let number = text.parse::<f64>().ok();
            number.filter(|number| number.is_finite())
        };
        let text_left = text.trim();
        let prefixes = [
            ("about ", Bound::About),
            ("<", Bound::Below),
            (">", Bound::Above),
        ];
        let found = prefixes.into_iter().find_map(|(prefix, bound)| {
            text_left
                .strip_prefix(prefix)
                .map(|rest| (bound, rest.trim()))
        });
        let (mut bound, rest) = found.unwrap_or((Bound::Exact, text_left));
        let (number, mut unit) = rest.split_once(' ').unwrap_or((rest, ""));
        let number = finite(number).ok_or_else(wrong)?;
        if let Some(high) = unit.strip_prefix("to ") {
            let (high, unit_left) = high.split_once(' ').unwrap_or((high, ""));
            let high = finite(high).filter(|high| bound.is_exact() && *high > number);
            bound = Bound::To(high.ok_or_else(wrong)?);
            unit = unit_left;
        }
        Ok(Self {
            number,
            bound,
            unit: unit.trim().to_owned(),
        })
    }
}

impl<'de> Deserialize<'de> for PublishedValue {
    /// From its text form, or from a number without a unit.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyForm;

        impl Visitor<'_> for AnyForm {
            type Value = PublishedValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or a text such as `about 45 MB/s`")
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<PublishedValue, E> {
                Ok(number.into())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<PublishedValue, E> {
                Ok((number as f64).into())
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<PublishedValue, E> {
                Ok((number as f64).into())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<PublishedValue, E> {
                text.parse()
                    .map_err(|error: ValueError| E::custom(error.to_string()))
            }
        }

        deserializer.deserialize_any(AnyForm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> PublishedValue {
        text.parse().expect("a value")
    }

    #[test]
    fn written_value_reads_back_unchanged() {
        for text in [
            "25.11 MB/s",
            "about 45 MB/s",
            "< 3 %",
            "> 99 %",
            "800 to 1000 ms",
            "-12.5 %",
            "2.33",
            "70 requests/s",
        ] {
            assert_eq!(value(text).to_string(), text);
        }
    }

    #[test]
    fn unknown_form_is_rejected_with_valid_forms() {
        for text in ["", "MB/s", "about", "~5", "5 to 4 ms", "< 1 to 2", "nan"] {
            let error = text.parse::<PublishedValue>().expect_err(text);
            assert!(error.to_string().contains("about 45"), "{error}");
        }
    }

    #[test]
    fn bound_decides_without_tolerance() {
        for (text, inside, outside) in [
            ("< 3 %", 2.9, 3.0),
            ("> 99 %", 99.1, 99.0),
            ("800 to 1000 ms", 800.0, 1000.1),
        ] {
            assert_eq!(value(text).allows(inside, None), Some(true), "{text}");
            assert_eq!(value(text).allows(outside, None), Some(false), "{text}");
        }
        assert_eq!(value("about 3").allows(3.0, None), None);
        assert_eq!(value("about 3").allows(3.2, Some(0.1)), Some(true));
        assert_eq!(value("< 3").allows(3.2, Some(0.1)), Some(true));
    }
}
