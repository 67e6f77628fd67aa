//! Published figures, and their comparison with measured figures.
//!
//! A published figure is a number as printed, with bound, unit and source, and a tolerance, so that
//! every comparison with a paper is judged and printed in the same way.
//!
//! Invariants: a figure specifies the paper and the section, table or figure; the measured figure is
//! in the unit of the published one; a figure that a model was fitted to, and one without a bound or
//! a tolerance, is shown but never judged.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod tolerance;
mod value;
mod verdict;

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};

use serde::Serialize;

pub use tolerance::{Tolerance, ToleranceError};
pub use value::{Bound, PublishedValue, ValueError};
pub use verdict::Verdict;

/// A published figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedFigure {
    /// The number as printed; `None` if the paper only shows it in a graph or describes it in words.
    #[serde(flatten)]
    pub value: Option<PublishedValue>,
    /// Paper and section, table or figure, such as `thesis Table 5.1`.
    pub source: Cow<'static, str>,
    /// The tolerance for the measured figure.
    #[serde(skip_serializing_if = "Tolerance::is_unstated")]
    pub tolerance: Tolerance,
}

impl PublishedFigure {
    /// A figure with its source and tolerance.
    pub fn new(
        source: impl Into<Cow<'static, str>>,
        value: Option<PublishedValue>,
        tolerance: Tolerance,
    ) -> Self {
        Self {
            value,
            source: source.into(),
            tolerance,
        }
    }

    /// Whether a measured figure is within the tolerance; `None` if this cannot be judged. A
    /// measured figure that is not finite counts as missing.
    pub fn holds(&self, ours: Option<f64>) -> Option<bool> {
        let ours = ours.filter(|ours| ours.is_finite())?;
        let value = self.value.as_ref();
        match self.tolerance {
            Tolerance::Fitted => None,
            Tolerance::Unstated => value?.allows(ours, None),
            Tolerance::Share(share) => value?.allows(ours, Some(share)),
            Tolerance::Between(from, to) => Some((from..=to).contains(&ours)),
        }
    }

    /// The verdict on a measured figure.
    pub fn verdict(&self, ours: Option<f64>) -> Verdict {
        match (self.holds(ours), ours) {
            (Some(true), _) => Verdict::Yes,
            (Some(false), _) => Verdict::No,
            (None, None) => Verdict::NotMeasured,
            (None, Some(_)) if self.tolerance == Tolerance::Fitted => Verdict::Fitted,
            (None, Some(_)) => Verdict::Shown,
        }
    }

    /// The relative difference of the measured figure from the published one; `None` if either is
    /// missing, or the published one is zero or only a bound.
    pub fn difference(&self, ours: Option<f64>) -> Option<f64> {
        let value = self.value.as_ref()?;
        let is_value = matches!(value.bound, Bound::Exact | Bound::About);
        let number = Some(value.number).filter(|number| is_value && *number != 0.0)?;
        Some(ours? / number - 1.0).filter(|part| part.is_finite())
    }
}

/// A measured figure compared with a published one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedComparison {
    /// Name of the figure, with its unit.
    pub name: String,
    /// The measured figure; `None` if there is none.
    pub ours: Option<f64>,
    /// The published figure.
    #[serde(flatten)]
    pub published: PublishedFigure,
}

impl PublishedComparison {
    /// Headings of the columns that [`Self::cells`] returns.
    pub const HEADS: [&'static str; 5] = ["What", "Here", "Published", "Difference (%)", "Where"];

    /// Compares a measured figure with a published one.
    pub fn new(name: impl Into<String>, ours: Option<f64>, published: PublishedFigure) -> Self {
        Self {
            name: name.into(),
            ours,
            published,
        }
    }

    /// Whether the measured figure is within the tolerance of the published one, as far as known.
    pub fn holds(&self) -> Option<bool> {
        self.published.holds(self.ours)
    }

    /// The verdict on the measured figure.
    pub fn verdict(&self) -> Verdict {
        self.published.verdict(self.ours)
    }

    /// A table row: name, measured figure, published figure as printed, difference in per cent,
    /// source. A missing cell is `None`.
    pub fn cells(&self) -> [Option<String>; 5] {
        let published = self.published.value.as_ref().map(ToString::to_string);
        let difference = self.published.difference(self.ours);
        [
            Some(self.name.clone()),
            self.ours.map(number),
            published,
            difference.map(|part| format!("{:.1}", part * 100.0)),
            Some(self.published.source.to_string()),
        ]
    }
}

/// A number with a number of decimals that depends on its magnitude: none from 1000, one from 10,
/// otherwise three.
pub fn number(value: f64) -> String {
    let decimals = match libm::fabs(value) {
        size if size >= 1_000.0 => 0,
        size if size >= 10.0 => 1,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: Option<&str>, tolerance: Tolerance) -> PublishedFigure {
        let value = value.map(|text| text.parse().expect("a value"));
        PublishedFigure::new("nowhere", value, tolerance)
    }

    #[test]
    fn measured_figure_is_within_or_outside_tolerance() {
        for (value, tolerance, inside, outside) in [
            (Some("10"), Tolerance::Share(0.1), 9.1, 11.1),
            (Some("> 10"), Tolerance::Unstated, 10.1, 10.0),
            (Some("< 10"), Tolerance::Unstated, 9.9, 10.0),
            (Some("10"), Tolerance::Between(2.0, 3.0), 3.0, 10.0),
            (None, Tolerance::Between(2.0, 3.0), 2.5, 3.5),
        ] {
            let figure = figure(value, tolerance);
            assert_eq!(figure.verdict(Some(inside)), Verdict::Yes, "{figure:?}");
            assert_eq!(figure.verdict(Some(outside)), Verdict::No, "{figure:?}");
        }
    }

    #[test]
    fn figure_without_number_or_tolerance_is_not_judged() {
        for (value, tolerance) in [
            (None, Tolerance::Share(0.1)),
            (Some("1"), Tolerance::Unstated),
            (Some("about 1"), Tolerance::Unstated),
        ] {
            assert_eq!(figure(value, tolerance).verdict(Some(1.0)), Verdict::Shown);
        }
        let fitted = figure(Some("1"), Tolerance::Fitted);
        assert_eq!(fitted.verdict(Some(9.0)), Verdict::Fitted);
        let half = figure(Some("1"), Tolerance::Share(0.5));
        assert_eq!(half.verdict(None), Verdict::NotMeasured);
        assert_eq!(half.holds(Some(f64::NAN)), None);
        assert_eq!(half.difference(Some(1.5)), Some(0.5));
        for bound in ["0", "< 2"] {
            let figure = figure(Some(bound), Tolerance::Unstated);
            assert_eq!(figure.difference(Some(1.0)), None);
        }
    }

    #[test]
    fn row_has_both_figures_difference_and_source() {
        let published = PublishedFigure {
            source: "thesis Table 5.1".into(),
            ..figure(Some("about 30.8 TiB"), Tolerance::Unstated)
        };
        let row = PublishedComparison::new("data sent", Some(33.88), published).cells();
        let expected = [
            "data sent",
            "33.9",
            "about 30.8 TiB",
            "10.0",
            "thesis Table 5.1",
        ];
        assert_eq!(
            row.each_ref().map(|cell| cell.as_deref()),
            expected.map(Some)
        );
        let curve = figure(None, Tolerance::Unstated);
        let row = PublishedComparison::new("a curve", None, curve).cells();
        assert_eq!(row[1..4], [None, None, None]);
    }

    #[test]
    fn json_form_is_flat() {
        let of = |value| {
            let published = figure(value, Tolerance::Unstated);
            let compared = PublishedComparison::new("a", Some(1.0), published);
            serde_json::to_value(compared).expect("JSON")
        };
        let expected = serde_json::json!({
            "name": "a", "ours": 1.0, "published": 2.0, "bound": "about", "unit": "MB/s",
            "source": "nowhere",
        });
        assert_eq!(of(Some("about 2 MB/s")), expected);
        let expected = serde_json::json!({ "name": "a", "ours": 1.0, "source": "nowhere" });
        assert_eq!(of(None), expected);
    }
}
