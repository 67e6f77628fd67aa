//! Reading TOML table by table: every key that is asked for is known, every other one is a mistake.
//!
//! A wrong value is noted and its default stays in force, so that what comes behind is read too.

use std::cell::RefCell;
use std::path::Path;
use std::str::FromStr;

use headlong_units::{Bytes, Duration, nearest};
use headlong_workload::Form;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::mistake::{Mistake, Mistakes, suggestion};

/// A file on its way, with what was wrong so far.
pub(crate) struct Reader<'a> {
    file: &'a Path,
    text: &'a str,
    mistakes: RefCell<Vec<Mistake>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a Path, text: &'a str) -> Self {
        let mistakes = RefCell::default();
        Self {
            file,
            text,
            mistakes,
        }
    }

    /// The document; what is no TOML is noted, and the rest is read.
    pub(crate) fn parse(&self) -> Spanned<DeTable<'a>> {
        let (document, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            let at = error.span().map_or(0, |span| span.start);
            let what = error.message().trim().replace('\n', ", ");
            self.note(self.line(at), "", format!("not TOML: {what}"));
        }
        document
    }

    pub(crate) fn note(&self, line: usize, key: &str, text: impl Into<String>) {
        let (key, text) = (key.to_owned(), text.into());
        self.mistakes.borrow_mut().push(Mistake { line, key, text });
    }

    fn line(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or(self.text);
        before.bytes().filter(|byte| *byte == b'\n').count() + 1
    }

    /// Ends the reading.
    pub(crate) fn finish<T>(self, good: T) -> Result<T, Mistakes> {
        Mistakes::or(self.file, self.mistakes.into_inner(), good)
    }
}

/// One table. It must be given back to [`Section::finish`], which finds keys nobody asked for.
pub(crate) struct Section<'r, 'a> {
    reader: &'r Reader<'a>,
    path: String,
    table: Option<&'r DeTable<'a>>,
    known: Vec<&'static str>,
    line: usize,
}

type Entry<'r, 'a> = (&'r Spanned<DeString<'a>>, &'r Spanned<DeValue<'a>>);

impl<'r, 'a> Section<'r, 'a> {
    /// The document itself.
    pub(crate) fn top(reader: &'r Reader<'a>, table: &'r DeTable<'a>) -> Self {
        Self::new(reader, String::new(), Some(table), 0)
    }

    fn new(
        reader: &'r Reader<'a>,
        path: String,
        table: Option<&'r DeTable<'a>>,
        line: usize,
    ) -> Self {
        let known = Vec::new();
        Self {
            reader,
            path,
            table,
            known,
            line,
        }
    }

    /// Whether it was written at all.
    pub(crate) fn is_there(&self) -> bool {
        self.table.is_some()
    }

    /// Whether the key was written, rightly or not.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Notes that something is wrong with the table or one of its keys.
    pub(crate) fn wrong(&self, key: &str, text: impl Into<String>) {
        let line = match self.entry(key) {
            Some((name, _)) => self.reader.line(name.span().start),
            None => self.line,
        };
        self.reader.note(line, &self.full(key), text);
    }

    fn full(&self, key: &str) -> String {
        match (self.path.is_empty(), key.is_empty()) {
            (true, _) => key.to_owned(),
            (false, true) => self.path.clone(),
            (false, false) => format!("{}.{key}", self.path),
        }
    }

    fn entry(&self, key: &str) -> Option<Entry<'r, 'a>> {
        let table = self.table?;
        table.iter().find(|(name, _)| name.get_ref() == key)
    }

    fn value(&mut self, key: &'static str) -> Option<&'r DeValue<'a>> {
        self.known.push(key);
        self.entry(key).map(|(_, value)| value.get_ref())
    }

    /// A table within this one, empty if it was not written.
    pub(crate) fn section(&mut self, key: &'static str) -> Section<'r, 'a> {
        let path = self.full(key);
        let line = match self.entry(key) {
            Some((name, _)) => self.reader.line(name.span().start),
            None => self.line,
        };
        let table = match self.value(key) {
            Some(DeValue::Table(table)) => Some(table),
            Some(_) => {
                let text = format!("is a table; write [{path}] on a line of its own");
                self.wrong(key, text);
                None
            }
            None => None,
        };
        Section::new(self.reader, path, table, line)
    }

    /// Tables within this one, by names of the writer's choice, in the order of their names.
    pub(crate) fn named(&mut self, key: &'static str) -> Vec<(String, Section<'r, 'a>)> {
        let Section { path, table, .. } = self.section(key);
        let mut found = Vec::new();
        for (name, value) in table.into_iter().flat_map(|table| table.iter()) {
            let line = self.reader.line(name.span().start);
            let inner = format!("{path}.{}", name.get_ref());
            let DeValue::Table(table) = value.get_ref() else {
                let text = format!("is a table; write [{path}.NAME] on a line of its own");
                self.reader.note(line, &inner, text);
                continue;
            };
            let section = Section::new(self.reader, inner, Some(table), line);
            found.push((name.get_ref().to_string(), section));
        }
        found
    }

    /// Values within a table, by names of the writer's choice.
    pub(crate) fn pairs<T>(
        &mut self,
        key: &'static str,
        what: &str,
        read: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Vec<(String, T)> {
        let Section { path, table, .. } = self.section(key);
        let mut found = Vec::new();
        for (name, value) in table.into_iter().flat_map(|table| table.iter()) {
            match read(value.get_ref()) {
                Ok(value) => found.push((name.get_ref().to_string(), value)),
                Err(why) => {
                    let line = self.reader.line(name.span().start);
                    let inner = format!("{path}.{}", name.get_ref());
                    self.reader.note(line, &inner, complaint(&why, what));
                }
            }
        }
        found
    }

    fn read<T>(
        &mut self,
        key: &'static str,
        what: &str,
        read: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<T> {
        match read(self.value(key)?) {
            Ok(value) => Some(value),
            Err(why) => {
                self.wrong(key, complaint(&why, what));
                None
            }
        }
    }

    /// Text in quotes.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<String> {
        self.read(key, "a text in quotes", |value| {
            Ok(text_of(value)?.to_owned())
        })
    }

    /// Several texts.
    pub(crate) fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        self.read(key, "a list of texts, each in quotes", texts_of)
    }

    /// One of several names.
    pub(crate) fn one_of<T: Copy>(
        &mut self,
        key: &'static str,
        names: &[(&'static str, T)],
    ) -> Option<T> {
        let typed = self.text(key)?;
        let found = names.iter().find(|(name, _)| *name == typed);
        if found.is_none() {
            let names = names.iter().map(|(name, _)| *name);
            let text = format!("`{typed}` is unknown; {}", suggestion(&typed, names));
            self.wrong(key, text);
        }
        found.map(|(_, value)| *value)
    }

    /// A size.
    pub(crate) fn bytes(&mut self, key: &'static str) -> Option<u64> {
        let what = "a size such as \"4GiB\"";
        self.read(key, what, |value| Ok(parsed::<Bytes>(text_of(value)?)?.0))
    }

    /// In how many files a title lies.
    pub(crate) fn form(&mut self, key: &'static str) -> Option<Form> {
        let what = "a size such as \"512KiB\", or \"segment\"";
        self.read(key, what, |value| parsed(text_of(value)?))
    }

    /// A time.
    pub(crate) fn duration(&mut self, key: &'static str) -> Option<Duration> {
        let what = "a time such as \"300s\"";
        self.read(key, what, |value| parsed(text_of(value)?))
    }

    /// A rate, in bytes a second.
    pub(crate) fn rate(&mut self, key: &'static str) -> Option<f64> {
        self.read(key, RATE, rate_of)
    }

    /// A share of the whole.
    pub(crate) fn share(&mut self, key: &'static str) -> Option<f64> {
        let what = "a share such as \"0.3%\"";
        self.read(key, what, |value| {
            let text = text_of(value)?;
            let number = text.trim().strip_suffix('%').ok_or("")?.trim();
            let percent: f64 = number.parse().map_err(|_| String::new())?;
            match (0.0..=100.0).contains(&percent) {
                true => Ok(percent / 100.0),
                false => Err(format!("`{text}` is not from 0% to 100%")),
            }
        })
    }

    /// A whole number from 0.
    pub(crate) fn whole<T: TryFrom<u64>>(&mut self, key: &'static str) -> Option<T> {
        self.read(key, "a whole number such as 16", |value| match value {
            DeValue::Integer(digits) => {
                let number = u64::from_str_radix(digits.as_str(), digits.radix());
                let number = number.ok().and_then(|number| T::try_from(number).ok());
                number.ok_or_else(|| format!("`{digits}` is out of range"))
            }
            _ => Err(String::new()),
        })
    }

    /// Yes or no.
    pub(crate) fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.read(key, "true or false", |value| match value {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(String::new()),
        })
    }

    /// A table that somebody else reads, as text in TOML.
    pub(crate) fn foreign(&mut self, key: &'static str) -> Option<String> {
        let section = self.section(key);
        let table = plain_table(section.table?);
        match toml::to_string(&table) {
            Ok(text) => Some(text),
            Err(error) => {
                self.wrong(key, format!("cannot be written down again: {error}"));
                None
            }
        }
    }

    /// A table that somebody else reads, as full keys (`requests.size`) with their values.
    pub(crate) fn flat(&mut self, key: &'static str) -> Vec<(String, String)> {
        let mut leaves = Vec::new();
        if let Some(table) = self.section(key).table {
            flatten("", &plain_table(table), &mut leaves);
        }
        leaves
    }

    /// Complains of keys that nobody asked for.
    pub(crate) fn finish(self) {
        for (name, _) in self.table.into_iter().flat_map(|table| table.iter()) {
            let typed: &str = name.get_ref();
            if self.known.contains(&typed) {
                continue;
            }
            let line = self.reader.line(name.span().start);
            let text = match nearest(typed, self.known.iter().copied()) {
                Some(meant) => format!("unknown key; did you mean `{}`?", self.full(meant)),
                None => format!("unknown key; there are {}", self.known.join(", ")),
            };
            self.reader.note(line, &self.full(typed), text);
        }
    }
}

/// What to write for a rate.
pub(crate) const RATE: &str = "a rate such as \"25MiB/s\"";

/// A rate in bytes a second.
pub(crate) fn rate_of(value: &DeValue<'_>) -> Result<f64, String> {
    rate_from_text(text_of(value)?)
}

/// A rate in bytes a second, from `25MiB/s`.
pub(crate) fn rate_from_text(text: &str) -> Result<f64, String> {
    let size = text.trim().strip_suffix("/s").ok_or("")?;
    let bytes = parsed::<Bytes>(size)?.0;
    match bytes {
        0 => Err(format!("`{text}` is no rate")),
        bytes => Ok(bytes as f64),
    }
}

/// A list of texts.
pub(crate) fn texts_of(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let DeValue::Array(items) = value else {
        return Err(String::new());
    };
    let texts = items.iter().map(|item| text_of(item.get_ref()));
    texts.map(|text| text.map(str::to_owned)).collect()
}

/// A number.
pub(crate) fn number_of(value: &DeValue<'_>) -> Result<f64, String> {
    let digits = match value {
        DeValue::Integer(digits) if digits.radix() == 10 => digits.as_str(),
        DeValue::Float(digits) => digits.as_str(),
        _ => return Err(String::new()),
    };
    let number: f64 = digits.parse().map_err(|_| String::new())?;
    match number.is_finite() {
        true => Ok(number),
        false => Err(format!("`{digits}` is not finite")),
    }
}

fn text_of<'v>(value: &'v DeValue<'_>) -> Result<&'v str, String> {
    value.as_str().ok_or_else(String::new)
}

fn parsed<T: FromStr>(text: &str) -> Result<T, String>
where
    T::Err: ToString,
{
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn complaint(why: &str, what: &str) -> String {
    match why.is_empty() {
        true => format!("does not fit; write {what}"),
        false => why.to_owned(),
    }
}

fn flatten(above: &str, table: &toml::Table, leaves: &mut Vec<(String, String)>) {
    for (name, value) in table {
        let full = match above {
            "" => name.clone(),
            above => format!("{above}.{name}"),
        };
        match value {
            toml::Value::Table(table) => flatten(&full, table, leaves),
            toml::Value::String(text) => leaves.push((full, text.clone())),
            other => leaves.push((full, other.to_string())),
        }
    }
}

fn plain_table(table: &DeTable<'_>) -> toml::Table {
    let entries = table.iter();
    entries
        .map(|(name, value)| (name.get_ref().to_string(), plain(value.get_ref())))
        .collect()
}

fn plain(value: &DeValue<'_>) -> toml::Value {
    match value {
        DeValue::String(text) => toml::Value::String(text.to_string()),
        DeValue::Integer(digits) => {
            let number = i64::from_str_radix(digits.as_str(), digits.radix());
            toml::Value::Integer(number.unwrap_or(i64::MAX))
        }
        DeValue::Float(digits) => toml::Value::Float(digits.as_str().parse().unwrap_or(0.0)),
        DeValue::Boolean(flag) => toml::Value::Boolean(*flag),
        DeValue::Datetime(time) => toml::Value::Datetime(*time),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| plain(item.get_ref()));
            toml::Value::Array(items.collect())
        }
        DeValue::Table(table) => toml::Value::Table(plain_table(table)),
    }
}
