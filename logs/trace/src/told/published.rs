//! What the thesis says of its catalog server, where its text or its tables give a number.

use serde::Serialize;

use super::outcome::Table;

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

const fn exact(
    place: &'static str,
    table: &'static str,
    row: &'static str,
    column: &'static str,
    value: f64,
) -> Published {
    Published {
        table,
        row,
        column,
        place,
        how: "",
        value,
    }
}

const fn told(
    place: &'static str,
    (table, row, column): (&'static str, &'static str, &'static str),
    how: &'static str,
    value: f64,
) -> Published {
    Published {
        table,
        row,
        column,
        place,
        how,
        value,
    }
}

/// Where it is published, our table and row, columns, and their numbers.
type RowOf = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [f64],
);

/// Tables 5.2 to 5.4: rows of numbers under the same columns.
const ROWS: &[RowOf] = &[
    (
        "Table 5.2",
        "table-5.2",
        "open-audio",
        REQUESTS,
        &[208_045.0, 0.3, 1095.7, 3.5],
    ),
    (
        "Table 5.2",
        "table-5.2",
        "open-video",
        REQUESTS,
        &[445_728.0, 0.7, 5828.1, 18.5],
    ),
    (
        "Table 5.2",
        "table-5.2",
        "open-combined",
        REQUESTS,
        &[166_720.0, 0.3, 4033.0, 12.8],
    ),
    (
        "Table 5.2",
        "table-5.2",
        "open-total",
        REQUESTS,
        &[820_493.0, 1.3, 10_956.8, 34.8],
    ),
    (
        "Table 5.2",
        "table-5.2",
        "chunk-audio",
        REQUESTS,
        &[2_654_422.0, 4.1, 299.2, 0.9],
    ),
    (
        "Table 5.2",
        "table-5.2",
        "chunk-video",
        REQUESTS,
        &[53_758_669.0, 82.3, 18_411.5, 58.4],
    ),
    (
        "Table 5.2",
        "table-5.2",
        "chunk-combined",
        REQUESTS,
        &[8_102_517.0, 12.4, 1832.2, 5.8],
    ),
    (
        "Table 5.2",
        "table-5.2",
        "chunk-total",
        REQUESTS,
        &[64_515_608.0, 98.7, 20_542.9, 65.2],
    ),
    (
        "Table 5.2",
        "table-5.2",
        "total",
        REQUESTS,
        &[65_336_101.0, 100.0, 31_499.6, 100.0],
    ),
    (
        "Table 5.3",
        "table-5.3",
        "overlap",
        CONNECTIONS,
        &[41.9, 18.0, 33.0, 6.0, 0.8, 0.3],
    ),
    (
        "Table 5.3",
        "table-5.3",
        "second",
        CONNECTIONS,
        &[41.9, 18.0, 33.0, 6.0, 0.8, 0.3],
    ),
    (
        "Table 5.4",
        "table-5.4",
        "open-audio",
        CHAINS,
        &[7.2, 1.3, 6.8, 534.1],
    ),
    (
        "Table 5.4",
        "table-5.4",
        "open-video",
        CHAINS,
        &[17.3, 1.1, 15.1, 63.7],
    ),
    (
        "Table 5.4",
        "table-5.4",
        "open-combined",
        CHAINS,
        &[7.0, 1.0, 25.5, 148.5],
    ),
    (
        "Table 5.4",
        "table-5.4",
        "open-total",
        CHAINS,
        &[31.5, 1.2, 15.5, 189.8],
    ),
    (
        "Table 5.4",
        "table-5.4",
        "chunk-audio",
        CHAINS,
        &[10.7, 10.8, 1.3, 134.7],
    ),
    (
        "Table 5.4",
        "table-5.4",
        "chunk-video",
        CHAINS,
        &[54.6, 43.0, 15.1, 51.6],
    ),
    (
        "Table 5.4",
        "table-5.4",
        "chunk-combined",
        CHAINS,
        &[3.2, 109.5, 25.5, 147.6],
    ),
    (
        "Table 5.4",
        "table-5.4",
        "chunk-total",
        CHAINS,
        &[68.5, 41.1, 13.4, 69.1],
    ),
    (
        "Table 5.4",
        "table-5.4",
        "total",
        CHAINS,
        &[100.0, 21.5, 14.1, 107.1],
    ),
];
const REQUESTS: &[&str] = &["requests", "requests-share", "gb", "gb-share"];
const CONNECTIONS: &[&str] = &["1", "2", "3", "4", "5", "6"];
const CHAINS: &[&str] = &["share", "requests", "mb", "ntt"];

/// Single numbers of tables and of the text.
const SINGLE: &[Published] = &[
    exact("Table 5.1", "table-5.1", "sent", "value", 30.8),
    exact("Table 5.1", "table-5.1", "mean", "value", 2.9),
    exact("Table 5.1", "table-5.1", "peak", "value", 5.5),
    exact("Table 5.1", "table-5.1", "sessions", "value", 126_064.0),
    exact("Table 5.1", "table-5.1", "titles", "value", 9793.0),
    exact("Table 5.1", "table-5.1", "files", "value", 102_386.0),
    exact("Table 5.1", "table-5.1", "requests", "value", 64_993_469.0),
    exact("5.1.2", "table-5.1", "hours", "value", 24.0),
    exact("5.2.1", "table-bit-rates", "video-1750", "time", 11.0),
    exact("5.2.1", "table-bit-rates", "video-3000", "time", 6.0),
    exact("5.2.1", "table-bit-rates", "video-5800", "bytes", 25.0),
    exact("5.2.2", "table-viewing", "first-part", "value", 85.0),
    told(
        "5.2.2",
        ("table-viewing", "start-1", "value"),
        "about",
        36.0,
    ),
    exact("5.2.2", "table-viewing", "start-5", "value", 60.0),
    told("5.2.2", ("table-viewing", "end-95", "value"), "about", 45.0),
    told(
        "5.2.2",
        ("table-viewing", "over-100-audio", "value"),
        "about",
        30.0,
    ),
    told(
        "5.2.2",
        ("table-viewing", "over-100-video", "value"),
        "about",
        10.0,
    ),
    told(
        "5.2.2",
        ("table-viewing", "video-20", "value"),
        "about",
        50.0,
    ),
    told(
        "5.3",
        ("table-chain-lengths", "chains", "value"),
        "about",
        2.3e6,
    ),
    told(
        "5.3.1",
        ("table-chain-lengths", "up-to-1mb", "value"),
        "more than",
        60.0,
    ),
    told(
        "5.3.1",
        ("table-chain-lengths", "over-10mb", "value"),
        "about",
        15.0,
    ),
    told(
        "5.3.1",
        ("table-chain-lengths", "bytes-over-10mb", "value"),
        "more than",
        90.0,
    ),
    told(
        "5.3.1",
        ("table-chain-lengths", "bytes-under-1mb", "value"),
        "less than",
        2.0,
    ),
    told(
        "5.3.2",
        ("table-chain-lengths", "at-zero", "value"),
        "about",
        24.0,
    ),
    exact("5.3.2", "table-chain-lengths", "open-768k", "value", 84.0),
    exact(
        "5.3.2",
        "table-chain-lengths",
        "open-under-768k",
        "value",
        0.4,
    ),
    told(
        "5.3.2",
        ("table-chain-lengths", "chunk-under-16k", "value"),
        "more than",
        49.0,
    ),
    exact(
        "5.3.2",
        "table-chain-lengths",
        "chunk-under-128k",
        "value",
        98.0,
    ),
    exact(
        "5.3.2",
        "table-chain-lengths",
        "rest-under-768k",
        "value",
        33.0,
    ),
    told(
        "5.3.3",
        ("table-chain-lengths", "over-20mb", "value"),
        "about",
        10.0,
    ),
    told(
        "5.3.3",
        ("table-chain-lengths", "over-450mb", "value"),
        "about",
        1.0,
    ),
    exact("5.3.3", "table-survival", "middle", "d45", 3.35),
    exact("5.4.6", "table-phases", "transient", "time", 5.2),
    exact("5.4.6", "table-phases", "stable", "time", 79.1),
    exact("5.4.6", "table-phases", "inactive", "time", 16.4),
    exact("5.4.6", "table-phases", "transient", "time-all", 5.2),
    exact("5.4.6", "table-phases", "stable", "time-all", 79.1),
    exact("5.4.6", "table-phases", "inactive", "time-all", 16.4),
    exact("5.4.6", "table-phases", "transient", "bytes", 7.6),
    exact("5.4.6", "table-phases", "stable", "bytes", 92.4),
    exact("5.4.4", "table-phases", "stable", "mean", 510.0),
    exact("5.4.4", "table-phases", "stable", "mean-all", 510.0),
    exact(
        "5.4.3",
        "table-phase-counts",
        "successors",
        "without-audio",
        150_290.0,
    ),
    exact(
        "5.4.3",
        "table-phase-counts",
        "successors",
        "all",
        150_290.0,
    ),
    told(
        "5.4.3",
        ("table-phase-counts", "start-transient", "without-audio"),
        "more than",
        97.0,
    ),
    told(
        "5.4.3",
        ("table-phase-counts", "start-transient", "all"),
        "more than",
        97.0,
    ),
    exact(
        "5.4.3",
        "table-phase-counts",
        "with-stable",
        "without-audio",
        56.0,
    ),
    told(
        "5.4.3",
        ("table-phase-counts", "short", "without-audio"),
        "about",
        33.0,
    ),
    exact("5.4.3", "table-changes", "decreases", "share", 17.0),
    exact("5.4.3", "table-changes", "remains", "share", 54.0),
    exact("5.4.3", "table-changes", "increases", "share", 29.0),
];

/// Everything that is known.
pub(crate) fn all() -> impl Iterator<Item = Published> {
    let rows = ROWS
        .iter()
        .flat_map(|(place, table, row, columns, values)| {
            let cells = columns.iter().zip(*values);
            cells.map(|(column, value)| exact(place, table, row, column, *value))
        });
    rows.chain(SINGLE.iter().copied())
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
        assert!((sum - 31_499.6).abs() < 0.2, "{sum}");
    }
}
