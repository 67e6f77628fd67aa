//! A TOML text as one flat table of full keys, from which each key is taken once.
//!
//! Taking a key makes it known. A key that has not been taken at the end is unknown, and
//! suggestions are made from the keys that were requested.

use alloc::borrow::ToOwned as _;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use toml::de::{DeTable, DeValue};

use crate::kind::ValueKind;
use crate::mistake::{Mistakes, ValueLocation};
use crate::value::Value;

/// A table in the text.
#[derive(Debug)]
pub(crate) struct TextTable {
    pub(crate) above: String,
    pub(crate) name: String,
    /// Its full name.
    pub(crate) path: String,
}

/// The values from a file and from the command line, and the mistakes found so far.
#[derive(Debug)]
pub struct Document {
    /// The whole text, for a mistake without a line.
    whole: ValueLocation,
    /// The page of the manual that lists all keys.
    pub(crate) manual: &'static str,
    /// The values that have not been taken yet.
    pub(crate) values: BTreeMap<String, Value>,
    /// Where each key was written, taken or not.
    places: BTreeMap<String, ValueLocation>,
    /// The tables in the order of the text.
    pub(crate) tables: Vec<TextTable>,
    /// Keys that were requested.
    pub(crate) known: BTreeSet<String>,
    /// Tables whose subtables have names chosen by the user.
    pub(crate) families: BTreeSet<String>,
    /// The mistakes found so far.
    pub mistakes: Mistakes,
    /// Lines that are not TOML: their values are not reported a second time.
    unreadable: Vec<ValueLocation>,
}

impl Document {
    /// Parses a text. `source` is the name of its file, empty if there is none; `manual` is the
    /// page that lists all keys.
    pub fn new(source: &str, manual: &'static str, text: &str) -> Self {
        let mut document = Self {
            whole: match source {
                "" => ValueLocation::Default,
                source => ValueLocation::File(source.to_owned()),
            },
            manual,
            values: BTreeMap::new(),
            places: BTreeMap::new(),
            tables: Vec::new(),
            known: BTreeSet::new(),
            families: BTreeSet::new(),
            mistakes: Mistakes::default(),
            unreadable: Vec::new(),
        };
        let (table, errors) = DeTable::parse_recoverable(text);
        let line = |offset: usize| {
            let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            ValueLocation::Line(source.to_owned(), line)
        };
        let mut entries = Vec::new();
        flatten(table.get_ref(), "", &mut entries);
        for error in &errors {
            let place = error
                .span()
                .map_or(document.whole.clone(), |span| line(span.start));
            let what = error.message().trim().replace('\n', ", ");
            document
                .mistakes
                .push(place.clone(), "", format!("not TOML: {what}"));
            document.unreadable.push(place);
            // A value of several lines can have its mistake on one line and its key on another.
            let at = error.span().map_or(usize::MAX, |span| span.start);
            let holders = entries.iter().filter(|entry| entry.value.is_some());
            for entry in holders.filter(|entry| (entry.offset..=entry.end).contains(&at)) {
                document.unreadable.push(line(entry.offset));
            }
        }
        entries.sort_by_key(|entry| entry.offset);
        for entry in entries {
            let place = line(entry.offset);
            document.put(&entry.above, &entry.name, place, entry.value);
        }
        document
    }

    /// Sets a key from a flag; this replaces the value in the text. `flag` is the name used in
    /// mistakes.
    pub fn set(&mut self, flag: &str, key: &str, value: Value) {
        let place = ValueLocation::Flag(flag.to_owned());
        let (above, name) = key.rsplit_once('.').unwrap_or(("", key));
        if !above.is_empty() && !self.tables.iter().any(|table| table.path == above) {
            let (outer, table) = above.rsplit_once('.').unwrap_or(("", above));
            self.put(outer, table, place.clone(), None);
        }
        self.put(above, name, place, Some(value));
    }

    fn put(&mut self, above: &str, name: &str, place: ValueLocation, value: Option<Value>) {
        let path = match above {
            "" => name.to_owned(),
            above => format!("{above}.{name}"),
        };
        self.places.insert(path.clone(), place.clone());
        match value {
            Some(value) => {
                self.values.insert(path, value);
            }
            None => {
                let (above, name) = (above.to_owned(), name.to_owned());
                self.tables.push(TextTable { above, name, path });
            }
        }
    }

    /// Names of the tables below `parent`, which are chosen by the user, in the order of the text.
    pub fn children(&mut self, parent: &str) -> Vec<String> {
        self.families.insert(parent.to_owned());
        let mut names: Vec<String> = Vec::new();
        for table in self.tables.iter().filter(|table| table.above == parent) {
            if !names.contains(&table.name) {
                names.push(table.name.clone());
            }
        }
        names
    }

    /// Whether a key or a table was written, taken or not.
    pub fn is_written(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// Whether a flag sets `key`.
    pub fn is_overridden(&self, key: &str) -> bool {
        matches!(self.places.get(key), Some(ValueLocation::Flag(_)))
    }

    /// Where a key was written; if it was not, where the table is that it belongs to; otherwise the
    /// whole text.
    pub fn place(&self, key: &str) -> ValueLocation {
        let mut above = Some(key);
        while let Some(path) = above {
            if let Some(place) = self.places.get(path) {
                return place.clone();
            }
            above = path.rsplit_once('.').map(|(above, _)| above);
        }
        self.whole.clone()
    }

    /// Takes the value of `key`, if it was written.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.known.insert(key.to_owned());
        if self.tables.iter().any(|table| table.path == key) {
            self.below(key);
            return Some(Value::Other("a table"));
        }
        let value = self.values.remove(key);
        value.filter(|_| !self.unreadable.contains(&self.place(key)))
    }

    /// Takes the value of `key`, if it was written and is valid; an invalid value is recorded as a
    /// mistake.
    pub fn get<V: 'static>(&mut self, key: &str, kind: &ValueKind<V>) -> Option<V> {
        let value = self.take(key)?;
        kind.read(&value).map_err(|text| self.wrong(key, text)).ok()
    }

    /// The same, or `usual` if there is no valid value.
    pub fn get_or<V: 'static>(&mut self, key: &str, kind: &ValueKind<V>, usual: V) -> V {
        self.get(key, kind).unwrap_or(usual)
    }

    /// Takes everything below `parent`, whatever the names, in the order of the names.
    pub fn below(&mut self, parent: &str) -> Vec<(String, Value)> {
        let prefix = format!("{parent}.");
        self.known.insert(prefix.clone());
        let is_below = |key: &String| key.starts_with(&prefix);
        let keys: Vec<String> = self
            .values
            .keys()
            .filter(|key| is_below(key))
            .cloned()
            .collect();
        self.known.extend(keys.iter().cloned());
        let inner: Vec<String> = self.tables.iter().map(|table| table.path.clone()).collect();
        self.families.extend(inner.into_iter().filter(is_below));
        let value = |key: String| {
            let value = self.values.remove(&key)?;
            Some((key[prefix.len()..].to_owned(), value))
        };
        keys.into_iter().filter_map(value).collect()
    }

    /// For two mutually exclusive keys, whether the first overrides the second from the command
    /// line. Records a mistake if both were written in the same place.
    pub fn wins(&mut self, key: &str, rival: &str) -> bool {
        if !self.is_written(key) || !self.is_written(rival) {
            return false;
        }
        let is_flag = self.is_overridden(key);
        if is_flag == self.is_overridden(rival) {
            self.wrong(key, format!("contradicts {rival}; write one of the two"));
            return true;
        }
        is_flag
    }

    /// Records that the value of `key`, or its absence, is wrong.
    pub fn wrong(&mut self, key: &str, text: impl Into<String>) {
        let place = self.place(key);
        if !self.unreadable.contains(&place) {
            self.mistakes.push(place, key, text);
        }
    }

    /// Records a mistake if `key`, which is no setting of this file, was written. Unlike
    /// [`Self::take`], does not make the key known, so that it is never suggested.
    pub fn reject(&mut self, key: &str, text: &str) {
        if self.values.remove(key).is_some() {
            self.wrong(key, text);
        }
    }

    /// Records a mistake for each key with a name of `former` that was written in the table `above`
    /// (empty for the top level); each comes with its remedy.
    pub fn reject_former(&mut self, above: &str, former: &[(&str, &str)]) {
        for (name, remedy) in former {
            let key = match above {
                "" => (*name).to_owned(),
                above => format!("{above}.{name}"),
            };
            self.reject(&key, &format!("is no longer a setting; {remedy}"));
        }
    }

    /// As [`Self::wrong`], if a condition is met.
    pub fn wrong_if(&mut self, is_wrong: bool, key: &str, text: impl Into<String>) {
        if is_wrong {
            self.wrong(key, text);
        }
    }

    /// As [`Self::wrong`], unless a mistake is already recorded for the key.
    pub fn wrong_too(&mut self, key: &str, text: impl Into<String>) {
        if !self.mistakes.is_about(key) {
            self.wrong(key, text);
        }
    }

    /// Finishes reading: every key that was not taken is a mistake.
    ///
    /// # Errors
    /// All mistakes.
    pub fn finish<T>(mut self, good: T) -> Result<T, Mistakes> {
        self.reject_unknown();
        self.mistakes.or(good)
    }
}

/// A value or a table (without a value) of the text.
struct TextEntry {
    offset: usize,
    /// The offset where its value ends.
    end: usize,
    above: String,
    name: String,
    value: Option<Value>,
}

fn flatten(table: &DeTable<'_>, above: &str, entries: &mut Vec<TextEntry>) {
    for (key, value) in table.iter() {
        let (above, name) = (above.to_owned(), key.get_ref().to_string());
        let path = match above.as_str() {
            "" => name.clone(),
            above => format!("{above}.{name}"),
        };
        let end = value.span().end;
        let value = match value.get_ref() {
            DeValue::Table(inner) => {
                flatten(inner, &path, entries);
                None
            }
            leaf => Some(Value::of(leaf)),
        };
        let offset = key.span().start;
        entries.push(TextEntry {
            offset,
            end,
            above,
            name,
            value,
        });
    }
}
