//! Parses a wsesslog of any dialect; the dialect need not be named, because no word is ambiguous.
//!
//! Accepted and ignored, because they do not affect a viewer's requests: `cookie=`, `http=1.0` and
//! `1.1`, header fields other than `Range`, `session` lines with their own server, and comments.
//!
//! Invariants: no input makes this panic; mistakes are reported together with line and column, and
//! then no trace is returned; memory is bounded by the size of the text.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use headlong_player::{ObjectId, Script, ScriptCall, SessionPlan};
use headlong_units::{ByteRange, Duration, nearest};

use super::{NetworkClass, Session, Trace, TraceErrors};

/// Words allowed after a call's path.
const WORDS: [&str; 11] = [
    "range",
    "timeout",
    "pacing",
    "think",
    "size",
    "pace_time",
    "headers",
    "method",
    "contents",
    "cookie",
    "http",
];

/// Parses a wsesslog. It has no arrivals, and one network without limits.
pub(super) fn read(text: &[u8]) -> Result<Trace, TraceErrors> {
    let mut reader = LogReader::default();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        reader.line = index + 1;
        reader.read_line(line.strip_suffix(b"\r").unwrap_or(line));
    }
    reader.finish()
}

#[derive(Default)]
struct LogReader {
    line: usize,
    errors: TraceErrors,
    paths: Vec<String>,
    by_path: BTreeMap<String, ObjectId>,
    sessions: Vec<Session>,
    /// Calls of the current session.
    calls: Vec<ScriptCall>,
    wait: BurstWait,
}

/// The wait between a burst and the next one.
#[derive(Default)]
struct BurstWait {
    /// Thinking time after the burst.
    think: Option<Duration>,
    /// Pacing time of the next burst.
    pace: Option<Duration>,
}

impl LogReader {
    fn wrong(&mut self, column: usize, reason: impl Into<String>) {
        self.errors.push(self.line, column, reason.into());
    }

    fn read_line(&mut self, line: &[u8]) {
        if line.starts_with(b"#") {
            return;
        }
        let words = match words(line) {
            Ok(words) => words,
            Err((column, reason)) => {
                self.wrong(column, format!("this word {reason}"));
                return;
            }
        };
        let Some((first, rest)) = words.split_first() else {
            // An indented comment is not a blank line.
            if !line.contains(&b'#') {
                self.end_session();
            }
            return;
        };
        let is_new = self.calls.is_empty();
        if first.text == "session" && is_new {
            self.read_foreign_session(rest);
            return;
        }
        let is_member = line
            .first()
            .is_some_and(|byte| *byte == b' ' || *byte == b'\t');
        self.read_call(first, rest, is_member && !is_new);
    }

    fn read_foreign_session(&mut self, words: &[LineWord]) {
        for word in words {
            match word.pair() {
                Some(("port" | "server" | "ssl", _)) => {}
                _ => self.wrong(
                    word.column,
                    format!(
                        "`{}` is unknown; a session has port=, server= and ssl=",
                        word.text
                    ),
                ),
            }
        }
    }

    fn read_call(&mut self, first: &LineWord, words: &[LineWord], with_previous: bool) {
        if first.text.contains("://") {
            self.wrong(first.column, "is a whole URL; write the path alone, the server is named when the trace is played");
            return;
        }
        let path = first.text.strip_prefix('/').unwrap_or(&first.text);
        let mut call = ScriptCall {
            object: self.object(path),
            range: None,
            expected_bytes: None,
            timeout: None,
            pace: None,
            think: None,
            with_previous,
        };
        if !with_previous {
            let wait = core::mem::take(&mut self.wait);
            (call.think, call.pace) = (wait.think, wait.pace);
        }
        for word in words {
            if let Err((column, reason)) = read_word(word, &mut call, &mut self.wait) {
                self.wrong(column, reason);
            }
        }
        self.calls.push(call);
    }

    fn object(&mut self, path: &str) -> ObjectId {
        let next = ObjectId(self.paths.len() as u32);
        *self
            .by_path
            .entry(path.to_owned())
            .or_insert_with_key(|path| {
                self.paths.push(path.clone());
                next
            })
    }

    fn end_session(&mut self) {
        self.wait = BurstWait::default();
        if !self.calls.is_empty() {
            self.sessions.push(Session {
                arrival: Duration::ZERO,
                class: 0,
                plan: SessionPlan::Script(Script::new(core::mem::take(&mut self.calls))),
            });
        }
    }

    fn finish(mut self) -> Result<Trace, TraceErrors> {
        self.end_session();
        if self.sessions.is_empty() && self.errors.is_empty() {
            self.line = 1;
            self.wrong(1, "there are no sessions; write one request per line");
        }
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        Ok(Trace {
            objects: self.paths,
            classes: [NetworkClass::unlimited()].into(),
            sessions: self.sessions,
            ..Trace::default()
        })
    }
}

/// Parses one word after a call's path.
fn read_word(word: &LineWord, call: &mut ScriptCall, wait: &mut BurstWait) -> Result<(), LineFlaw> {
    let Some((key, value)) = word.pair() else {
        let text = format!(
            "`{}` is not KEY=VALUE; words after a path are like timeout=10",
            word.text
        );
        return Err((word.column, text));
    };
    let at = |reason: String| (value.column, reason);
    let text = value.text.as_str();
    match key {
        "range" => call.range = Some(range(text).map_err(at)?),
        "size" => call.expected_bytes = Some(whole(text).map_err(at)?),
        "timeout" => call.timeout = Some(seconds(text).map_err(at)?),
        "pacing" => call.pace = Some(seconds(text).map_err(at)?),
        // Both belong to the burst and apply after it; the later one takes precedence.
        "think" => (wait.think, wait.pace) = (Some(seconds(text).map_err(at)?), None),
        "pace_time" => (wait.think, wait.pace) = (None, Some(seconds(text).map_err(at)?)),
        "headers" => {
            if let Some(bytes) = range_field(text) {
                call.range = Some(range(bytes).map_err(at)?);
            }
        }
        "cookie" => {}
        "http" if matches!(text, "1.0" | "1.1") => {}
        "http" => return Err(at(format!("`{text}` is not a version; write 1.0 or 1.1"))),
        "method" if text == "GET" => {}
        "method" => return Err(at(format!("`{text}` cannot be played; viewers GET"))),
        "contents" => return Err(at("cannot be played; viewers send no contents".to_string())),
        _ => {
            let meant = nearest(key, WORDS.into_iter())
                .map_or(String::new(), |meant| format!("; did you mean {meant}=?"));
            return Err((word.column, format!("`{key}=` is unknown{meant}")));
        }
    }
    Ok(())
}

/// The range in the field `Range`, if it is among these fields.
fn range_field(fields: &str) -> Option<&str> {
    fields.split(['\r', '\n']).find_map(|field| {
        let (name, value) = field.split_once(':')?;
        let is_range = name.trim().eq_ignore_ascii_case("range");
        is_range.then(|| value.trim().strip_prefix("bytes=").unwrap_or(value.trim()))
    })
}

/// Largest time accepted, in seconds: thirty years.
const SECONDS_MAX: f64 = 1e9;

/// A word and its column, from 1. Quotes and escapes are resolved, except in a line's first word:
/// httperf uses a path verbatim.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LineWord {
    column: usize,
    text: String,
}

impl LineWord {
    /// `key=value`, with the value's column.
    fn pair(&self) -> Option<(&str, LineWord)> {
        let (key, value) = self.text.split_once('=')?;
        let column = self.column + key.len() + 1;
        Some((
            key,
            LineWord {
                column,
                text: value.to_string(),
            },
        ))
    }
}

/// Column and reason of a malformed line.
type LineFlaw = (usize, String);

/// The words of a line; a word that begins with `#` ends it (thesis Figure 3.5 has comments there).
fn words(line: &[u8]) -> Result<Vec<LineWord>, LineFlaw> {
    let text = str::from_utf8(line).map_err(|error| {
        let column = error.valid_up_to() + 1;
        (column, "is not UTF-8; a trace is a text".to_string())
    })?;
    let mut words: Vec<LineWord> = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((start, c)) = rest.next_if(|_| true) {
        if c == ' ' || c == '\t' {
            continue;
        }
        if c == '#' {
            break;
        }
        let is_first = words.is_empty();
        let mut word = String::new();
        let (mut quote, mut next) = (None, Some(c));
        while let Some(c) = next.take() {
            match (c, quote) {
                (' ' | '\t', None) => break,
                (c, _) if c.is_control() && c != '\t' => {
                    let at = start + word.len() + 1;
                    return Err((at, format!("has a control character, {c:?}; remove it")));
                }
                (c, _) if is_first => word.push(c),
                ('\'' | '"', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                ('\\', _) => match rest.next() {
                    Some((_, 'n')) => word.push('\n'),
                    Some((_, 'r')) => word.push('\r'),
                    Some((_, 't')) => word.push('\t'),
                    Some((_, other)) => word.push(other),
                    None => {
                        return Err((
                            start + 1,
                            "continues in the next line; write it in one line".to_string(),
                        ));
                    }
                },
                (c, _) => word.push(c),
            }
            next = rest.next().map(|(_, c)| c);
        }
        if quote.is_some() {
            return Err((
                start + 1,
                "has a quotation mark that is not closed".to_string(),
            ));
        }
        words.push(LineWord {
            column: start + 1,
            text: word,
        });
    }
    Ok(words)
}

/// Seconds like `10`, `2.5` or `1e-3`.
fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time; write seconds like 10 or 2.5");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !whole.is_empty()
        && whole.len() <= 10
        && fraction.len() <= 9
        && is_digits(whole)
        && is_digits(fraction)
    {
        let number = |digits: &str| {
            digits
                .bytes()
                .fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'))
        };
        let nanoseconds = number(fraction) * 10u64.pow(9 - fraction.len() as u32);
        return Ok(Duration(number(whole) * 1_000_000_000 + nanoseconds));
    }
    let number: f64 = text.parse().map_err(|_| wrong())?;
    let is_good = (0.0..=SECONDS_MAX).contains(&number);
    is_good
        .then(|| Duration(libm::round(number * 1e9) as u64))
        .ok_or_else(wrong)
}

/// A whole number.
fn whole(text: &str) -> Result<u64, String> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| format!("`{text}` is not a whole number"))
}

/// `first-last`, inclusive, or `first-`: to the end of the file, wherever that is.
fn range(text: &str) -> Result<ByteRange, String> {
    let wrong =
        |why: &str| format!("`{text}` {why}; write the first and the last byte, like 0-524287");
    let (first, last) = text
        .split_once('-')
        .ok_or_else(|| wrong("is not a range"))?;
    if first.is_empty() {
        return Err(wrong("has no beginning"));
    }
    let Ok(first) = whole(first) else {
        return Err(wrong("is not a range"));
    };
    let end = match (last, whole(last)) {
        ("", _) => Some(u64::MAX),
        (_, Ok(last)) => last.checked_add(1).filter(|end| *end < u64::MAX),
        (_, Err(_)) => return Err(wrong("is not a range")),
    };
    let end = end.ok_or_else(|| wrong("ends too far"))?;
    if first >= end {
        return Err(wrong("ends before it begins"));
    }
    Ok(ByteRange::new(first, end))
}
