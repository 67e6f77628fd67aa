//! Lines that follow a pattern: fields separated by fixed text.
//!
//! The pattern that a server writes its log by is also used to read it. A field ends at the text
//! that follows it in the pattern; within quotes, an escaped quote does not count. The
//! [known formats](super::known) are patterns, too.

use super::alias;
use super::known::PATTERNS;
use super::reason::DropReason;
use super::row::{Escape, Field, LineFields};
use super::viewer::is_address_list;
use super::wrapper::behind_syslog;

/// A field and the text before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TemplateField {
    pub(crate) before: Vec<u8>,
    /// Its name in the pattern.
    pub(crate) name: String,
    /// Its meaning; `None` if unused.
    pub(crate) field: Option<Field>,
}

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) pieces: Vec<TemplateField>,
    /// Text after the last field.
    after: Vec<u8>,
    /// Whether it is one of [`PATTERNS`]: unquoted fields are single words, consecutive spaces count
    /// as one, a syslog prefix may precede, and more fields may follow.
    is_known: bool,
    /// A key after the pattern that identifies the session.
    session_key: Vec<u8>,
}

/// Why a pattern is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Two fields touch.
    #[error("no text between `{0}` and `{1}`, so the end of the first is undefined")]
    Touching(String, String),
    /// A required field is missing.
    #[error("it has no {0}, which is required to make a request of a line")]
    Missing(&'static str),
    /// A directive is invalid.
    #[error("`{0}` is not a directive")]
    NoDirective(String),
    /// It is the name of a predefined format that does not exist.
    #[error("no format of {server} is named `{name}`; there are {known}")]
    NoName {
        /// The server.
        server: &'static str,
        /// The name, as given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The pattern is empty.
    #[error("the pattern must not be empty")]
    Empty,
}

/// Required fields, with their names in errors.
const NEEDS: [(&[Field], &str); 4] = [
    (
        &[
            Field::End,
            Field::EndS,
            Field::EndMs,
            Field::EndUs,
            Field::Start,
            Field::StartMs,
        ],
        "time",
    ),
    (
        &[Field::RequestLine, Field::Target, Field::File],
        "request line or path",
    ),
    (
        &[Field::Bytes, Field::BytesAll, Field::ContentLength],
        "count of bytes sent",
    ),
    (
        &[
            Field::Session,
            Field::Address,
            Field::Forwarded,
            Field::Client,
            Field::Cmcd,
            Field::Cookie,
        ],
        "session or address",
    ),
];

/// The first requirement that these fields do not meet.
pub(crate) fn missing(fields: impl Iterator<Item = Field> + Clone) -> Option<&'static str> {
    let has = |wanted: &[Field]| fields.clone().any(|field| wanted.contains(&field));
    let lacks = NEEDS.iter().find(|(wanted, _)| !has(wanted));
    lacks.map(|(_, what)| *what)
}

impl Template {
    /// A pattern of these fields.
    pub(crate) fn new(pieces: Vec<TemplateField>, after: Vec<u8>) -> Result<Self, TemplateError> {
        if pieces.is_empty() {
            return Err(TemplateError::Empty);
        }
        if let Some(pair) = pieces.windows(2).find(|pair| pair[1].before.is_empty()) {
            let names = (pair[0].name.clone(), pair[1].name.clone());
            return Err(TemplateError::Touching(names.0, names.1));
        }
        match missing(pieces.iter().filter_map(|piece| piece.field)) {
            Some(what) => Err(TemplateError::Missing(what)),
            None => Ok(Self {
                pieces,
                after,
                is_known: false,
                session_key: Vec::new(),
            }),
        }
    }

    /// One of [`PATTERNS`].
    pub(crate) fn known(name: &str, session_field: Option<&str>) -> Option<Self> {
        let (_, text) = PATTERNS.iter().find(|(known, _)| *known == name)?;
        let (pieces, after) = pieces(text, Field::from_name).ok()?;
        Some(Self {
            pieces,
            after,
            is_known: true,
            session_key: session_field.unwrap_or_default().into(),
        })
    }

    /// Splits a line into fields.
    pub(crate) fn read<'a>(
        &self,
        line: &'a [u8],
        row: &mut LineFields<'a>,
    ) -> Result<(), DropReason> {
        row.escape = Escape::Backslash;
        match self.split(line, row, |_| ()) {
            Err(reason) if self.is_known => {
                row.forget();
                self.split(behind_syslog(line).ok_or(reason)?, row, |_| ())
            }
            outcome => outcome,
        }
    }

    #[inline]
    fn split<'a>(
        &self,
        line: &'a [u8],
        row: &mut LineFields<'a>,
        skipped: impl FnMut(&'a [u8]),
    ) -> Result<(), DropReason> {
        let first = self.pieces.first().ok_or(DropReason::Shape)?;
        let mut rest = line;
        if !first.before.is_empty() {
            rest = rest
                .strip_prefix(&first.before[..])
                .ok_or(DropReason::Shape)?;
        }
        for (index, piece) in self.pieces.iter().enumerate() {
            let next = self.pieces.get(index + 1);
            let until = next.map_or(&self.after, |next| &next.before);
            let end = self.end(rest, until, piece, row).ok_or(DropReason::Shape)?;
            if let Some(field) = piece.field {
                row.set(field, &rest[..end]);
            }
            // The search for the end has matched the text after it as well.
            rest = &rest[end + until.len()..];
            // Squid pads short numbers with spaces.
            if next.is_some() && self.is_known && rest.first() == Some(&b' ') {
                rest = rest.trim_ascii_start();
            }
        }
        match rest {
            [] => Ok(()),
            rest if self.is_known => self.more_fields(rest, row, skipped),
            _ => Err(DropReason::Shape),
        }
    }

    /// End of a field that starts here. A list of addresses goes on behind a comma and a space; a
    /// user's name behind an address may contain spaces.
    #[inline]
    fn end(
        &self,
        rest: &[u8],
        until: &[u8],
        piece: &TemplateField,
        row: &LineFields<'_>,
    ) -> Option<usize> {
        let end = self.end_of_word(rest, until, piece);
        match piece.field {
            Some(Field::Address | Field::Forwarded) if until.first() == Some(&b' ') => {
                let mut end = end?;
                while rest[..end].ends_with(b",") {
                    end += 1 + self.end_of_word(rest.get(end + 1..)?, until, piece)?;
                }
                Some(end)
            }
            // A list of addresses has no host before it.
            None if self.is_known && rest[..end.unwrap_or(0)].ends_with(b",") => None,
            None if end.is_none()
                && self.is_known
                && until == b" ["
                && is_address_list(row.get(Field::Address)) =>
            {
                memchr::memmem::find(rest, until)
            }
            _ => end,
        }
    }

    #[inline]
    fn end_of_word(&self, rest: &[u8], until: &[u8], piece: &TemplateField) -> Option<usize> {
        if self.is_known && matches!(until, [] | [b' ', ..]) {
            // Words are short: a byte loop is faster than the setup of a faster search.
            let end = rest.iter().position(|byte| *byte == b' ');
            return match (end, until) {
                (Some(end), [] | [_]) => Some(end),
                (Some(end), _) => rest[end..].starts_with(until).then_some(end),
                (None, []) => Some(rest.len()),
                (None, _) => None,
            };
        }
        match until {
            [] => Some(rest.len()),
            _ => find(rest, until, piece.before.last() == Some(&b'"')),
        }
    }

    /// Fields appended to a known format: `key=value` with a known key, and values that identify
    /// themselves (ranges, a request line, times, addresses, headers captured by HAProxy). Others
    /// are skipped, and counted by `skipped`.
    fn more_fields<'a>(
        &self,
        text: &'a [u8],
        row: &mut LineFields<'a>,
        mut skipped: impl FnMut(&'a [u8]),
    ) -> Result<(), DropReason> {
        let mut rest = text.strip_prefix(b" ").ok_or(DropReason::Shape)?;
        while !rest.is_empty() {
            let (more, after) = AppendedField::first(rest).ok_or(DropReason::Shape)?;
            match more {
                AppendedField::Named { key, value } => {
                    if !self.session_key.is_empty() && key == self.session_key {
                        row.set(Field::Session, value);
                    } else if let Some(field) = alias::behind_combined(key) {
                        row.set(field, value);
                    }
                }
                AppendedField::Captured(values) => {
                    for piece in values.split(|byte| *byte == b'|') {
                        if !explain(piece, row) && !row.has(Field::Agent) && is_agent(piece) {
                            row.set(Field::Agent, piece);
                        }
                    }
                }
                AppendedField::Quoted(value)
                    if is_address_list(value) && !row.has(Field::Forwarded) =>
                {
                    row.set(Field::Forwarded, value);
                }
                AppendedField::Quoted(value) | AppendedField::Word(value) => {
                    if !explain(value, row) && !matches!(value, b"" | b"-") {
                        skipped(value);
                    }
                }
            }
            rest = after.strip_prefix(b" ").unwrap_or(after);
        }
        Ok(())
    }

    /// Values behind a known pattern that have no name and are not used.
    pub(crate) fn nameless<'a>(&self, line: &'a [u8]) -> Vec<&'a [u8]> {
        let (mut row, mut values) = (LineFields::new(), Vec::new());
        // A line of another shape has none.
        let _ = self.split(line, &mut row, |value| values.push(value));
        values
    }
}

/// A field behind a known pattern.
enum AppendedField<'a> {
    Named {
        key: &'a [u8],
        value: &'a [u8],
    },
    Quoted(&'a [u8]),
    /// Headers captured by HAProxy.
    Captured(&'a [u8]),
    Word(&'a [u8]),
}

impl<'a> AppendedField<'a> {
    /// The first field of a text, and the text after it.
    fn first(rest: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let stop = memchr::memchr2(b' ', b'"', rest).unwrap_or(rest.len());
        let key = match rest[..stop].split_last() {
            Some((b'=', key)) if rest.get(stop) == Some(&b'"') => Some(key),
            _ => None,
        };
        if rest.get(stop) == Some(&b'"') && (stop == 0 || key.is_some()) {
            let inner = &rest[stop + 1..];
            let end = find(inner, b"\"", true)?;
            let value = &inner[..end];
            let field = key.map_or(Self::Quoted(value), |key| Self::Named { key, value });
            return Some((field, &inner[end + 1..]));
        }
        if rest.first() == Some(&b'{') {
            let end = memchr::memchr(b'}', rest)?;
            return Some((Self::Captured(&rest[1..end]), &rest[end + 1..]));
        }
        let (word, after) = rest.split_at(memchr::memchr(b' ', rest).unwrap_or(rest.len()));
        let equals = memchr::memchr(b'=', word).filter(|_| !word.starts_with(b"bytes="));
        let field = match equals {
            Some(equals) => Self::Named {
                key: &word[..equals],
                value: &word[equals + 1..],
            },
            None => Self::Word(word),
        };
        Some((field, after))
    }
}

/// Uses a value without a name, if its form identifies it; returns whether it does.
fn explain<'a>(value: &'a [u8], row: &mut LineFields<'a>) -> bool {
    if value.starts_with(b"bytes=") {
        row.set(Field::Range, value);
    } else if value.starts_with(b"bytes ") {
        row.set(Field::ContentRange, value);
    } else if let [digits @ .., b'm', b's'] = value
        && !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
    {
        row.set(Field::ServiceMs, digits);
        // Only Traefik writes it this way, and its date is that of arrival.
        if row.has(Field::End) && !row.has(Field::Start) {
            row.set(Field::Start, row.get(Field::End));
        }
    } else if !row.has(Field::RequestLine) && memchr::memmem::find(value, b" HTTP/").is_some() {
        row.set(Field::RequestLine, value);
    } else if is_nginx_time(value) && !row.has(Field::ServiceS) {
        row.set(Field::ServiceS, value);
    } else {
        return false;
    }
    true
}

/// Whether it is a time as nginx writes it, seconds with three decimals; the first behind a known
/// format is nearly always `$request_time`.
fn is_nginx_time(value: &[u8]) -> bool {
    let [whole @ .., b'.', a, b, c] = value else {
        return false;
    };
    let is_short = (1..=5).contains(&whole.len());
    is_short && whole.iter().chain([a, b, c]).all(u8::is_ascii_digit)
}

/// Top-level media types (RFC 6838).
const MEDIA_TYPES: [&[u8]; 6] = [
    b"application",
    b"audio",
    b"font",
    b"image",
    b"text",
    b"video",
];

/// Whether a header is a user agent: it starts with a product name and a version after a slash (RFC
/// 9110, section 10.1.5), and is not an address, an `ETag`, a cookie or a media type.
fn is_agent(header: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let mut words = header.split(|byte| matches!(byte, b' ' | b'/'));
    let product = words.next().unwrap_or_default();
    let stroke = memchr::memchr(b'/', header);
    let version = stroke.and_then(|stroke| header.get(stroke + 1));
    product.first().is_some_and(u8::is_ascii_alphanumeric)
        && product.iter().all(is_token)
        && version.is_some_and(is_token)
        && !MEDIA_TYPES.contains(&product)
}

/// The fields of a text with `$names` or `${names}`, and the text after the last.
pub(crate) fn pieces(
    text: &str,
    field: impl Fn(&str) -> Option<Field>,
) -> Result<(Vec<TemplateField>, Vec<u8>), TemplateError> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    loop {
        let Some((before, behind)) = rest.split_once('$') else {
            return Ok((pieces, rest.into()));
        };
        let no_directive = || TemplateError::NoDirective(format!("${behind}"));
        let (name, after) = match behind.strip_prefix('{') {
            Some(inner) => inner.split_once('}').ok_or_else(no_directive)?,
            None => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                behind.split_at(behind.find(|c| !is_name(c)).unwrap_or(behind.len()))
            }
        };
        if name.is_empty() {
            return Err(no_directive());
        }
        pieces.push(TemplateField {
            before: before.into(),
            name: format!("${name}"),
            field: field(name),
        });
        rest = after;
    }
}

/// Position of `until`; after an opening quote, an escaped quote is text.
fn find(text: &[u8], until: &[u8], is_quoted: bool) -> Option<usize> {
    let (first, more) = until.split_first()?;
    let mut from = 0;
    loop {
        let at = from + memchr::memchr(*first, text.get(from..)?)?;
        let is_text = is_quoted && *first == b'"' && {
            let backslashes = text[..at].iter().rev().take_while(|byte| **byte == b'\\');
            backslashes.count() % 2 == 1
        };
        if !is_text && (more.is_empty() || text[at + 1..].starts_with(more)) {
            return Some(at);
        }
        from = at + 1;
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
