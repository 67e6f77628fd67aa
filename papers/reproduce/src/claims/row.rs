//! A row of a file of claims: which figure of ours is compared, and with which published one.

use headlong_published::{PublishedComparison, PublishedFigure, PublishedValue, Tolerance};
use serde::Deserialize;

use super::Claim;

/// One line of such a file.
#[derive(Debug, Deserialize)]
pub(crate) struct ClaimRow {
    /// The part of the reproduction that has the figure; empty if there are no parts.
    #[serde(default)]
    pub(crate) part: String,
    /// The claim.
    name: String,
    /// Our figure as `FIGURE: SUBJECT`; of two, `/` between them gives their ratio, and `over` by
    /// how many per cent the first is larger. Empty if we have no model.
    pub(crate) figure: String,
    published: Option<PublishedValue>,
    tolerance: Tolerance,
    source: String,
}

impl ClaimRow {
    /// The rows of a file that is part of the program and covered by a test.
    pub(crate) fn read(text: &'static str) -> impl Iterator<Item = Self> {
        let rows = csv::Reader::from_reader(text.as_bytes());
        rows.into_deserialize()
            .map(|row| row.expect("a file of claims is right"))
    }

    /// The two operands of the figure, or the only one.
    pub(crate) fn operands(&self) -> (&str, Option<&str>) {
        let pair = self.figure.split_once(" / ");
        match pair.or_else(|| self.figure.split_once(" over ")) {
            Some((this, that)) => (this, Some(that)),
            None => (&self.figure, None),
        }
    }

    /// Its claim; `figure` has the value of a figure of a subject.
    pub(crate) fn claim(self, figure: impl Fn(&str, &str) -> Option<f64>) -> Claim {
        let value = |text: &str| {
            let (name, subject) = text.split_once(": ")?;
            figure(name, subject)
        };
        let (this, that) = self.operands();
        let (this, that) = (value(this), that.map(value));
        let ours = match that {
            None => this,
            Some(that) => this.zip(that).map(|(this, that)| this / that),
        };
        let ours = match self.figure.contains(" over ") {
            true => ours.map(|ratio| (ratio - 1.0) * 100.0),
            false => ours,
        };
        let published = PublishedFigure::new(self.source, self.published, self.tolerance);
        Claim::published(PublishedComparison::new(self.name, ours, published))
    }
}
