//! The two forms of a line of the access log.

use super::record::RequestRecord;
use super::{combined, json};

/// How a line of the access log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object for each request.
    Json,
    /// nginx's `combined`, then `key=value` fields.
    Combined,
}

impl LogFormat {
    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "combined" => Some(Self::Combined),
            _ => None,
        }
    }

    /// Appends the record as one line, with its end.
    pub fn write(self, record: &RequestRecord, line: &mut Vec<u8>) {
        match self {
            Self::Json => json::write(record, line),
            Self::Combined => combined::write(record, line),
        }
    }
}
