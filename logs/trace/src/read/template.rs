//! Lines made by a pattern: pieces with fixed text between them.
//!
//! The one idea: the pattern a server was given to write its log by is the pattern to read it by.
//! Each piece goes on until the text that the pattern has behind it; in quotes, a quote behind a
//! backslash does not count.

use super::alias;
use super::reason::Reason;
use super::row::{Escape, Field, Row};

/// A piece and the text in front of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) before: Vec<u8>,
    /// What it means; `None` if nobody here needs it.
    pub(crate) field: Option<Field>,
}

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
    /// Text behind the last piece.
    after: Vec<u8>,
    /// What may follow.
    rest: Rest,
}

/// What may follow behind a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing.
    Nothing,
    /// More fields, which are looked at for what explains itself.
    Fields,
}

/// Why a pattern cannot be read by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Two pieces touch.
    #[error("nothing stands between `{0}` and `{1}`, so nobody can tell where one ends")]
    Touching(String, String),
    /// It says too little.
    #[error("it has no {0}, and without it no request can be made of a line")]
    Missing(&'static str),
    /// A directive is broken.
    #[error("`{0}` is no directive")]
    NoDirective(String),
    /// A name for a pattern that is not known.
    #[error("the pattern must not be empty")]
    Empty,
}

impl Template {
    /// The pattern of these pieces; `names` are what they were called, for errors.
    pub(crate) fn new(
        pieces: Vec<Piece>,
        after: Vec<u8>,
        rest: Rest,
        names: &[String],
    ) -> Result<Self, TemplateError> {
        if pieces.is_empty() {
            return Err(TemplateError::Empty);
        }
        for (index, piece) in pieces.iter().enumerate().skip(1) {
            if piece.before.is_empty() {
                let name = |index: usize| names.get(index).cloned().unwrap_or_default();
                return Err(TemplateError::Touching(name(index - 1), name(index)));
            }
        }
        let has = |wanted: &[Field]| {
            let mut fields = pieces.iter().filter_map(|piece| piece.field);
            fields.any(|field| wanted.contains(&field))
        };
        let needs: [(&[Field], &str); 4] = [
            (
                &[
                    Field::End,
                    Field::EndS,
                    Field::EndMs,
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
                &[Field::Session, Field::Address, Field::Cmcd],
                "session or address",
            ),
        ];
        for (fields, what) in needs {
            if !has(fields) {
                return Err(TemplateError::Missing(what));
            }
        }
        Ok(Self {
            pieces,
            after,
            rest,
        })
    }

    /// The pieces of a line.
    pub(crate) fn read<'a>(&self, line: &'a [u8], row: &mut Row<'a>) -> Result<(), Reason> {
        row.escape = Escape::Backslash;
        let first = self.pieces.first().ok_or(Reason::Shape)?;
        let mut rest = line;
        if !first.before.is_empty() {
            rest = rest.strip_prefix(&first.before[..]).ok_or(Reason::Shape)?;
        }
        for (index, piece) in self.pieces.iter().enumerate() {
            let next = self.pieces.get(index + 1);
            let until = next.map_or(&self.after, |next| &next.before);
            let end = if until.is_empty() {
                match self.rest {
                    Rest::Nothing => rest.len(),
                    Rest::Fields => memchr::memchr(b' ', rest).unwrap_or(rest.len()),
                }
            } else {
                find(rest, until, piece.before.last() == Some(&b'"')).ok_or(Reason::Shape)?
            };
            if let Some(field) = piece.field {
                row.set(field, &rest[..end]);
            }
            // Looking for its end has found the text behind it, too.
            rest = &rest[end + until.len()..];
        }
        match self.rest {
            Rest::Nothing if rest.is_empty() => Ok(()),
            Rest::Nothing => Err(Reason::Shape),
            Rest::Fields if rest.is_empty() => Ok(()),
            Rest::Fields => more_fields(rest, row),
        }
    }
}

/// Where `until` begins; behind an opening quote, a quote that a backslash is in front of is text.
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

/// Fields that somebody added behind `combined`: `key=value` with a key that is known, and ranges,
/// which look like nothing else. Others are passed over.
fn more_fields<'a>(text: &'a [u8], row: &mut Row<'a>) -> Result<(), Reason> {
    let mut rest = text.strip_prefix(b" ").ok_or(Reason::Shape)?;
    while !rest.is_empty() {
        let stop = memchr::memchr2(b' ', b'"', rest).unwrap_or(rest.len());
        let key = match rest[..stop].split_last() {
            Some((b'=', key)) if rest.get(stop) == Some(&b'"') => Some(key),
            _ => None,
        };
        let is_quoted = rest.get(stop) == Some(&b'"') && (stop == 0 || key.is_some());
        let (key, value, after) = if is_quoted {
            let inner = &rest[stop + 1..];
            let end = find(inner, b"\"", true).ok_or(Reason::Shape)?;
            (key, &inner[..end], &inner[end + 1..])
        } else {
            let end = memchr::memchr(b' ', rest).unwrap_or(rest.len());
            let word = &rest[..end];
            let equals = memchr::memchr(b'=', word).filter(|_| !word.starts_with(b"bytes="));
            let (key, value) = match equals {
                Some(equals) => (Some(&word[..equals]), &word[equals + 1..]),
                None => (None, word),
            };
            (key, value, &rest[end..])
        };
        let field = match key {
            Some(key) => alias::behind_combined(key),
            None if value.starts_with(b"bytes=") => Some(Field::Range),
            None if value.starts_with(b"bytes ") => Some(Field::ContentRange),
            None => None,
        };
        if let Some(field) = field {
            row.set(field, value);
        }
        rest = after.strip_prefix(b" ").unwrap_or(after);
    }
    Ok(())
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
