//! Splits a line of a wsesslog into words, and parses their values.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use headlong_units::{ByteRange, Duration};

/// Largest time accepted, in seconds: thirty years.
const SECONDS_MAX: f64 = 1e9;

/// A word and its column, from 1. Quotes and escapes are resolved, except in a line's first word:
/// httperf uses a path verbatim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineWord {
    pub(super) column: usize,
    pub(super) text: String,
}

impl LineWord {
    /// `key=value`, with the value's column.
    pub(super) fn pair(&self) -> Option<(&str, LineWord)> {
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
pub(super) type LineFlaw = (usize, String);

/// The words of a line; a word that begins with `#` ends it (thesis Figure 3.5 has comments there).
pub(super) fn words(line: &[u8]) -> Result<Vec<LineWord>, LineFlaw> {
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
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
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
pub(super) fn whole(text: &str) -> Result<u64, String> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| format!("`{text}` is not a whole number"))
}

/// `first-last`, inclusive, or `first-`: to the end of the file, wherever that is.
pub(super) fn range(text: &str) -> Result<ByteRange, String> {
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

/// A word with its percent encoding resolved; unchanged if malformed.
pub(super) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_string())
}
