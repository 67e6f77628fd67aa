//! Lines of logs, in every format that is known.
//!
//! The one idea: a format finds pieces of text in a line ([`row`]), one place decides what they
//! mean together ([`entry`]). What a log is in is said by the caller or recognised by its head
//! ([`recognise`]).
//!
//! Invariants: no line makes a reader panic; what a line says depends on the line (and, for
//! columns, on the header) alone.

pub(crate) mod alias;
pub(crate) mod csv;
pub(crate) mod device;
pub(crate) mod entry;
pub(crate) mod format;
pub(crate) mod json;
pub(crate) mod number;
mod range;
mod reason;
pub(crate) mod recognise;
pub(crate) mod row;
pub(crate) mod source;
mod squid;
mod template;
mod understand;
mod variables;
pub(crate) mod w3c;

pub use alias::{FieldMap, FieldMapError};
pub use format::{Format, FormatError};
pub use reason::Reason;
pub use template::TemplateError;
pub use understand::{NotUnderstood, Understood, understand};

use std::sync::Arc;

use entry::{Entry, interpret};
use row::Row;

/// A format, made ready to read lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reader {
    Csv(csv::Csv),
    Template(template::Template),
    W3c(Arc<w3c::W3c>),
    Squid,
    Json(json::Json),
}

impl Reader {
    /// The pieces of a line.
    fn pieces<'a>(&self, line: &'a [u8], row: &mut Row<'a>) -> Result<(), Reason> {
        match self {
            Self::Csv(csv) => csv.read(line, row),
            Self::Template(template) => template.read(line, row),
            Self::W3c(w3c) => w3c.read(line, row),
            Self::Squid => squid::read(line, row),
            Self::Json(json) => json.read(line, row),
        }
    }

    /// What a line says.
    pub(crate) fn read<'a>(&self, line: &'a [u8], row: &mut Row<'a>) -> Result<Entry<'a>, Reason> {
        row.clear();
        self.pieces(line, row)?;
        interpret(row)
    }
}

/// A line as it stands in a block: without its end.
pub(crate) fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
