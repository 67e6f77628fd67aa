//! Shapes: relations that must be reproduced, independent of numbers.

use headlong_published::PublishedComparison;
use headlong_report::Table;

use crate::published::{ConfigurationKey, Paper};

/// The shapes of a paper with our results: a ratio of two values, either of which may be unknown.
pub(crate) fn shapes_table(
    paper: Paper,
    value: impl Fn(&ConfigurationKey) -> Option<f64>,
) -> Table {
    let mut table = Table::new(["Published", "Here", "Reproduced"]);
    for shape in &paper.said().shapes {
        let values = value(&shape.this).zip(value(&shape.that));
        let ratio = values.map(|(this, that)| this / that);
        let words = format!("{} ({})", shape.name, shape.ratio.source);
        let row = PublishedComparison::new(words, ratio, shape.ratio.clone());
        table.push([
            row.name.as_str().into(),
            ratio.map(|ratio| format!("{ratio:.2} times")).into(),
            row.judgement().words().into(),
        ]);
    }
    table
}
