//! What must come out again whatever the numbers.

use headlong_published::Beside;
use headlong_report::Table;

use crate::published::{Of, Paper};

/// Each shape of a paper with ours: a ratio of two values, of which nobody may know one.
pub(crate) fn shapes_table(paper: Paper, value: impl Fn(&Of) -> Option<f64>) -> Table {
    let mut table = Table::new(["Published", "Here", "Comes out again"]);
    for shape in &paper.said().shapes {
        let values = value(&shape.this).zip(value(&shape.that));
        let ratio = values.map(|(this, that)| this / that);
        let words = format!("{} ({})", shape.name, shape.ratio.source);
        let row = Beside::new(words, ratio, shape.ratio.clone());
        table.push([
            row.name.as_str().into(),
            ratio.map(|ratio| format!("{ratio:.2} times")).into(),
            row.judgement().words().into(),
        ]);
    }
    table
}
