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

mod tolerance;

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString as _};

use serde::Serialize;

pub use tolerance::{Tolerance, ToleranceError};

/// A published figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedFigure {
    /// The number, in the unit given by the name of the figure; `None` if the paper only shows it
    /// in a graph or describes it in words.
    #[serde(rename = "published")]
    pub value: Option<f64>,
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
        value: Option<f64>,
        tolerance: Tolerance,
    ) -> Self {
        Self {
            value,
            source: source.into(),
            tolerance,
        }
    }

    /// Whether a measured figure is within the tolerance; `None` if one of the two figures is
    /// missing, or no tolerance is stated. A measured figure that is not finite counts as missing.
    pub fn holds(&self, ours: Option<f64>) -> Option<bool> {
        self.tolerance
            .allows(self.value, ours.filter(|ours| ours.is_finite())?)
    }

    /// The relative difference of the measured figure from the published one; `None` if either is
    /// missing or the published one is zero.
    pub fn difference(&self, ours: Option<f64>) -> Option<f64> {
        let value = self.value.filter(|value| *value != 0.0)?;
        Some(ours? / value - 1.0).filter(|part| part.is_finite())
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

    /// A table row: name, measured figure, published figure with its qualifier, difference in per
    /// cent, source. A missing cell is `None`.
    pub fn cells(&self) -> [Option<String>; 5] {
        let published = self.published.value.map(|value| {
            let exactly = self.published.tolerance.to_string();
            let text = format!("{exactly} {}", number(value));
            match exactly.starts_with(char::is_alphabetic) {
                true => text,
                false => number(value),
            }
        });
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

    fn judged(value: Option<f64>, tolerance: Tolerance, ours: f64) -> Option<bool> {
        PublishedFigure::new("nowhere", value, tolerance).holds(Some(ours))
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
        let figure = PublishedFigure::new("nowhere", Some(1.0), Tolerance::Share(0.5));
        assert_eq!(figure.holds(None), None);
        assert_eq!(figure.holds(Some(f64::NAN)), None);
        let zero = PublishedFigure::new("nowhere", Some(0.0), Tolerance::Unstated);
        assert_eq!(zero.difference(Some(1.0)), None);
        assert_eq!(figure.difference(Some(1.5)), Some(0.5));
    }

    #[test]
    fn a_row_has_both_figures_their_difference_and_the_source() {
        let published = PublishedFigure::new("thesis Table 5.1", Some(30.8), Tolerance::About);
        let row = PublishedComparison::new("data sent, TiB", Some(33.88), published).cells();
        let expected = [
            "data sent, TiB",
            "33.9",
            "about 30.8",
            "10.0",
            "thesis Table 5.1",
        ];
        assert_eq!(
            row.each_ref().map(|cell| cell.as_deref()),
            expected.map(Some)
        );
        let curve = PublishedFigure::new("Figure 1", None, Tolerance::Unstated);
        let row = PublishedComparison::new("a curve", None, curve).cells();
        assert_eq!(row[1..4], [None, None, None]);
    }

    #[test]
    fn the_json_form_is_flat() {
        let published = PublishedFigure::new("thesis 5.3", Some(2.0), Tolerance::Unstated);
        let json = serde_json::to_value(PublishedComparison::new("a", Some(1.0), published))
            .expect("JSON");
        let expected = serde_json::json!({
            "name": "a", "ours": 1.0, "published": 2.0, "source": "thesis 5.3",
        });
        assert_eq!(json, expected);
    }
}
