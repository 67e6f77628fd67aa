//! The text of a trace, whatever its form.

use alloc::string::String;

use super::{Dialect, DialectLimit, Trace, TraceErrors, json_lines, wsesslog_read, wsesslog_write};

impl Trace {
    /// Parses a trace: JSON lines, or a wsesslog of any dialect. Foreign traces have no arrivals
    /// ([`TraceMetadata::has_arrivals`]) and one network without limits.
    ///
    /// # Errors
    /// The mistakes, with line, column and reason; the first twenty, and how many more.
    pub fn read(text: &[u8]) -> Result<Self, TraceErrors> {
        match text.trim_ascii_start().starts_with(b"{") {
            true => json_lines::read(text),
            false => wsesslog_read::read(text),
        }
    }

    /// The trace as text. In [`Dialect::Headlong`] it parses to the same trace.
    ///
    /// # Errors
    /// If the dialect cannot express it.
    pub fn to_text(&self, dialect: Dialect) -> Result<String, DialectLimit> {
        match dialect {
            Dialect::Headlong => Ok(json_lines::write(self)),
            dialect => wsesslog_write::write(self, dialect),
        }
    }
}
