//! Lines of JSON: one object each, read in one pass without building anything.
//!
//! The one idea: only values whose keys are known are wanted, and those as pieces of the line. Keys
//! within objects are joined by dots (`request.headers.Range`); of a list, its first element counts.

use crate::names::QuickMap;

use super::alias::{FieldMap, HEADLONG, OURS, USUAL};
use super::reason::Reason;
use super::row::{Escape, Field, Row};

/// Deepest nesting that is followed.
const DEPTH_MAX: usize = 32;

/// Longest path of keys that can be known.
const PATH_BYTES_MAX: usize = 128;

/// Reads lines of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Json {
    fields: QuickMap<Vec<u8>, Field>,
    /// Without this one, it is somebody else's log.
    needs: Option<Field>,
    /// Whether keys within keys matter.
    is_nested: bool,
}

impl Json {
    /// Our own access log.
    pub(crate) fn headlong() -> Self {
        Self {
            fields: HEADLONG
                .iter()
                .map(|(key, field)| (key.as_bytes().to_vec(), *field))
                .collect(),
            needs: Some(Field::StartMs),
            is_nested: false,
        }
    }

    /// Anybody's, by a map of keys and the names that are usual.
    pub(crate) fn mapped(map: &FieldMap, session_field: Option<&str>) -> Self {
        let mut fields = QuickMap::default();
        let known = OURS.iter().chain(USUAL).map(|(key, _)| *key);
        let theirs = map.pairs.iter().map(|(_, key)| key.as_str());
        for key in known.chain(theirs) {
            if let Some(field) = map.field(key) {
                fields.insert(key.as_bytes().to_vec(), field);
            }
        }
        if let Some(key) = session_field {
            fields.insert(key.as_bytes().to_vec(), Field::Session);
        }
        Self {
            fields,
            needs: None,
            is_nested: true,
        }
    }

    /// The pieces of a line.
    pub(crate) fn read<'a>(&self, line: &'a [u8], row: &mut Row<'a>) -> Result<(), Reason> {
        row.escape = Escape::Json;
        let line = line.trim_ascii();
        if line.first() != Some(&b'{') {
            return Err(Reason::Shape);
        }
        let mut scan = Scan {
            json: self,
            row,
            rest: line,
            path: [0; PATH_BYTES_MAX],
        };
        scan.value(Some(0), 0).ok_or(Reason::Shape)?;
        if !scan.rest.is_empty() {
            return Err(Reason::Shape);
        }
        match self.needs {
            Some(needed) if !row.has(needed) && !row.has(Field::Summary) => Err(Reason::Shape),
            _ => Ok(()),
        }
    }
}

struct Scan<'s, 'a> {
    json: &'s Json,
    row: &'s mut Row<'a>,
    rest: &'a [u8],
    path: [u8; PATH_BYTES_MAX],
}

impl<'a> Scan<'_, 'a> {
    /// Reads a value; its path is the first so many bytes of `path`, or too long to be known.
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
        self.take(b'{')?;
        self.space();
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            self.take(b':')?;
            let inner = self.joined(path, key);
            self.value(inner, depth + 1)?;
            self.space();
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    fn list(&mut self, path: Option<usize>, depth: usize) -> Option<()> {
        self.take(b'[')?;
        self.space();
        if self.take(b']').is_some() {
            return Some(());
        }
        let mut path = path;
        loop {
            self.value(path, depth + 1)?;
            path = None;
            self.space();
            if self.take(b',').is_none() {
                return self.take(b']');
            }
        }
    }

    /// The path of a key within the object at `path`.
    fn joined(&mut self, path: Option<usize>, key: &[u8]) -> Option<usize> {
        let start = path?;
        if start > 0 && !self.json.is_nested {
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
        let Some(end) = path else { return };
        if let Some(field) = self.json.fields.get(&self.path[..end]) {
            self.row.set(*field, text);
        }
    }

    /// A string without its quotes, its escapes left as they are.
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

    fn take(&mut self, byte: u8) -> Option<()> {
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
