//! Formats of the access log.

use super::record::RequestRecord;
use super::{combined, json};

headlong_units::names! {
    /// Format of a line of the access log.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum LogFormat {
        /// One JSON object for each request.
        Json => "json",
        /// nginx's `combined`, then `key=value` fields.
        Combined => "combined",
    }
}

impl LogFormat {
    /// Appends a record as one line, with its line end.
    pub fn write(self, record: &RequestRecord, line: &mut Vec<u8>) {
        match self {
            Self::Json => json::write(record, line),
            Self::Combined => combined::write(record, line),
        }
    }
}
