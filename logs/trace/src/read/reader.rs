//! A reader of lines in one format.

use std::sync::Arc;

use super::entry::{LogEntry, interpret};
use super::reason::DropReason;
use super::row::{Field, LineFields};
use super::viewer::{TrustedProxies, ViewerRules};
use super::{columns, json, template};

/// A reader of lines in one format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineReader {
    form: Arc<LineFormat>,
    pub(crate) viewers: ViewerRules,
}

/// The three kinds of formats.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineFormat {
    Columns(columns::DelimitedReader),
    Template(template::Template),
    Json(json::JsonReader),
}

impl LineReader {
    /// A reader of this form, with the session field given by the user.
    pub(crate) fn new(form: LineFormat, session_field: Option<&str>) -> Self {
        Self {
            form: Arc::new(form),
            viewers: ViewerRules::new(session_field),
        }
    }

    /// The same, with lists of addresses believed from these proxies.
    pub(crate) fn trusting(self, proxies: &Arc<TrustedProxies>) -> Self {
        Self {
            viewers: self.viewers.trusting(proxies),
            ..self
        }
    }

    /// Parses a line.
    pub(crate) fn read<'a>(
        &self,
        line: &'a [u8],
        row: &mut LineFields<'a>,
    ) -> Result<LogEntry<'a>, DropReason> {
        row.clear();
        match &*self.form {
            LineFormat::Columns(columns) => columns.read(line, row),
            LineFormat::Template(template) => template.read(line, row),
            LineFormat::Json(json) => json.read(line, row),
        }?;
        interpret(row, &self.viewers)
    }

    /// A reader for the lines after this one, if it changes the columns.
    pub(crate) fn again(&self, line: &[u8]) -> Option<Self> {
        match &*self.form {
            LineFormat::Columns(columns) if line.starts_with(columns::FIELDS) => Some(Self {
                form: Arc::new(LineFormat::Columns(columns.again(line)?)),
                viewers: self.viewers.clone(),
            }),
            _ => None,
        }
    }

    /// A reader for the lines after a block, if one of its lines changes the columns.
    pub(crate) fn behind(&self, block: &[u8]) -> Option<Self> {
        let mut end = block.len();
        let LineFormat::Columns(columns) = &*self.form else {
            return None;
        };
        while columns.is_w3c() {
            let at = memchr::memmem::rfind(&block[..end], columns::FIELDS)?;
            if at == 0 || block[at - 1] == b'\n' {
                let line = block[at..].split(|byte| *byte == b'\n').next()?;
                if let Some(after) = self.again(trimmed(line)) {
                    return Some(after);
                }
            }
            end = at;
        }
        None
    }

    /// Whether a header defines all columns, so that nothing is guessed.
    pub(crate) fn has_header(&self) -> bool {
        matches!(&*self.form, LineFormat::Columns(columns) if !columns.is_known)
    }

    /// Values behind a known pattern that have no name and are not used, in one line.
    pub(crate) fn nameless<'a>(&self, line: &'a [u8]) -> Vec<&'a [u8]> {
        match &*self.form {
            LineFormat::Template(template) => template.nameless(line),
            _ => Vec::new(),
        }
    }

    /// Names and fields in a log with these first lines; a name may occur several times.
    pub(crate) fn names<'a>(
        &self,
        lines: impl Iterator<Item = &'a [u8]>,
    ) -> Vec<(String, Option<Field>)> {
        match &*self.form {
            LineFormat::Columns(columns) => columns.columns.clone(),
            LineFormat::Template(template) => {
                let pieces = template.pieces.iter().filter(|piece| piece.name != "$x");
                pieces
                    .map(|piece| (piece.name.clone(), piece.field))
                    .collect()
            }
            LineFormat::Json(json) => {
                let keys = lines.flat_map(json::keys);
                keys.map(|key| (key.clone(), json.field(&key))).collect()
            }
        }
    }
}

/// A line of a block without its line end.
pub(crate) fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
