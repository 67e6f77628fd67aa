//! A TOML text as one flat table of full keys, from which each is taken once.
//!
//! The one idea: whoever takes a key thereby makes it known. What nobody took in the end is
//! unknown, and the names to suggest are those that somebody asked for.

use alloc::borrow::ToOwned as _;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use toml::de::{DeTable, DeValue};

use super::error::{SpecificationError, SpecificationErrors};
use headlong_units::nearest;

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Number(f64),
    /// A whole number, exactly.
    Whole(i128),
    Truth(bool),
    List(Vec<Value>),
    /// What no key here takes: a date, a list of tables.
    Other(&'static str),
}

impl Value {
    /// What it is, for an error about it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Number(_) | Self::Whole(_) => "a number",
            Self::Truth(_) => "true or false",
            Self::List(_) => "a list",
            Self::Other(kind) => kind,
        }
    }

    fn of(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Integer(number) => {
                let whole = i128::from_str_radix(number.as_str(), number.radix());
                whole.map_or(Self::Other("too large a number"), Self::Whole)
            }
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => Self::Number(number),
                Err(_) => Self::Other("no number"),
            },
            DeValue::Boolean(truth) => Self::Truth(*truth),
            DeValue::Array(items) => {
                Self::List(items.iter().map(|item| Self::of(item.get_ref())).collect())
            }
            DeValue::Datetime(_) => Self::Other("a date"),
            DeValue::Table(_) => Self::Other("a table"),
        }
    }
}

/// Where a value was written: the line, and how to call it.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    line: usize,
    name: String,
}

/// The table, and what is wrong so far.
#[derive(Debug)]
pub(crate) struct Table {
    /// Name of the whole text in errors.
    source: String,
    values: BTreeMap<String, (Place, Value)>,
    places: BTreeMap<String, Place>,
    /// In which order groups and classes were written: by the place of their first key.
    order: Vec<String>,
    known: BTreeSet<String>,
    pub(crate) errors: SpecificationErrors,
    /// Lines that are not TOML: what was made of them is not worth a second complaint.
    unreadable: Vec<usize>,
}

impl Table {
    /// Reads `text`; each of `overrides` replaces what the text says about its key.
    pub(crate) fn read(source: &str, text: &str, overrides: &[(String, String)]) -> Self {
        let mut table = Self {
            source: source.to_owned(),
            values: BTreeMap::new(),
            places: BTreeMap::new(),
            order: Vec::new(),
            known: BTreeSet::new(),
            errors: SpecificationErrors::default(),
            unreadable: Vec::new(),
        };
        let (document, syntax_errors) = DeTable::parse_recoverable(text);
        for error in &syntax_errors {
            let line = error.span().map_or(0, |span| line_of(text, span.start));
            table.unreadable.push(line);
            let what = error.message().trim().replace('\n', ", ");
            table.push(line, "", format!("not TOML: {what}"));
        }
        let mut written = Vec::new();
        flatten(document.get_ref(), "", &mut written);
        written.sort_by_key(|(offset, ..)| *offset);
        for (offset, key, value) in written {
            let line = line_of(text, offset);
            let name = table.name_of(line);
            table.put(key, Place { line, name }, value);
        }
        for (key, value) in overrides {
            let name = format!("--set {key}");
            table.put(key.clone(), Place { line: 0, name }, override_value(value));
        }
        table
    }

    fn put(&mut self, key: String, place: Place, value: Value) {
        self.order.push(key.clone());
        self.places.insert(key.clone(), place.clone());
        self.values.insert(key, (place, value));
    }

    /// Names of the tables below `parent` (`title` has `sd` in `title.sd.count`), as written.
    pub(crate) fn children(&self, parent: &str) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for key in &self.order {
            let below = key
                .strip_prefix(parent)
                .and_then(|rest| rest.strip_prefix('.'));
            let Some((name, _)) = below.and_then(|rest| rest.rsplit_once('.')) else {
                continue;
            };
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// Whether `key` was written, taken or not.
    pub(crate) fn is_written(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// Whether the command line says what `key` is.
    pub(crate) fn is_overridden(&self, key: &str) -> bool {
        self.places.get(key).is_some_and(|place| place.line == 0)
    }

    /// Whether any key below `parent` was written, taken or not.
    pub(crate) fn is_written_below(&self, parent: &str) -> bool {
        let below = |key: &String| {
            let rest = key.strip_prefix(parent);
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        self.places.keys().any(below)
    }

    /// The value of `key`, if it was written; nobody else gets it.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        self.known.insert(key.to_owned());
        self.values.remove(key).map(|(_, value)| value)
    }

    /// Of two keys that exclude each other, whether the first was written over the second on the
    /// command line. Complains if both were written in the same place.
    pub(crate) fn wins(&mut self, key: &str, rival: &str) -> bool {
        let line = |key: &str| self.places.get(key).map(|place| place.line);
        match (line(key), line(rival)) {
            (Some(one), Some(other)) if (one == 0) == (other == 0) => {
                self.wrong(key, format!("contradicts {rival}; write one of the two"));
                true
            }
            (Some(line), Some(_)) => line == 0,
            _ => false,
        }
    }

    /// Notes that something is wrong with what was, or was not, written for `key`.
    pub(crate) fn wrong(&mut self, key: &str, text: impl Into<String>) {
        let place = self.places.get(key).cloned();
        let (line, name) = match place {
            Some(place) => (place.line, place.name),
            None => (0, self.source.clone()),
        };
        if line > 0 && self.unreadable.contains(&line) {
            return;
        }
        let (key, text) = (key.to_owned(), text.into());
        self.errors.push(SpecificationError {
            line,
            place: name,
            key,
            text,
        });
    }

    /// Complains about every key that nobody took.
    pub(crate) fn reject_unknown(&mut self) {
        let left: Vec<String> = self.values.keys().cloned().collect();
        for key in left {
            let meant = nearest(&key, self.known.iter().map(String::as_str));
            let remedy = match meant {
                Some(meant) => format!("did you mean {meant}?"),
                None => "docs/lab/workload.md lists the keys; remove it".to_owned(),
            };
            self.wrong(&key, format!("unknown key; {remedy}"));
        }
    }

    fn push(&mut self, line: usize, key: &str, text: String) {
        let place = self.name_of(line);
        let key = key.to_owned();
        self.errors.push(SpecificationError {
            line,
            place,
            key,
            text,
        });
    }

    fn name_of(&self, line: usize) -> String {
        match line {
            0 => self.source.clone(),
            line => format!("{}:{line}", self.source),
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Every leaf with its place and its full key.
fn flatten(table: &DeTable<'_>, prefix: &str, leaves: &mut Vec<(usize, String, Value)>) {
    for (name, value) in table.iter() {
        let key = match prefix {
            "" => name.get_ref().to_string(),
            prefix => format!("{prefix}.{}", name.get_ref()),
        };
        match value.get_ref() {
            DeValue::Table(inner) => flatten(inner, &key, leaves),
            leaf => leaves.push((name.span().start, key, Value::of(leaf))),
        }
    }
}

/// What was written behind `=` on a command line: TOML, or else a text without its quotes.
fn override_value(text: &str) -> Value {
    let line = format!("value = {text}");
    let (document, errors) = DeTable::parse_recoverable(&line);
    let mut leaves = Vec::new();
    flatten(document.get_ref(), "", &mut leaves);
    match leaves.pop() {
        Some((_, key, value)) if errors.is_empty() && leaves.is_empty() && key == "value" => value,
        _ => Value::Text(text.to_owned()),
    }
}
