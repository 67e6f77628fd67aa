//! The two forms of a line of the access log.

use super::record::RequestRecord;
use super::{combined, json};

headlong_units::names! {
    /// How a line of the access log is written.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum LogFormat {
        /// One JSON object for each request.
        Json => "json",
        /// nginx's `combined`, then `key=value` fields.
        Combined => "combined",
    }
}

impl LogFormat {
    /// Appends the record as one line, with its end.
    pub fn write(self, record: &RequestRecord, line: &mut Vec<u8>) {
        match self {
            Self::Json => json::write(record, line),
            Self::Combined => combined::write(record, line),
        }
    }
}
