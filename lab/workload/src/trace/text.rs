//! The text of a trace, whatever its form.

use alloc::string::String;

use super::{Trace, TraceErrors, json_lines, wsesslog_read};

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

    /// The trace as JSON lines; it parses to the same trace.
    pub fn to_text(&self) -> String {
        json_lines::write(self)
    }
}
