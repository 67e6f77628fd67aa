//! Short comparison of a log with the thesis: `figures.csv` names the cells of our tables and their
//! units; it contains no published numbers.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde::Serialize;

use crate::published_numbers::{SESSIONS_PUBLISHED, lines, number, published};
use crate::report::Characterisation;

/// One number of a log in the short comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// Name and unit.
    pub name: String,
    /// Our value; counts that grow with the log are scaled to the number of sessions in the thesis.
    /// 0 if the log has no such value.
    pub ours: f64,
    /// The value in the thesis; `None` if it has none.
    pub published: Option<f64>,
    /// Its place in the thesis, and which of its numbers is used where it contradicts itself.
    pub source: String,
}

/// The short comparison, in the order of the thesis.
pub fn comparison(of: &Characterisation) -> Vec<ComparisonRow> {
    let full = |sessions: u64| SESSIONS_PUBLISHED as f64 / sessions.max(1) as f64;
    let columns = lines(include_str!("figures.csv"));
    let figure = |[name, table, row, column, offset, divisor, scaled, note]: [&str; 8]| {
        let (offset, divisor) = (number(offset), number(divisor));
        let grown = match scaled {
            "all" => full(of.sessions),
            "kept" => full(of.sessions - of.sessions_left_out),
            _ => 1.0,
        };
        // The number of sessions differs between logs and is not compared.
        let known = published(table, row, column).filter(|_| scaled != "own");
        let place = known.map_or("", |known| known.place);
        ComparisonRow {
            name: name.to_string(),
            ours: offset + grown * of.number(table, row, column).unwrap_or(0.0) / divisor,
            published: known.map(|known| offset + known.value / divisor),
            source: match (place, note) {
                ("", other) | (other, "") => other.to_string(),
                (place, note) if note.starts_with('(') => format!("{place} {note}"),
                (place, note) => format!("{place}, {note}"),
            },
        }
    };
    columns.map(figure).collect()
}
