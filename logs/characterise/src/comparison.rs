//! The figures of a log that are compared with the thesis in short: `figures.csv` says which cells of
//! our tables they are and in what unit, and has no published numbers of its own.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde::Serialize;

use crate::published::{SESSIONS_PUBLISHED, lines, number, published};
use crate::report::Characterisation;

/// One figure of a log, for a comparison in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Its name and unit.
    pub name: String,
    /// Ours; counts that grow with the log are those of as many sessions as the thesis' log has. 0
    /// if the log has nothing of the kind.
    pub ours: f64,
    /// What the thesis prints; `None` if it prints nothing.
    pub published: Option<f64>,
    /// Where, and which of its numbers that is if it contradicts itself.
    pub source: String,
}

/// The comparison in short, in the order of the thesis.
pub fn comparison(of: &Characterisation) -> Vec<Comparison> {
    let full = |sessions: u64| SESSIONS_PUBLISHED as f64 / sessions.max(1) as f64;
    let columns = lines(include_str!("figures.csv"));
    let figure = |[name, table, row, column, offset, divisor, scaled, note]: [&str; 8]| {
        let (offset, divisor) = (number(offset), number(divisor));
        let grown = match scaled {
            "all" => full(of.sessions),
            "kept" => full(of.sessions - of.sessions_left_out),
            _ => 1.0,
        };
        // How many sessions a log has is its own affair.
        let known = published(table, row, column).filter(|_| scaled != "own");
        let place = known.map_or("", |known| known.place);
        Comparison {
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
