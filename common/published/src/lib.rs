//! Published figures, and their comparison with measured figures.
//!
//! A published figure is a number with its source and a tolerance, so that every comparison with a
//! paper is judged and printed in the same way.
//!
//! Invariants: a figure specifies the paper and the section, table or figure; its name contains its
//! unit; a figure without a number or without a stated tolerance is shown but never judged.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod comparison;
mod tolerance;

use alloc::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use comparison::{PublishedComparison, number};
pub use tolerance::{Tolerance, ToleranceError};

/// A published figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedFigure {
    /// The number, in the unit given by the name of the figure; `None` if the paper only shows it
    /// in a graph or describes it in words.
    #[serde(rename = "published")]
    pub value: Option<f64>,
    /// Paper and section, table or figure, such as `thesis Table 5.1`.
    pub source: Cow<'static, str>,
    /// The tolerance for the measured figure.
    #[serde(default, skip_serializing_if = "Tolerance::is_unstated")]
    pub tolerance: Tolerance,
}

/// The relation of a measured figure to a published one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// Within the tolerance.
    Within,
    /// Outside the tolerance.
    Outside,
    /// One of the two figures is missing, or no tolerance is stated.
    NotComparable,
}

impl PublishedFigure {
    /// A figure that is compared without a judgement.
    pub const fn new(source: &'static str, value: f64) -> Self {
        Self {
            value: Some(value),
            source: Cow::Borrowed(source),
            tolerance: Tolerance::Unstated,
        }
    }

    /// A figure that the paper only shows in a graph or describes in words.
    pub const fn without_number(source: &'static str) -> Self {
        Self {
            value: None,
            source: Cow::Borrowed(source),
            tolerance: Tolerance::Unstated,
        }
    }

    /// Sets the tolerance.
    pub const fn within(mut self, tolerance: Tolerance) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Judges a measured figure. A measured figure that is not finite counts as missing.
    pub fn judge(&self, ours: Option<f64>) -> Judgement {
        let Some(ours) = ours.filter(|ours| ours.is_finite()) else {
            return Judgement::NotComparable;
        };
        match self.tolerance.allows(self.value, ours) {
            None => Judgement::NotComparable,
            Some(true) => Judgement::Within,
            Some(false) => Judgement::Outside,
        }
    }

    /// The relative difference of the measured figure from the published one; `None` if either is
    /// missing or the published one is zero.
    pub fn difference(&self, ours: Option<f64>) -> Option<f64> {
        let value = self.value.filter(|value| *value != 0.0)?;
        Some(ours? / value - 1.0).filter(|part| part.is_finite())
    }
}

impl Judgement {
    /// The text in tables: `yes`, `no`, or none.
    pub const fn words(self) -> Option<&'static str> {
        match self {
            Self::Within => Some("yes"),
            Self::Outside => Some("no"),
            Self::NotComparable => None,
        }
    }

    /// `Some(true)` if the measured figure is within the tolerance, `Some(false)` if not, `None` if
    /// this cannot be determined.
    pub const fn holds(self) -> Option<bool> {
        match self {
            Self::Within => Some(true),
            Self::Outside => Some(false),
            Self::NotComparable => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(value: Option<f64>, tolerance: Tolerance, ours: f64) -> Option<bool> {
        let figure = PublishedFigure {
            value,
            ..PublishedFigure::without_number("nowhere").within(tolerance)
        };
        figure.judge(Some(ours)).holds()
    }

    #[test]
    fn a_measured_figure_is_within_or_outside_the_tolerance() {
        let ten = Some(10.0);
        for (tolerance, inside, outside) in [
            (Tolerance::Share(0.1), 9.1, 11.1),
            (Tolerance::MoreThan, 10.1, 10.0),
            (Tolerance::LessThan, 9.9, 10.0),
            (Tolerance::Between(2.0, 3.0), 3.0, 10.0),
        ] {
            assert_eq!(judged(ten, tolerance, inside), Some(true), "{tolerance}");
            assert_eq!(judged(ten, tolerance, outside), Some(false), "{tolerance}");
        }
        assert_eq!(judged(None, Tolerance::Between(2.0, 3.0), 2.5), Some(true));
    }

    #[test]
    fn a_figure_without_number_or_tolerance_is_not_judged() {
        assert_eq!(judged(None, Tolerance::Share(0.1), 1.0), None);
        assert_eq!(judged(Some(1.0), Tolerance::Unstated, 1.0), None);
        assert_eq!(judged(Some(1.0), Tolerance::About, 1.0), None);
        let figure = PublishedFigure::new("nowhere", 1.0).within(Tolerance::Share(0.5));
        assert_eq!(figure.judge(None), Judgement::NotComparable);
        assert_eq!(figure.judge(Some(f64::NAN)), Judgement::NotComparable);
        assert_eq!(
            PublishedFigure::new("nowhere", 0.0).difference(Some(1.0)),
            None
        );
        assert_eq!(figure.difference(Some(1.5)), Some(0.5));
    }
}
