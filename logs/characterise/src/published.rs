//! What the thesis prints of its catalogue server, beside the same cells of our tables.
//!
//! The one idea: a published number is a line of `published.csv` that names the cell of ours with
//! the same meaning. Whoever shows numbers beside the thesis takes them from there.

use alloc::vec::Vec;

use serde::Serialize;

use crate::outcome::Table;

/// Sessions of the log that the thesis describes (Table 5.1).
pub const SESSIONS_PUBLISHED: u64 = 126_064;

/// A published number and where ours is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Published {
    /// Identifier of our table.
    pub table: &'static str,
    /// Key of the row.
    pub row: &'static str,
    /// Key of the column.
    pub column: &'static str,
    /// Where the thesis says it.
    pub place: &'static str,
    /// How exactly: empty, `about`, `more than`, `less than`.
    pub how: &'static str,
    /// What it says, in the unit of our column.
    pub value: f64,
}

/// The fields of each line of one of our lists, which are a part of the program: tests read them.
pub(crate) fn lines<const N: usize>(list: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    list.lines().skip(1).map(|line| {
        let mut fields = line.split(';');
        [(); N].map(|()| fields.next().expect("a field for each column"))
    })
}

pub(crate) fn number(text: &str) -> f64 {
    text.parse().expect("a number")
}

/// What a published number is multiplied by: the thesis prints binary units under the names of
/// decimal ones (T3, A17), and ours are decimal.
fn unit(table: &str, row: &str, column: &str) -> f64 {
    match (table, row, column) {
        ("table-5.1", "sent", _) => (1_u64 << 40) as f64 / 1e12,
        ("table-5.2", _, "gb") => f64::from(1 << 30) / 1e9,
        ("table-5.4", _, "mb") => f64::from(1 << 20) / 1e6,
        _ => 1.0,
    }
}

/// Everything that is known.
pub fn all() -> impl Iterator<Item = Published> {
    lines(include_str!("published.csv")).map(|[table, row, column, place, how, value]| Published {
        table,
        row,
        column,
        place,
        how,
        value: number(value) * unit(table, row, column),
    })
}

/// What is published for a cell of our tables.
pub fn published(table: &str, row: &str, column: &str) -> Option<Published> {
    all().find(|known| (known.table, known.row, known.column) == (table, row, column))
}

/// A published number beside ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beside {
    /// The published one.
    #[serde(flatten)]
    pub published: Published,
    /// Ours; nothing if the log has nothing of the kind.
    pub here: Option<f64>,
}

/// Every published number with ours, in the order of the thesis.
pub fn beside<'a>(tables: impl Iterator<Item = &'a Table> + Clone) -> Vec<Beside> {
    let here = |known: &Published| {
        let mut mine = tables.clone().filter(|table| table.id == known.table);
        mine.find_map(|table| table.number(known.row, known.column))
    };
    all()
        .map(|published| Beside {
            here: here(&published),
            published,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_published_twice() {
        let mut keys: Vec<_> = all()
            .map(|known| (known.table, known.row, known.column))
            .collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn the_published_shares_of_requests_sum_up() {
        let sum: f64 = ["open-total", "chunk-total"]
            .iter()
            .filter_map(|row| published("table-5.2", row, "gb"))
            .map(|known| known.value)
            .sum();
        // 10,956.8 and 20,542.9 are rounded.
        assert!((sum / 1.073_741_824 - 31_499.6).abs() < 0.2, "{sum}");
    }
}
