//! The result: tables and figures in sections, and where they are from.

use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;

use crate::observed::Observed;
use crate::outcome::{Figure, Outcome, Table};
use crate::published::{Beside, beside};

/// Name of the form of [`Characterisation`] as JSON; docs/schemas/characterisation-2.json.
pub const SCHEMA: &str = "headlong-characterisation-2";

/// Lines of a log that were not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// Why.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// The first of them: where it is and what it says.
    pub sample: String,
}

/// Where the numbers are from.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct About {
    /// What the report is called.
    pub title: String,
    /// Names of the logs.
    pub logs: Vec<String>,
    /// Their form, and how it was found.
    pub format: String,
    /// What a session is made from.
    pub sessions_by: String,
    /// Bytes that the requests sent.
    pub bytes: u64,
    /// Requests that were understood.
    pub requests: u64,
    /// What was left out and why.
    pub dropped: Vec<Dropped>,
    /// Files whose kind, bit rate and size were estimated because no table named them.
    pub files_estimated: u64,
    /// Files in all.
    pub files: u64,
    /// Anything else that a reader must know.
    pub notes: Vec<String>,
    /// The command that made it.
    pub command: String,
}

/// A part of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Section {
    /// What programs call it.
    pub key: String,
    /// What people call it.
    pub heading: String,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its figures.
    pub figures: Vec<Figure>,
}

impl Section {
    pub(crate) fn new((key, heading, outcome): (&str, &str, Outcome)) -> Self {
        Self {
            key: key.into(),
            heading: heading.into(),
            tables: outcome.tables,
            figures: outcome.figures,
        }
    }
}

/// What a log says of its viewers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Characterisation {
    /// [`SCHEMA`].
    pub schema: String,
    /// Where it is from.
    pub about: About,
    /// Sessions in the log.
    pub sessions: u64,
    /// Those of them that start too near its end to count (A16).
    pub sessions_left_out: u64,
    /// Tables and figures.
    pub sections: Vec<Section>,
    /// Published numbers of the thesis beside ours, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside_thesis: Vec<Beside>,
    /// The workload specification that is fitted to it, as TOML, if it was asked for: what `--spec`
    /// writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specification: Option<String>,
    /// What it is fitted from.
    #[serde(skip)]
    pub observed: Observed,
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

    /// With the published numbers of the thesis beside it.
    pub fn beside_thesis(mut self) -> Self {
        self.beside_thesis = beside(self.tables());
        self
    }
}
