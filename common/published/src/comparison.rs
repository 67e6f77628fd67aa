//! A measured figure compared with a published one, and how both are printed.

use alloc::format;
use alloc::string::{String, ToString as _};

use serde::Serialize;

use crate::{Judgement, PublishedFigure};

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

    /// Whether the measured figure is within the tolerance of the published one.
    pub fn judgement(&self) -> Judgement {
        self.published.judge(self.ours)
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
    use crate::Tolerance;

    #[test]
    fn a_row_has_both_figures_their_difference_and_the_source() {
        let published = PublishedFigure::new("thesis Table 5.1", 30.8).within(Tolerance::About);
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
        let row =
            PublishedComparison::new("a curve", None, PublishedFigure::without_number("Figure 1"))
                .cells();
        assert_eq!(row[1..4], [None, None, None]);
    }

    #[test]
    fn the_json_form_is_flat() {
        let published = PublishedFigure::new("thesis 5.3", 2.0);
        let json = serde_json::to_value(PublishedComparison::new("a", Some(1.0), published))
            .expect("JSON");
        let expected = serde_json::json!({
            "name": "a", "ours": 1.0, "published": 2.0, "source": "thesis 5.3",
        });
        assert_eq!(json, expected);
    }
}
