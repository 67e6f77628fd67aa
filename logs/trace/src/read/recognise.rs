//! Recognises the format of a log by its first lines.
//!
//! Every candidate format is tried on the head of the log; the one that explains the largest share
//! of the lines is chosen, if it explains at least half of them with plausible values: times in
//! order, HTTP methods and statuses. Otherwise the error lists the formats tried, each with the
//! first line that failed.

use super::alias;
use super::columns::DelimitedReader;
use super::format::{Format, FormatError};
use super::reader::{LineFormat, LineReader, trimmed};
use super::reason::DropReason;
use super::row::{Field, LineFields};
use super::viewer::session_key;
use super::wrapper::Wrapper;
use crate::drop_counts::shown;

/// A larger backward step between lines means that the field is not a clock, ms.
const CLOCK_BACK_MS: i64 = 86_400_000;

/// An earlier format wins unless a later one explains this much more. Formats are tried from the
/// most to the least informative, and `common` explains the lines of `combined` that were truncated
/// after their size: one such line is no reason to read the log without its agents.
const EXPLAINED_LESS_MAX: f64 = 0.1;

/// Most names listed in an error.
const NAMES_MAX: usize = 40;

/// A format that was tried and explains too little.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedFormat {
    /// Its name.
    pub format: String,
    /// Lines explained, of those tried.
    pub explained: (usize, usize),
    /// The first line that failed, from 1, with the reason; `None` if the header it needs is
    /// missing.
    pub failed: Option<(u64, DropReason)>,
    /// The start of that line.
    pub text: String,
}

impl TriedFormat {
    /// The outcome as text.
    fn outcome(&self) -> String {
        let text = &self.text;
        match (self.explained, &self.failed) {
            ((0, _), Some((line, reason))) => format!("line {line}: {reason}: {text}"),
            ((explained, of), Some((line, reason))) => {
                format!("explains {explained} of {of} lines; line {line}: {reason}: {text}")
            }
            (_, None) => format!("no header: {text}"),
        }
    }
}

/// The formats tried, one line per outcome.
pub(crate) fn outcomes(tried: &[TriedFormat]) -> String {
    let mut told: Vec<(String, Vec<&str>)> = Vec::new();
    for one in tried {
        let outcome = one.outcome();
        match told.iter_mut().find(|(known, _)| *known == outcome) {
            Some((_, formats)) => formats.push(&one.format),
            None => told.push((outcome, vec![&one.format])),
        }
    }
    let lines = told.iter();
    let lines = lines.map(|(outcome, formats)| format!("  {}: {outcome}", formats.join(", ")));
    lines.collect::<Vec<_>>().join("\n")
}

/// The recognised format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecognisedFormat {
    pub(crate) name: String,
    pub(crate) reader: LineReader,
    /// The envelope of each line.
    pub(crate) wrapper: Option<Wrapper>,
    /// Names in the log that are not used.
    pub(crate) unused: Vec<String>,
}

/// Why no format was recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecognitionError {
    /// The head is empty.
    Empty,
    /// It is not text.
    Binary,
    /// None of these formats matched.
    Tried(Vec<TriedFormat>),
    /// The given format is invalid.
    Format(FormatError),
    /// The session field given by the user does not exist; these names do.
    NoSession(Vec<String>),
}

/// Recognises the format of a log that starts with `head`: the given one, or any; within a wrapper
/// if it is none without.
pub(crate) fn recognise(
    head: &[u8],
    given: Option<&Format>,
    session_field: Option<&str>,
) -> Result<RecognisedFormat, RecognitionError> {
    let plain = recognise_unwrapped(head, given, session_field);
    if !matches!(plain, Err(RecognitionError::Tried(_))) {
        return plain;
    }
    let lines = first_lines(head).len();
    for wrapper in Wrapper::ALL {
        let (inner, count) = wrapper.unwrapped(head);
        if count * 2 < lines {
            continue;
        }
        if let Ok(found) = recognise_unwrapped(&inner, given, session_field) {
            return Ok(RecognisedFormat {
                name: format!("{} within {}", found.name, wrapper.name()),
                wrapper: Some(wrapper),
                ..found
            });
        }
    }
    plain
}

fn recognise_unwrapped(
    head: &[u8],
    given: Option<&Format>,
    session_field: Option<&str>,
) -> Result<RecognisedFormat, RecognitionError> {
    let lines = first_lines(head);
    if lines.is_empty() {
        return Err(RecognitionError::Empty);
    }
    let formats = given.map_or_else(Format::all, |format| vec![format.clone()]);
    let mut best: Option<(f64, RecognisedFormat)> = None;
    let mut tried = Vec::new();
    for format in formats {
        let reader = reader(&format, &lines, session_field).map_err(RecognitionError::Format)?;
        let name = format.to_string();
        let Some(reader) = reader else {
            tried.push(TriedFormat {
                format: name,
                explained: (0, lines.len()),
                failed: None,
                text: shown(lines[0].1),
            });
            continue;
        };
        let (explained, of, failed) = try_lines(&reader, &lines);
        let share = explained as f64 / of.max(1) as f64;
        // A header defines the columns, even before any line.
        let is_enough = match explained {
            0 => {
                let has_shape = |(_, reason, _): UnparsedLine<'_>| reason != DropReason::Shape;
                reader.has_header() && (of == 0 || failed.is_some_and(has_shape))
            }
            _ => share >= 0.5 || given.is_some() || reader.has_header(),
        };
        let is_better = |most: f64| share > most + EXPLAINED_LESS_MAX;
        if is_enough && best.as_ref().is_none_or(|(most, _)| is_better(*most)) {
            let found = RecognisedFormat {
                name: name.clone(),
                reader,
                wrapper: None,
                unused: Vec::new(),
            };
            best = Some((share, found));
        }
        tried.push(TriedFormat {
            format: name,
            explained: (explained, of),
            failed: failed.map(|(line, reason, _)| (line, reason)),
            text: failed.map_or_else(String::new, |(_, _, text)| shown(text)),
        });
    }
    let Some((_, mut found)) = best else {
        return Err(match is_binary(head) {
            true => RecognitionError::Binary,
            false => RecognitionError::Tried(tried),
        });
    };
    if found.name == "squid" && given.is_none() && are_of_traffic_server(&lines) {
        let format = Format::Known("ats");
        if let Some(reader) =
            reader(&format, &lines, session_field).map_err(RecognitionError::Format)?
        {
            (found.name, found.reader) = (format.to_string(), reader);
        }
    }
    let names = found.reader.names(lines.iter().map(|(_, line)| *line));
    if let Some(wanted) = session_field
        && !is_there(wanted, &names, &found.reader, &lines)
    {
        return Err(RecognitionError::NoSession(what_there_is(
            &names,
            &found.reader,
            &lines,
        )));
    }
    found.unused = unused(names);
    found.unused.extend(nameless(&found.reader, &lines));
    Ok(found)
}

/// Whether lines in Squid's format are from Traffic Server. Squid pads the service time to six
/// characters and, since 3.2, writes `HIER_` before the next server; Traffic Server does neither.
fn are_of_traffic_server(lines: &[(u64, &[u8])]) -> bool {
    let is_padded = |line: &[u8]| memchr::memmem::find(line, b"  ").is_some();
    let has_prefix = |line: &[u8]| memchr::memmem::find(line, b" HIER_").is_some();
    let mut lines = lines.iter();
    lines.all(|(_, line)| !is_padded(line) && !has_prefix(line))
}

/// Bytes checked to decide whether a file is text.
const LOOKED_AT_BYTES: usize = 4096;

/// Whether more than a tenth of the start of a file is neither text nor NUL bytes, which a file
/// truncated during writing has. Text in other encodings than UTF-8 has fewer invalid bytes.
fn is_binary(head: &[u8]) -> bool {
    let head = &head[..head.len().min(LOOKED_AT_BYTES)];
    let is_text = |c: &char| !c.is_control() || c.is_ascii_whitespace();
    let text: usize = head
        .utf8_chunks()
        .flat_map(|chunk| chunk.valid().chars())
        .filter(is_text)
        .map(char::len_utf8)
        .sum();
    let zeros = memchr::memchr_iter(0, head).count();
    let odd = head.len() - zeros - text;
    odd * 10 > head.len() - zeros
}

/// A reader for these lines, if the header that the format needs exists.
fn reader(
    format: &Format,
    lines: &[(u64, &[u8])],
    session_field: Option<&str>,
) -> Result<Option<LineReader>, FormatError> {
    let columns = match format {
        Format::Csv(map) => DelimitedReader::from_header(lines[0].1, map, session_field),
        Format::W3c => {
            let mut lines = lines.iter();
            lines.find_map(|(_, line)| DelimitedReader::from_fields(line, session_field))
        }
        other => return other.reader(session_field),
    };
    Ok(columns.map(|columns| LineReader::new(LineFormat::Columns(columns), session_field)))
}

/// A line that was not parsed: its number, the reason, and its text.
type UnparsedLine<'a> = (u64, DropReason, &'a [u8]);

/// The number of lines explained, the number expected, and the first failure.
fn try_lines<'a>(
    reader: &LineReader,
    lines: &[(u64, &'a [u8])],
) -> (usize, usize, Option<UnparsedLine<'a>>) {
    let mut row = LineFields::new();
    let (mut explained, mut of, mut failed) = (0, lines.len(), None);
    let mut before_ms = i64::MIN;
    for (number, line) in lines {
        let reason = match reader.read(line, &mut row) {
            Ok(entry) => {
                let is_back = entry.completed_ms < before_ms.saturating_sub(CLOCK_BACK_MS);
                before_ms = entry.completed_ms;
                if !is_back || reader.has_header() {
                    explained += 1;
                    continue;
                }
                DropReason::BadTime
            }
            Err(DropReason::NotARequest) => {
                // A summary is explained; a comment or a header is neither explained nor expected.
                of -= usize::from(reader.has_header());
                explained += usize::from(!reader.has_header());
                continue;
            }
            Err(reason) if reason.is_understood() => {
                explained += 1;
                continue;
            }
            Err(reason) => reason,
        };
        failed = failed.or(Some((*number, reason, *line)));
    }
    (explained, of, failed)
}

/// The values without a name behind the pattern of the first line that has some, as a remark.
fn nameless(reader: &LineReader, lines: &[(u64, &[u8])]) -> Option<String> {
    let mut lines = lines.iter().map(|(_, line)| reader.nameless(line));
    let values = lines.find(|values| !values.is_empty())?;
    let shown: Vec<String> = values.into_iter().map(shown).collect();
    let shown = shown.join(" ");
    Some(format!(
        "values without a name behind it ({shown}), which --log-format can name"
    ))
}

/// Whether a field in these lines has this name, and identifies sessions.
fn is_there(
    wanted: &str,
    names: &[(String, Option<Field>)],
    reader: &LineReader,
    lines: &[(u64, &[u8])],
) -> bool {
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let is_called = |name: &str| plain(name).contains(&plain(wanted));
    let mut fields = names.iter();
    let is_named = fields.any(|(name, field)| *field == Some(Field::Session) && is_called(name));
    let key = session_key(wanted);
    let is_anywhere =
        |line: &[u8]| reader.viewers.is_forwarded() || memchr::memmem::find(line, &key).is_some();
    let mut row = LineFields::new();
    let mut lines = lines.iter();
    // A key after the pattern, in the query or in a cookie has no field name.
    is_named
        || lines.any(|(_, line)| {
            let is_named = reader
                .read(line, &mut row)
                .is_ok_and(|entry| entry.is_named());
            is_named && is_anywhere(line)
        })
}

/// Field names, query keys, and keys after a pattern.
fn what_there_is(
    names: &[(String, Option<Field>)],
    reader: &LineReader,
    lines: &[(u64, &[u8])],
) -> Vec<String> {
    let mut all: Vec<String> = names.iter().map(|(name, _)| name.clone()).collect();
    let mut row = LineFields::new();
    for (_, line) in lines {
        // Fields are set even if the line is rejected.
        let _ = reader.read(line, &mut row);
        let text = String::from_utf8_lossy(line);
        let query = String::from_utf8_lossy(row.get(Field::Query));
        let query = match text.split_once('?') {
            Some((_, query)) => query
                .split([' ', '"', '#', '\t'])
                .next()
                .unwrap_or_default(),
            None => &query,
        };
        all.extend(keys(query, '&').map(|key| format!("{key} (query)")));
        let behind = text.rsplit_once("\" ").map_or("", |(_, behind)| behind);
        all.extend(keys(behind, ' ').map(str::to_owned));
    }
    all.retain(|name| !name.is_empty());
    all.sort_unstable();
    all.dedup();
    all.truncate(NAMES_MAX);
    all
}

/// The keys of `key=value` pairs.
fn keys(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let pairs = text.split(separator);
    pairs
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, _)| key)
}

/// Unused names, with a similar known name if the name may be misspelled.
fn unused(names: Vec<(String, Option<Field>)>) -> Vec<String> {
    let names = names.into_iter().filter(|(_, field)| field.is_none());
    let mut names: Vec<String> = names
        .map(
            |(name, _)| match alias::near(alias::all_usual(), name.trim_start_matches('$'), 0.9) {
                Some(near) => format!("{name} ({near}?)"),
                None => name,
            },
        )
        .filter(|name| !name.is_empty())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The first lines that are not empty, with their numbers; without the last one, which may be
/// truncated, unless it is the only one.
fn first_lines(head: &[u8]) -> Vec<(u64, &[u8])> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let mut lines: Vec<(u64, &[u8])> = head
        .split(|byte| *byte == b'\n')
        .enumerate()
        .map(|(index, line)| (index as u64 + 1, trimmed(line)))
        .collect();
    let says_something = |(_, line): &(u64, &[u8])| {
        line.iter()
            .any(|byte| *byte != 0 && !byte.is_ascii_whitespace())
    };
    // After the last line end there is nothing, or an unterminated line.
    let last = lines.pop().filter(says_something);
    lines.retain(says_something);
    if lines.is_empty() {
        lines.extend(last);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(head: &str) -> Result<String, RecognitionError> {
        recognise(head.as_bytes(), None, None).map(|found| found.name)
    }

    #[test]
    fn single_unterminated_line_is_a_log() {
        let line =
            "1.2.3.4 - - [17/May/2015:08:05:32 +0000] \"GET /a HTTP/1.1\" 200 490 \"-\" \"x\"";
        assert_eq!(name(&format!("\n{line}")).as_deref(), Ok("combined"));
        assert_eq!(name("\n \n"), Err(RecognitionError::Empty));
    }

    #[test]
    fn formats_are_recognised_by_first_lines() {
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
        let ours = concat!(
            r#"{"start_unix_ms":1,"service_seconds":1.2,"target":"/a","status":200,"#,
            r#""bytes_sent":1,"session":"s"}"#
        );
        assert_eq!(name(ours).as_deref(), Ok("headlong"));
    }

    #[test]
    fn squid_is_told_from_traffic_server_by_padding_or_prefix() {
        let ats = "1286536308.779 180 192.0.2.1 TCP_MISS/200 411 GET http://a/b - DIRECT/- -\n";
        assert_eq!(name(ats).as_deref(), Ok("ats"));
        for squid in [
            ats.replace(" 180 ", "    180 "),
            ats.replace("DIRECT", "HIER_DIRECT"),
        ] {
            assert_eq!(name(&squid).as_deref(), Ok("squid"), "{squid}");
        }
    }

    #[test]
    fn truncated_lines_do_not_change_the_format() {
        let line =
            "1.2.3.4 - - [17/May/2015:08:05:32 +0000] \"GET /a HTTP/1.1\" 200 490 \"-\" \"x\"\n";
        let size_ends = line.find(" \"-\"").expect("the size");
        let cut = &line[..size_ends];
        for head in [
            format!("{line}{cut}"),
            format!("{}{cut}\n{line}", line.repeat(9)),
        ] {
            assert_eq!(name(&head).as_deref(), Ok("combined"), "{head}");
        }
        assert_eq!(name(cut).as_deref(), Ok("common"), "only line");
    }

    #[test]
    fn binary_is_detected_and_other_encodings_are_text() {
        let random: Vec<u8> = (0..9999_u32).map(|n| ((n * 40_503) >> 7) as u8).collect();
        for binary in [random.as_slice(), b"\x7fELF\x02\x01\x01\0\0\0\x03\0\x3e"] {
            assert_eq!(recognise(binary, None, None), Err(RecognitionError::Binary));
        }
        let line =
            b"\0\0\0\x001.2.3.4 - - [17/May/2015:08:05:32 +0000] \"GET /caf\xe9 HTTP/1.1\" 200 490\n";
        let found = recognise(line, None, None).expect("a log");
        assert_eq!(found.name, "common");
    }

    #[test]
    fn bad_line_does_not_prevent_recognition() {
        let head = "1.2.3.4 - - [17/May/2015:08:05:32 +0000] \"GET /a HTTP/1.1\" 200 490 \
                    \"-\" \"x\"\nmore rubbish\n";
        assert_eq!(name(head).as_deref(), Ok("combined"));
    }

    #[test]
    fn unknown_format_lists_all_formats_tried() {
        let Err(RecognitionError::Tried(tried)) = recognise(b"\nhello world\n", None, None) else {
            panic!("not a log");
        };
        assert_eq!(
            outcomes(&tried),
            "  headlong, caddy, envoy-json, vhost_combined, combined, common, squid, haproxy, envoy, \
             s3, alb, elb, bunny, cloudfront-realtime, json: line 2: does not match a recognised \
             format: hello world\n  csv, w3c: no header: hello world"
        );
        assert_eq!(name(""), Err(RecognitionError::Empty));
        assert_eq!(name("\r\n \n"), Err(RecognitionError::Empty));
    }
}
