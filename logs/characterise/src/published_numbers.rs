//! Published numbers of the thesis' catalogue server, mapped to cells of our tables.
//!
//! A published number is a line of `published.csv` that names our cell with the same meaning. All
//! comparisons with the thesis use this list.

use alloc::vec::Vec;

use serde::Serialize;

use crate::tables::Table;

/// Sessions of the log that the thesis describes (Table 5.1).
pub const SESSIONS_PUBLISHED: u64 = 126_064;

/// A published number, and the cell of our tables.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PublishedNumber {
    /// Identifier of our table.
    pub table: &'static str,
    /// Key of the row.
    pub row: &'static str,
    /// Key of the column.
    pub column: &'static str,
    /// Its place in the thesis.
    pub place: &'static str,
    /// Its precision: empty, `about`, `more than`, `less than`.
    pub how: &'static str,
    /// Its value, in the unit of our column.
    pub value: f64,
}

/// The fields of each line of a compiled-in list; tests cover all of them.
pub(crate) fn lines<const N: usize>(list: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    list.lines().skip(1).map(|line| {
        let mut fields = line.split(';');
        [(); N].map(|()| fields.next().expect("a field for each column"))
    })
}

pub(crate) fn number(text: &str) -> f64 {
    text.parse().expect("a number")
}

/// Conversion factor of a published number: the thesis prints binary units under decimal names (T3,
/// A17); ours are decimal.
fn unit(table: &str, row: &str, column: &str) -> f64 {
    match (table, row, column) {
        ("table-5.1", "sent", _) => (1_u64 << 40) as f64 / 1e12,
        ("table-5.1", "mean" | "peak", _) | ("table-5.2", _, "gb") => f64::from(1 << 30) / 1e9,
        ("table-5.4", _, "mb") => f64::from(1 << 20) / 1e6,
        _ => 1.0,
    }
}

/// All published numbers.
pub fn all() -> impl Iterator<Item = PublishedNumber> {
    lines(include_str!("published.csv")).map(|[table, row, column, place, how, value]| {
        PublishedNumber {
            table,
            row,
            column,
            place,
            how,
            value: number(value) * unit(table, row, column),
        }
    })
}

/// The published number of a cell of our tables.
pub fn published(table: &str, row: &str, column: &str) -> Option<PublishedNumber> {
    all().find(|known| (known.table, known.row, known.column) == (table, row, column))
}

/// A published number and ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NumberComparison {
    /// The published number.
    #[serde(flatten)]
    pub published: PublishedNumber,
    /// Our number; `None` if the log has no such value.
    pub here: Option<f64>,
}

/// Every published number with ours, in the order of the thesis.
pub fn beside<'a>(tables: impl Iterator<Item = &'a Table> + Clone) -> Vec<NumberComparison> {
    let here = |known: &PublishedNumber| {
        let mut mine = tables.clone().filter(|table| table.id == known.table);
        mine.find_map(|table| table.number(known.row, known.column))
    };
    all()
        .map(|published| NumberComparison {
            here: here(&published),
            published,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_cells_are_unique() {
        let mut keys: Vec<_> = all()
            .map(|known| (known.table, known.row, known.column))
            .collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn published_mean_rate_matches_published_bytes() {
        let of = |row| {
            published("table-5.1", row, "value")
                .expect("published")
                .value
        };
        let gbps = of("sent") * 1e12 * 8.0 / 86_400.0 / 1e9;
        // 2.9 is rounded to a digit.
        assert!((gbps - of("mean")).abs() < 0.05 * 1.074, "{gbps}");
    }

    #[test]
    fn published_bytes_of_requests_sum_up() {
        let sum: f64 = ["open-total", "chunk-total"]
            .iter()
            .filter_map(|row| published("table-5.2", row, "gb"))
            .map(|known| known.value)
            .sum();
        // 10,956.8 and 20,542.9 are rounded.
        assert!((sum / 1.073_741_824 - 31_499.6).abs() < 0.2, "{sum}");
    }
}
