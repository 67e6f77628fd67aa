//! The report: tables and figures in sections, with their provenance, and its short comparison with
//! the thesis. `figures.csv` names the cells of the comparison and their units; it contains no
//! published numbers.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::observations::Observations;
use crate::published_numbers::{
    NumberComparison, SESSIONS_PUBLISHED, beside, lines, number, published,
};
use crate::tables::{Figure, ReportItems, Table};

/// Name of the JSON schema of [`Characterisation`]; docs/schemas/characterisation-2.json.
pub const SCHEMA: &str = "headlong-characterisation-2";

/// Dropped lines of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedLines {
    /// The reason.
    pub reason: String,
    /// The number of lines.
    pub count: u64,
    /// The first such line and its position.
    pub sample: String,
}

/// Provenance of the numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Title of the report.
    pub title: String,
    /// Names of the logs.
    pub logs: Vec<String>,
    /// Their format, and how it was detected.
    pub format: String,
    /// How sessions were identified.
    pub sessions_by: String,
    /// Bytes sent.
    pub bytes: u64,
    /// Requests parsed.
    pub requests: u64,
    /// Dropped lines by reason.
    pub dropped: Vec<DroppedLines>,
    /// Replies that failed, by status.
    pub failures: Vec<DroppedLines>,
    /// Files whose kind, bit rate and size were estimated, because no table has them.
    pub files_estimated: u64,
    /// Number of files.
    pub files: u64,
    /// Further notes for readers.
    pub notes: Vec<String>,
    /// The command line.
    pub command: String,
}

/// A section of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportSection {
    /// Identifier for programs.
    pub key: String,
    /// Heading for readers.
    pub heading: String,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its figures.
    pub figures: Vec<Figure>,
}

impl ReportSection {
    pub(crate) fn new((key, heading, outcome): (&str, &str, ReportItems)) -> Self {
        Self {
            key: key.into(),
            heading: heading.into(),
            tables: outcome.tables,
            figures: outcome.figures,
        }
    }
}

/// The characterisation of a log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Characterisation {
    /// [`SCHEMA`].
    pub schema: String,
    /// Its provenance.
    pub about: Provenance,
    /// Sessions in the log.
    pub sessions: u64,
    /// Sessions excluded because they still run at the end of the log (A16).
    pub sessions_left_out: u64,
    /// Tables and figures.
    pub sections: Vec<ReportSection>,
    /// Published numbers of the thesis beside ours, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside_thesis: Vec<NumberComparison>,
    /// The fitted workload specification as TOML, if requested; the same text as `--spec` writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specification: Option<String>,
    /// Its measurements.
    #[serde(skip)]
    pub observed: Observations,
}

impl Characterisation {
    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = &Table> + Clone {
        self.sections.iter().flat_map(|section| &section.tables)
    }

    /// All figures.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> + Clone {
        self.sections.iter().flat_map(|section| &section.figures)
    }

    /// A number by table, row and column.
    pub fn number(&self, table: &str, row: &str, column: &str) -> Option<f64> {
        let mut tables = self.tables().filter(|known| known.id == table);
        tables.find_map(|table| table.number(row, column))
    }

    /// Adds the published numbers of the thesis.
    pub fn beside_thesis(mut self) -> Self {
        self.beside_thesis = beside(self.tables());
        self
    }
}

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
