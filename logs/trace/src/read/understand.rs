//! What is understood of a text, without taking it in.

use super::Reason;
use super::format::{Format, FormatError};
use super::reader::trimmed;
use super::recognise::{NotFound, Tried, recognise};
use super::row::Row;
use crate::dropped::Dropped;

/// What is understood of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Understood {
    /// The format it is in.
    pub format: String,
    /// Lines that are requests.
    pub requests: u64,
    /// Bytes they sent.
    pub bytes: u64,
    /// Lines that are not.
    pub dropped: Dropped,
}

/// Why nothing is understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotUnderstood {
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// It is no text.
    #[error("it is no text")]
    Binary,
    /// It is in no known format.
    #[error("it is in no known format")]
    Unknown(Vec<Tried>),
    /// The format has a mistake.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// Reads a text as a log in the format given, or in whichever it is recognised to be, and says what
/// it gave: to try a format on a few lines before a long run.
pub fn understand(text: &[u8], format: Option<&Format>) -> Result<Understood, NotUnderstood> {
    let found = recognise(text, format, None).map_err(|error| match error {
        NotFound::Empty => NotUnderstood::Empty,
        NotFound::Binary => NotUnderstood::Binary,
        NotFound::Tried(tried) => NotUnderstood::Unknown(tried),
        NotFound::Format(error) => NotUnderstood::Format(error),
        // None was asked for.
        NotFound::NoSession(_) => NotUnderstood::Unknown(Vec::new()),
    })?;
    let mut understood = Understood {
        format: found.name,
        requests: 0,
        bytes: 0,
        dropped: Dropped::default(),
    };
    let mut row = Row::new();
    let mut reader = found.reader;
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
                let reason = outcome.err().unwrap_or(Reason::UnknownOffset);
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
    fn a_format_can_be_tried_on_a_few_lines() {
        let text = b"ts,session,file,offset,bytes\n1,1,1,0,5\n2,1,1,5,x\n";
        let understood = understand(text, None).expect("columns");
        assert_eq!((understood.requests, understood.bytes), (1, 5));
        assert_eq!(understood.dropped.count_of(Reason::BadNumber), 1);
        assert_eq!(understand(b"\n", None), Err(NotUnderstood::Empty));
    }
}
