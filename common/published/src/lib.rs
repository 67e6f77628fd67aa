//! Figures of papers, and ours beside them.
//!
//! The one idea: a published figure is a number with its source and with how near ours has to be,
//! so every comparison with a paper is judged and printed in the same way.
//!
//! Invariants: a figure says paper and section, table or figure; its name says its unit; what has
//! no number, or no stated tolerance, is shown and never judged.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod beside;
mod tolerance;

use alloc::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use beside::{Beside, number};
pub use tolerance::{Tolerance, ToleranceError};

/// A figure of a paper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The number, in the unit that the figure's name gives; `None` if the paper draws it only, or
    /// says it in words.
    #[serde(rename = "published")]
    pub value: Option<f64>,
    /// Paper and section, table or figure, such as `thesis Table 5.1`.
    pub source: Cow<'static, str>,
    /// How near ours has to be.
    #[serde(default, skip_serializing_if = "Tolerance::is_unstated")]
    pub tolerance: Tolerance,
}

/// How ours stands to a published figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// As near as it has to be.
    Within,
    /// Not as near.
    Outside,
    /// One of the two is missing, or nothing says how near they have to be.
    NotComparable,
}

impl Published {
    /// A figure that ours is shown beside, without a judgement.
    pub const fn new(source: &'static str, value: f64) -> Self {
        Self {
            value: Some(value),
            source: Cow::Borrowed(source),
            tolerance: Tolerance::Unstated,
        }
    }

    /// What a paper draws, or says in words only.
    pub const fn without_number(source: &'static str) -> Self {
        Self {
            value: None,
            source: Cow::Borrowed(source),
            tolerance: Tolerance::Unstated,
        }
    }

    /// The same with a tolerance.
    pub const fn within(mut self, tolerance: Tolerance) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Ours against it. A number of ours that is not finite counts as missing.
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

    /// By how much ours is more than it, as a part of it; `None` without a number, or beside zero.
    pub fn difference(&self, ours: Option<f64>) -> Option<f64> {
        let value = self.value.filter(|value| *value != 0.0)?;
        Some(ours? / value - 1.0).filter(|part| part.is_finite())
    }
}

impl Judgement {
    /// As tables say it: `yes`, `no`, or nothing.
    pub const fn words(self) -> Option<&'static str> {
        match self {
            Self::Within => Some("yes"),
            Self::Outside => Some("no"),
            Self::NotComparable => None,
        }
    }

    /// `Some(true)` if ours is within, `Some(false)` if it is not, `None` if nobody can tell.
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
        let figure = Published {
            value,
            ..Published::without_number("nowhere").within(tolerance)
        };
        figure.judge(Some(ours)).holds()
    }

    #[test]
    fn ours_is_within_or_outside_what_the_paper_allows() {
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
    fn what_nobody_can_tell_is_not_judged() {
        assert_eq!(judged(None, Tolerance::Share(0.1), 1.0), None);
        assert_eq!(judged(Some(1.0), Tolerance::Unstated, 1.0), None);
        assert_eq!(judged(Some(1.0), Tolerance::About, 1.0), None);
        let figure = Published::new("nowhere", 1.0).within(Tolerance::Share(0.5));
        assert_eq!(figure.judge(None), Judgement::NotComparable);
        assert_eq!(figure.judge(Some(f64::NAN)), Judgement::NotComparable);
        assert_eq!(Published::new("nowhere", 0.0).difference(Some(1.0)), None);
        assert_eq!(figure.difference(Some(1.5)), Some(0.5));
    }
}
