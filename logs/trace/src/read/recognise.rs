//! Which format a log is in, by its first lines.
//!
//! The one idea: every format that could be is tried on the head of the log, and the one that
//! understands most lines is it. If none understands any, the answer says what was tried and which
//! line it failed on first.

use std::fmt;
use std::sync::Arc;

use super::alias::FieldMap;
use super::csv::Csv;
use super::format::{Format, FormatError};
use super::reason::Reason;
use super::row::Row;
use super::w3c::W3c;
use super::{Reader, trimmed};
use crate::dropped::shown;

/// Lines that are tried.
const LINES_MAX: usize = 50;

/// A format that was tried and understood nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Its name.
    pub format: String,
    /// The first line it failed on, from 1, with what was wrong; `None` if it needs a header that
    /// is not there.
    pub failed: Option<(u64, Reason)>,
    /// The beginning of that line.
    pub text: String,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failed {
            Some((line, reason)) => {
                write!(f, "{}: line {line} is {reason}: {}", self.format, self.text)
            }
            None => write!(f, "{}: its header is not there: {}", self.format, self.text),
        }
    }
}

/// A format that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) reader: Reader,
}

/// Why no format was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotFound {
    /// There is nothing in the head.
    Empty,
    /// These were tried.
    Tried(Vec<Tried>),
    /// The format that was given has a mistake.
    Format(FormatError),
}

/// The format of a log that begins with `head`: the one given, or any.
pub(crate) fn recognise(
    head: &[u8],
    given: Option<&Format>,
    session_field: Option<&str>,
) -> Result<Found, NotFound> {
    let lines = first_lines(head);
    if lines.is_empty() {
        return Err(NotFound::Empty);
    }
    let formats: Vec<Format> = match given {
        Some(format) => vec![format.clone()],
        None => vec![
            Format::Headlong,
            Format::Combined,
            Format::Csv(FieldMap::default()),
            Format::W3c,
            Format::Squid,
            Format::Json(FieldMap::default()),
        ],
    };
    let mut best: Option<(usize, Found)> = None;
    let mut tried = Vec::new();
    for format in formats {
        match reader(&format, &lines, session_field).map_err(NotFound::Format)? {
            Some(reader) => {
                let (understood, failed) = try_lines(&reader, &lines);
                let is_best = best.as_ref().is_none_or(|(most, _)| understood > *most);
                if understood > 0 && is_best {
                    let name = format.to_string();
                    best = Some((understood, Found { name, reader }));
                }
                tried.push(Tried {
                    format: format.to_string(),
                    failed: failed.map(|(line, reason, _)| (line, reason)),
                    text: failed.map_or_else(String::new, |(_, _, text)| shown(text)),
                });
            }
            None => tried.push(Tried {
                format: format.to_string(),
                failed: None,
                text: shown(lines[0].1),
            }),
        }
    }
    best.map(|(_, found)| found).ok_or(NotFound::Tried(tried))
}

/// A reader for these lines, if the header that the format needs is there.
fn reader(
    format: &Format,
    lines: &[(u64, &[u8])],
    session_field: Option<&str>,
) -> Result<Option<Reader>, FormatError> {
    Ok(match format {
        Format::Csv(map) => Csv::from_header(lines[0].1, map).map(Reader::Csv),
        Format::W3c => {
            let mut readers = lines
                .iter()
                .filter_map(|(_, line)| W3c::from_fields(line, session_field));
            readers.next().map(|reader| Reader::W3c(Arc::new(reader)))
        }
        other => other.reader(session_field)?,
    })
}

/// A line that was not understood: its number, why, and its text.
type Failed<'a> = (u64, Reason, &'a [u8]);

/// How well lines are understood, and the first that was not.
fn try_lines<'a>(reader: &Reader, lines: &[(u64, &'a [u8])]) -> (usize, Option<Failed<'a>>) {
    let mut row = Row::new();
    let (mut understood, mut failed) = (0, None);
    for (number, line) in lines {
        match reader.read(line, &mut row) {
            Ok(_) => understood += 2,
            // A header alone says which columns there will be.
            Err(Reason::NotARequest) if matches!(reader, Reader::Csv(_) | Reader::W3c(_)) => {
                understood += 1;
            }
            Err(reason) if reason.is_understood() && reason != Reason::NotARequest => {
                understood += 2;
            }
            Err(reason) => {
                failed = failed.or(Some((*number, reason, *line)));
            }
        }
    }
    (understood, failed)
}

/// The first lines that are not empty, with their numbers; not the last one if it may be cut off.
fn first_lines(head: &[u8]) -> Vec<(u64, &[u8])> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let is_cut = head.len() >= super::source::HEAD_BYTES;
    let mut lines: Vec<(u64, &[u8])> = head
        .split(|byte| *byte == b'\n')
        .enumerate()
        .map(|(index, line)| (index as u64 + 1, trimmed(line)))
        .collect();
    if is_cut && lines.len() > 1 {
        lines.pop();
    }
    lines.retain(|(_, line)| {
        line.iter()
            .any(|byte| *byte != 0 && !byte.is_ascii_whitespace())
    });
    lines.truncate(LINES_MAX);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(head: &str) -> Result<String, NotFound> {
        recognise(head.as_bytes(), None, None).map(|found| found.name)
    }

    #[test]
    fn formats_are_recognised_by_their_first_lines() {
        let combined =
            "1.2.3.4 - - [17/May/2015:08:05:32 +0000] \"GET /a HTTP/1.1\" 200 490 \"-\" \"x\"\n";
        assert_eq!(name(combined).as_deref(), Ok("combined"));
        assert_eq!(
            name(&format!("\u{feff}\r\n\n{combined}")).as_deref(),
            Ok("combined")
        );
        let csv = "ts,service_ms,session,device,file,offset,size,bytes,disk\n";
        assert_eq!(name(csv).as_deref(), Ok("csv"));
        assert_eq!(
            name(&format!("{csv}1,2,3,4,5,6,7,8,9\n")).as_deref(),
            Ok("csv")
        );
        let w3c =
            "#Version: 1.0\n#Fields: date time c-ip cs-method cs-uri-stem sc-status sc-bytes\n";
        assert_eq!(name(w3c).as_deref(), Ok("w3c"));
        let squid = "1286536308.779 180 192.0.2.1 TCP_MISS/200 411 GET http://a/b - DIRECT/- -\n";
        assert_eq!(name(squid).as_deref(), Ok("squid"));
        let ours = concat!(
            r#"{"start_unix_ms":1,"service_seconds":1.2,"target":"/a","status":200,"#,
            r#""bytes_sent":1,"session":"s"}"#
        );
        assert_eq!(name(ours).as_deref(), Ok("headlong"));
        let json = r#"{"time":"2024-05-01T10:00:00Z","url":"/a","status":200,"bytes":1,"sid":"s"}"#;
        assert_eq!(name(json).as_deref(), Ok("json"));
    }

    #[test]
    fn a_bad_line_among_good_ones_does_not_matter() {
        let head = "rubbish\n1.2.3.4 - - [17/May/2015:08:05:32 +0000] \"GET /a HTTP/1.1\" 200 490 \
                    \"-\" \"x\"\nmore rubbish\n";
        assert_eq!(name(head).as_deref(), Ok("combined"));
    }

    #[test]
    fn an_unknown_format_is_told_with_all_that_was_tried() {
        let Err(NotFound::Tried(tried)) = recognise(b"\nhello world\n", None, None) else {
            panic!("it is no log");
        };
        let told: Vec<String> = tried.iter().map(Tried::to_string).collect();
        assert_eq!(
            told,
            [
                "headlong: line 2 is not the shape of a recognised format: hello world",
                "combined: line 2 is not the shape of a recognised format: hello world",
                "csv: its header is not there: hello world",
                "w3c: its header is not there: hello world",
                "squid: line 2 is not the shape of a recognised format: hello world",
                "json: line 2 is not the shape of a recognised format: hello world",
            ]
        );
        assert_eq!(name(""), Err(NotFound::Empty));
        assert_eq!(name("\r\n \n"), Err(NotFound::Empty));
    }
}
