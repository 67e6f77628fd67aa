//! Logs of JSON objects, one per line, parsed in one pass without building values.
//!
//! Only values of known keys are extracted, as slices of the line. Nested keys are joined by dots
//! (`request.headers.Range`); of a list, the first element is used.

use super::alias::{FieldMap, all_usual, names};
use super::reason::DropReason;
use super::row::{Escape, Field, LineFields};

/// Deepest nesting parsed.
const DEPTH_MAX: usize = 32;

/// Longest joined key that can be known.
const PATH_BYTES_MAX: usize = 128;

/// Logs with known keys, and the field that identifies each.
pub(crate) const DIALECTS: [(&str, Field); 3] = [
    ("headlong", Field::StartMs),
    ("caddy", Field::Target),
    ("envoy-json", Field::Status),
];

/// Fields of keys, by the length of the key: few keys have the same length, and comparing with
/// those is faster than hashing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct KeyIndex(Vec<Vec<(String, Field)>>);

impl KeyIndex {
    fn insert(&mut self, key: &str, field: Field) {
        if self.0.len() <= key.len() {
            self.0.resize_with(key.len() + 1, Vec::new);
        }
        let same_length = &mut self.0[key.len()];
        same_length.retain(|(other, _)| other != key);
        same_length.push((key.to_owned(), field));
    }

    fn get(&self, key: &[u8]) -> Option<Field> {
        let mut same_length = self.0.get(key.len())?.iter();
        let found = same_length.find(|(other, _)| other.as_bytes() == key)?;
        Some(found.1)
    }
}

/// Key of Caddy's own messages, which share the log with its requests by default.
const CADDY_MESSAGE: &str = "msg";

/// Reader of JSON lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonReader {
    fields: KeyIndex,
    /// A line without this field belongs to another program.
    needs: Option<Field>,
    /// A line with this key and without the needed field is a message of the program.
    message: Option<&'static str>,
    /// Whether nested keys are used.
    is_nested: bool,
}

impl JsonReader {
    /// One of [`DIALECTS`].
    pub(crate) fn dialect(name: &str, session_field: Option<&str>) -> Option<Self> {
        let (_, needs) = DIALECTS.iter().find(|(known, _)| *known == name)?;
        let message = (name == "caddy").then_some(CADDY_MESSAGE);
        let of = Self::of(names(name), Some(*needs), session_field);
        Some(Self { message, ..of })
    }

    /// A reader for any program, by a map of keys and by usual names.
    pub(crate) fn mapped(map: &FieldMap, session_field: Option<&str>) -> Self {
        let known = all_usual().map(|(key, _)| key);
        let theirs = map.pairs.iter().map(|(_, key)| key.as_str());
        let fields = known.chain(theirs);
        let fields = fields.filter_map(|key| Some((key, map.field(key)?)));
        Self::of(fields, None, session_field)
    }

    fn of<'k>(
        keys: impl Iterator<Item = (&'k str, Field)>,
        needs: Option<Field>,
        session_field: Option<&str>,
    ) -> Self {
        let mut fields = KeyIndex::default();
        for (key, field) in keys {
            if field != Field::Session || session_field.is_none() {
                fields.insert(key, field);
            }
        }
        if let Some(key) = session_field {
            for path in [key.to_owned(), format!("request.headers.{key}")] {
                fields.insert(&path, Field::Session);
            }
        }
        let is_nested = fields.0.iter().flatten().any(|(key, _)| key.contains('.'));
        Self {
            fields,
            needs,
            message: None,
            is_nested,
        }
    }

    /// The field of a key.
    pub(crate) fn field(&self, key: &str) -> Option<Field> {
        self.fields.get(key.as_bytes())
    }

    /// Extracts the fields of a line.
    pub(crate) fn read<'a>(
        &self,
        line: &'a [u8],
        row: &mut LineFields<'a>,
    ) -> Result<(), DropReason> {
        row.escape = Escape::Json;
        let line = line.trim_ascii();
        if line.first() != Some(&b'{') {
            return Err(DropReason::Shape);
        }
        let mut is_message = false;
        let mut scan = JsonScanner {
            is_nested: self.is_nested,
            take: |path: &[u8], text| {
                is_message |= self.message.is_some_and(|key| path == key.as_bytes());
                if let Some(field) = self.fields.get(path) {
                    row.set(field, text);
                }
            },
            rest: line,
            path: [0; PATH_BYTES_MAX],
        };
        scan.value(Some(0), 0).ok_or(DropReason::Shape)?;
        if !scan.rest.is_empty() {
            return Err(DropReason::Shape);
        }
        match self.needs {
            // Other programs have such messages, too, but without Caddy's time key.
            Some(needed) if !row.has(needed) && is_message && row.has(Field::End) => {
                Err(DropReason::NotARequest)
            }
            Some(needed) if !row.has(needed) && !row.has(Field::Summary) => Err(DropReason::Shape),
            _ => Ok(()),
        }
    }
}

/// The keys of a line, joined by dots.
pub(crate) fn keys(line: &[u8]) -> Vec<String> {
    let mut seen = Vec::new();
    let mut scan = JsonScanner {
        is_nested: true,
        take: |path: &[u8], _| seen.push(String::from_utf8_lossy(path).into_owned()),
        rest: line.trim_ascii(),
        path: [0; PATH_BYTES_MAX],
    };
    // A broken line still yields the keys before the error.
    let _ = scan.value(Some(0), 0);
    seen
}

struct JsonScanner<'a, T: FnMut(&[u8], &'a [u8])> {
    is_nested: bool,
    /// Receives the path and text of each value.
    take: T,
    rest: &'a [u8],
    path: [u8; PATH_BYTES_MAX],
}

impl<'a, T: FnMut(&[u8], &'a [u8])> JsonScanner<'a, T> {
    /// Parses a value; its path is the first `path` bytes of the buffer, or too long to be known.
    fn value(&mut self, path: Option<usize>, depth: usize) -> Option<()> {
        self.space();
        match self.rest.first()? {
            b'{' if depth < DEPTH_MAX => self.object(path, depth),
            b'[' if depth < DEPTH_MAX => self.list(path, depth),
            b'"' => {
                let text = self.string()?;
                self.found(path, text);
                Some(())
            }
            b'{' | b'[' => None,
            _ => {
                let text = self.word()?;
                if text != b"null" {
                    self.found(path, text);
                }
                Some(())
            }
        }
    }

    fn object(&mut self, path: Option<usize>, depth: usize) -> Option<()> {
        self.skip(b'{')?;
        self.space();
        if self.skip(b'}').is_some() {
            return Some(());
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            self.skip(b':')?;
            let inner = self.joined(path, key);
            self.value(inner, depth + 1)?;
            self.space();
            if self.skip(b',').is_none() {
                return self.skip(b'}');
            }
        }
    }

    fn list(&mut self, path: Option<usize>, depth: usize) -> Option<()> {
        self.skip(b'[')?;
        self.space();
        if self.skip(b']').is_some() {
            return Some(());
        }
        let mut path = path;
        loop {
            self.value(path, depth + 1)?;
            path = None;
            self.space();
            if self.skip(b',').is_none() {
                return self.skip(b']');
            }
        }
    }

    /// Appends a key to the path of its object.
    fn joined(&mut self, path: Option<usize>, key: &[u8]) -> Option<usize> {
        let start = path?;
        if start > 0 && !self.is_nested {
            return None;
        }
        let dot = usize::from(start > 0);
        let end = start + dot + key.len();
        let room = self.path.get_mut(start..end)?;
        if dot == 1 {
            room[0] = b'.';
        }
        room[dot..].copy_from_slice(key);
        Some(end)
    }

    fn found(&mut self, path: Option<usize>, text: &'a [u8]) {
        if let Some(end) = path {
            (self.take)(&self.path[..end], text);
        }
    }

    /// A string without its quotes, with its escapes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let inner = self.rest.strip_prefix(b"\"")?;
        let mut from = 0;
        loop {
            let at = from + memchr::memchr2(b'"', b'\\', &inner[from..])?;
            if inner[at] == b'"' {
                self.rest = &inner[at + 1..];
                return Some(&inner[..at]);
            }
            from = at + 2;
            if from > inner.len() {
                return None;
            }
        }
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Option<&'a [u8]> {
        let is_word =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let end = self.rest.iter().position(|byte| !is_word(byte));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.rest.split_first()?;
        if *first != byte {
            return None;
        }
        self.rest = rest;
        Some(())
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
