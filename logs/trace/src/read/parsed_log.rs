//! Parses a text as a log without intake.

use super::DropReason;
use super::format::{Format, FormatError};
use super::reader::trimmed;
use super::recognise::{RecognitionError, TriedFormat, recognise};
use super::row::LineFields;
use crate::drop_counts::DropCounts;

/// Result of parsing a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedLog {
    /// Its format.
    pub format: String,
    /// Number of requests.
    pub requests: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Lines that are not requests.
    pub dropped: DropCounts,
}

/// Why a text could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParsedLogError {
    /// The text is empty.
    #[error("it is empty")]
    Empty,
    /// It is not text.
    #[error("it is not text")]
    Binary,
    /// Its format is unknown.
    #[error("it is in no known format")]
    Unknown(Vec<TriedFormat>),
    /// The given format is invalid.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// Parses a text in the given format, or in the recognised one, and returns the result: for trying
/// a format on a few lines before a long run.
pub fn understand(text: &[u8], format: Option<&Format>) -> Result<ParsedLog, ParsedLogError> {
    let found = recognise(text, format, None).map_err(|error| match error {
        RecognitionError::Empty => ParsedLogError::Empty,
        RecognitionError::Binary => ParsedLogError::Binary,
        RecognitionError::Tried(tried) => ParsedLogError::Unknown(tried),
        RecognitionError::Format(error) => ParsedLogError::Format(error),
        // No session field was given.
        RecognitionError::NoSession(_) => ParsedLogError::Unknown(Vec::new()),
    })?;
    let mut understood = ParsedLog {
        format: found.name,
        requests: 0,
        bytes: 0,
        dropped: DropCounts::default(),
    };
    let mut row = LineFields::new();
    let mut reader = found.reader;
    let inner = found.wrapper.map(|wrapper| wrapper.unwrapped(text).0);
    let text = inner.as_deref().unwrap_or(text);
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = trimmed(line);
        if line.is_empty() {
            continue;
        }
        if let Some(again) = reader.again(line) {
            reader = again;
        }
        match reader.read(line, &mut row) {
            Ok(entry) if entry.offset.is_some() => {
                understood.requests += 1;
                understood.bytes += entry.sent_bytes;
            }
            outcome => {
                let reason = outcome.err().unwrap_or(DropReason::UnknownOffset);
                let number = index as u64 + 1;
                understood.dropped.add(reason, "", number, number, line);
            }
        }
    }
    Ok(understood)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_tried_on_a_few_lines() {
        let text = b"ts,session,file,offset,bytes\n1,1,1,0,5\n2,1,1,5,x\n";
        let understood = understand(text, None).expect("columns");
        assert_eq!((understood.requests, understood.bytes), (1, 5));
        assert_eq!(understood.dropped.count_of(DropReason::BadNumber), 1);
        assert_eq!(understand(b"\n", None), Err(ParsedLogError::Empty));
    }
}
