//! The meaning of each column of the tables that are written: its unit, and what it is.
//!
//! Names and units are stable within a version. A version changes when a column is removed or
//! renamed, or means something else; a further column does not change it. The footer of a Parquet
//! table and the metadata of an Arrow table have all of this; docs/lab/tables.md lists it.

use ::parquet::file::metadata::KeyValue;
use serde_json::json;

/// The meaning of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnMeaning {
    /// Its name.
    pub name: &'static str,
    /// Its unit; empty for names and flags.
    pub unit: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
}

/// A kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSchema {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: u32,
    /// Its columns, in order.
    pub columns: &'static [ColumnMeaning],
}

impl TableSchema {
    /// Entries for the footer of a Parquet table.
    pub(super) fn footer(&self) -> Vec<KeyValue> {
        let columns = self.columns.iter().map(
            |column| json!({"name": column.name, "unit": column.unit, "meaning": column.meaning}),
        );
        let columns: Vec<_> = columns.collect();
        vec![
            KeyValue::new("headlong.table".to_owned(), self.name.to_owned()),
            KeyValue::new("headlong.version".to_owned(), self.version.to_string()),
            KeyValue::new("headlong.columns".to_owned(), json!(columns).to_string()),
        ]
    }
}

const fn column(name: &'static str, unit: &'static str, meaning: &'static str) -> ColumnMeaning {
    ColumnMeaning {
        name,
        unit,
        meaning,
    }
}

const SESSION: ColumnMeaning = column("session", "", "name of the session");
const FILE: ColumnMeaning = column("file", "", "name of the file");
const DEVICE: ColumnMeaning = column(
    "device",
    "",
    "type of the viewer's device; empty if unknown",
);
const DISK: ColumnMeaning = column("disk", "", "drive; 0 if unknown");
const EPOCH_MS: &str = "ms since 1970, UTC";

/// A row for each request: such a table is itself a request log.
pub const REQUESTS: TableSchema = TableSchema {
    name: "requests",
    version: 1,
    columns: &[
        column("ts_ms", EPOCH_MS, "completion"),
        column("service_ms", "ms", "from arrival to completion"),
        SESSION,
        DEVICE,
        FILE,
        column("offset", "bytes", "first byte requested; null if unknown"),
        column("size", "bytes", "bytes requested; null if open-ended"),
        column("bytes", "bytes", "bytes sent"),
        DISK,
    ],
};

/// A row for each chain.
pub const CHAINS: TableSchema = TableSchema {
    name: "chains",
    version: 1,
    columns: &[
        SESSION,
        FILE,
        column("title", "", "name of the title"),
        column("kind", "", "0 audio, 1 video, 2 both"),
        column(
            "kbps",
            "kbit/s",
            "nominal bit rate; null unless a files table has it",
        ),
        column("start", "bytes", "lowest offset"),
        column(
            "length",
            "bytes",
            "from the lowest offset to the highest end",
        ),
        column("t_start", EPOCH_MS, "first arrival"),
        column("t_end", EPOCH_MS, "last completion"),
        column(
            "open",
            "",
            "whether the request at the lowest offset is open-ended",
        ),
        column("mixed", "", "whether requests of the other type are in it"),
        column("nreq", "requests", "requests in it"),
        DISK,
    ],
};

/// A row for each phase of a session.
pub const PHASES: TableSchema = TableSchema {
    name: "phases",
    version: 1,
    columns: &[
        SESSION,
        column("kind", "", "transient, stable or inactive"),
        column("t_start", EPOCH_MS, "start"),
        column("t_end", EPOCH_MS, "end"),
        column("chains", "chains", "chains in it"),
        column("nreq", "requests", "requests in it"),
        column("bytes", "bytes", "bytes in its chains"),
    ],
};

/// A row for each session.
pub const SESSIONS: TableSchema = TableSchema {
    name: "sessions",
    version: 1,
    columns: &[
        SESSION,
        DEVICE,
        column("title", "", "title of the first file requested"),
        column("t_start", EPOCH_MS, "first arrival"),
        column("t_end", EPOCH_MS, "last completion"),
        column("nreq", "requests", "requests"),
        column("chains", "chains", "chains"),
        column("files", "files", "files requested"),
        column("bytes", "bytes", "bytes sent"),
        column(
            "kbps_mean",
            "kbit/s",
            "mean bit rate of its files, weighted by bytes",
        ),
        column(
            "left_out",
            "",
            "whether statistics exclude it, near the end of the log",
        ),
    ],
};

/// All tables of a characterisation.
pub const ALL: [TableSchema; 4] = [REQUESTS, CHAINS, PHASES, SESSIONS];

#[cfg(test)]
mod tests {
    use super::super::{ChainRow, PhaseRow, RequestRow, SessionRow, TableRow};
    use super::*;

    fn names<R: TableRow>() -> Vec<String> {
        R::columns().names().map(str::to_owned).collect()
    }

    #[test]
    fn every_column_has_a_meaning() {
        let written = [
            names::<RequestRow<'_>>(),
            names::<ChainRow<'_>>(),
            names::<PhaseRow<'_>>(),
            names::<SessionRow<'_>>(),
        ];
        for (schema, written) in ALL.iter().zip(written) {
            let described: Vec<_> = schema.columns.iter().map(|column| column.name).collect();
            assert_eq!(described, written, "{}", schema.name);
        }
    }

    #[test]
    fn page_lists_every_column() {
        let page = include_str!("../../../../docs/lab/tables.md");
        for schema in &ALL {
            let heading = format!("{}, version {}", schema.name, schema.version);
            let mut sections = page.split("\n## ");
            let section = sections.find(|part| part.lines().next() == Some(&heading));
            let section = section.unwrap_or_else(|| panic!("no {heading}"));
            for ColumnMeaning {
                name,
                unit,
                meaning,
            } in schema.columns
            {
                let row = format!("| `{name}` | {unit} | {meaning} |").replace("|  |", "| |");
                assert!(section.contains(&row), "{heading}: {row}");
            }
        }
    }
}
