//! Logs with columns, described by a header: the first line of CSV, or a `#Fields:` line of W3C
//! extended logs (IIS, CloudFront), which may recur anywhere.
//!
//! W3C columns are identified by name, never by position: CloudFront has added columns more than
//! once.

use super::alias::{self, FieldMap};
use super::known::HEADERS;
use super::reason::DropReason;
use super::row::{Escape, Field, LineFields};
use super::template::missing;

/// Prefix of the header line of a W3C log.
pub(crate) const FIELDS: &[u8] = b"#Fields:";

/// Reader of lines with columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DelimitedReader {
    /// `None`: tabs if the line has any, otherwise spaces.
    separator: Option<u8>,
    /// Name and field of each column.
    pub(crate) columns: Vec<(String, Option<Field>)>,
    /// The header, which may recur where files were concatenated.
    header: Vec<u8>,
    session_field: Option<String>,
    /// Whether the header is not in the log: further columns may follow.
    pub(crate) is_known: bool,
    /// Whether names are escaped twice.
    is_escaped: bool,
}

impl DelimitedReader {
    /// A reader for files that start with this line, if it is a header of a request log; a map of
    /// column numbers is for files without a header.
    pub(crate) fn from_header(
        line: &[u8],
        map: &FieldMap,
        session_field: Option<&str>,
    ) -> Option<Self> {
        let by_place: Option<Vec<(Field, usize)>> = map
            .pairs
            .iter()
            .map(|(field, place)| Some((*field, place.parse().ok()?)))
            .collect();
        let separator = separator(line)?;
        let text = str::from_utf8(line).ok();
        let (columns, header) = match by_place.filter(|places| !places.is_empty()) {
            Some(places) => {
                let count = memchr::memchr_iter(separator, line).count() + 1;
                let mut columns = vec![(String::new(), None); count];
                for (field, place) in places {
                    columns.get_mut(place.checked_sub(1)?)?.1 = Some(field);
                }
                (columns, Vec::new())
            }
            None => {
                let names = text?.split(char::from(separator));
                let names = names.map(|name| name.trim().trim_matches('"'));
                let columns = names.map(|name| (name.to_owned(), map.field(name)));
                (columns.collect(), line.to_vec())
            }
        };
        let mut reader = Self {
            separator: Some(separator),
            columns,
            header,
            session_field: session_field.map(str::to_owned),
            is_known: false,
            is_escaped: false,
        };
        reader.prefer_session(session_field);
        let mut fields: Vec<Field> = reader.fields().collect();
        let count = fields.len();
        fields.sort_unstable();
        fields.dedup();
        (fields.len() == count && missing(reader.fields()).is_none()).then_some(reader)
    }

    /// A reader for the lines after this one, if it is a `#Fields:` line.
    pub(crate) fn from_fields(line: &[u8], session_field: Option<&str>) -> Option<Self> {
        let names = str::from_utf8(line.strip_prefix(FIELDS)?).ok()?;
        let names = names.split_ascii_whitespace();
        // IIS logs durations in ms, CloudFront and the standard in seconds.
        let is_of_iis = |name| matches!(name, "sc-win32-status" | "s-ip" | "s-sitename");
        let is_iis = names.clone().any(is_of_iis);
        let is_escaped = names.clone().any(|name| name.starts_with("x-edge-"));
        let meaning = |name: &str| {
            let found = alias::names("w3c").find(|(known, _)| *known == name);
            found.map(|(_, field)| match field {
                Field::ServiceS if is_iis => Field::ServiceMs,
                field => field,
            })
        };
        let mut reader = Self {
            separator: None,
            columns: names.map(|name| (name.to_owned(), meaning(name))).collect(),
            header: Vec::new(),
            session_field: session_field.map(str::to_owned),
            is_known: false,
            is_escaped,
        };
        reader.prefer_session(session_field);
        // A viewer is not required: lines without an address are reported one by one.
        let mut all: Vec<Field> = reader.fields().chain([Field::Address]).collect();
        if all.contains(&Field::Date) && all.contains(&Field::Clock) {
            all.push(Field::End);
        }
        missing(all.into_iter()).is_none().then_some(reader)
    }

    /// A reader for one of [`HEADERS`].
    pub(crate) fn known(name: &str, session_field: Option<&str>) -> Option<Self> {
        let (_, header) = HEADERS.iter().find(|(known, _)| *known == name)?;
        Some(Self {
            separator: Some(b'\t'),
            is_known: true,
            ..Self::from_fields(header.as_bytes(), session_field)?
        })
    }

    /// The session field given by the user takes precedence over known names.
    fn prefer_session(&mut self, session_field: Option<&str>) {
        let Some(wanted) = session_field else { return };
        let of_header = format!("cs({wanted})");
        let is_wanted = |name: &str| name == wanted || name == of_header;
        if self.columns.iter().any(|(name, _)| is_wanted(name)) {
            for (name, field) in &mut self.columns {
                *field = match *field {
                    _ if is_wanted(name) => Some(Field::Session),
                    Some(Field::Session) => None,
                    other => other,
                };
            }
        }
    }

    /// A reader for the lines after another `#Fields:` line of the same log.
    pub(crate) fn again(&self, line: &[u8]) -> Option<Self> {
        Self::from_fields(line, self.session_field.as_deref()).filter(|_| self.is_w3c())
    }

    /// Whether it is a W3C log.
    pub(crate) fn is_w3c(&self) -> bool {
        self.separator.is_none()
    }

    fn fields(&self) -> impl Iterator<Item = Field> + Clone {
        self.columns.iter().filter_map(|(_, field)| *field)
    }

    /// Splits a line into fields.
    pub(crate) fn read<'a>(
        &self,
        line: &'a [u8],
        row: &mut LineFields<'a>,
    ) -> Result<(), DropReason> {
        if self.is_w3c() && line.starts_with(b"#") {
            return Err(DropReason::NotARequest);
        }
        if self.is_escaped {
            row.escape = Escape::Percent;
        }
        let separator = self.separator.unwrap_or_else(|| {
            let has_tab = memchr::memchr(b'\t', line).is_some();
            if has_tab { b'\t' } else { b' ' }
        });
        let mut rest = Some(line);
        for (_, column) in &self.columns {
            let (piece, after) =
                piece(rest.ok_or(DropReason::Shape)?, separator).ok_or(DropReason::Shape)?;
            if let Some(field) = column {
                row.set(*field, piece);
            }
            rest = after;
        }
        match rest {
            Some([]) if self.is_w3c() => Ok(()),
            Some(_) if self.is_known => Ok(()),
            Some(_) => Err(DropReason::Shape),
            None if line == self.header => Err(DropReason::NotARequest),
            None => Ok(()),
        }
    }
}

/// The first column of a text, and the text after its separator.
pub(crate) fn piece(text: &[u8], separator: u8) -> Option<(&[u8], Option<&[u8]>)> {
    if let [b'"', inner @ ..] = text {
        return quoted(inner, separator);
    }
    // Columns are short: a byte loop is faster than the setup of a faster search.
    match text.iter().position(|byte| *byte == separator) {
        Some(end) => Some((&text[..end], Some(&text[end + 1..]))),
        None => Some((text, None)),
    }
}

/// A quoted column; doubled quotes within it are kept.
fn quoted(inner: &[u8], separator: u8) -> Option<(&[u8], Option<&[u8]>)> {
    let mut from = 0;
    loop {
        let end = from + memchr::memchr(b'"', &inner[from..])?;
        match inner.get(end + 1) {
            None => return Some((&inner[..end], None)),
            Some(byte) if *byte == separator => {
                return Some((&inner[..end], Some(&inner[end + 2..])));
            }
            Some(b'"') => from = end + 2,
            Some(_) => return None,
        }
    }
}

/// The separator: the most frequent of the usual characters.
pub(crate) fn separator(line: &[u8]) -> Option<u8> {
    let count = |byte: &u8| memchr::memchr_iter(*byte, line).count();
    let best = b"|;\t,".iter().copied().max_by_key(|byte| count(byte))?;
    (count(&best) > 0).then_some(best)
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;
