//! Tables of the converted file, each entry with the place that it comes from.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use headlong_settings::{key_part, one_line, quote};

use crate::syntax::Directive;

/// A table and its entries; the name of the top is empty.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) name: String,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    key: &'static str,
    value: String,
    remark: String,
}

impl Table {
    /// A table with this name at the top.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_string(),
            entries: Vec::new(),
        }
    }

    /// `[FAMILY."NAME"]`.
    pub(crate) fn of(family: &str, name: &str) -> Self {
        Self::new(&format!("{family}.{}", key_part(name)))
    }

    /// Sets a key to a value in TOML, with the directive that it comes from.
    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<String>, of: &Directive) {
        self.remark(key, value, &format!("{}:{}", of.file, of.line));
    }

    /// Sets a key to a value in TOML, with a remark.
    pub(crate) fn remark(&mut self, key: &'static str, value: impl Into<String>, remark: &str) {
        self.entries.retain(|entry| entry.key != key);
        let (value, remark) = (value.into(), one_line(remark));
        self.entries.push(Entry { key, value, remark });
    }

    /// Whether two tables set the same, whatever their names.
    pub(crate) fn sets_the_same(&self, other: &Self) -> bool {
        let has = |table: &Self, entry: &Entry| {
            let mut entries = table.entries.iter();
            entries.any(|of| (of.key, &of.value) == (entry.key, &entry.value))
        };
        self.entries.len() == other.entries.len()
            && self.entries.iter().all(|entry| has(other, entry))
    }

    /// The value of a key in TOML.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        entry.map(|entry| entry.value.as_str())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The table as TOML.
    pub(crate) fn show(&self) -> String {
        let mut text = match self.name.as_str() {
            "" => String::new(),
            name => format!("\n[{name}]\n"),
        };
        for Entry { key, value, remark } in &self.entries {
            text.push_str(&format!("{key} = {value}  # {remark}\n"));
        }
        text
    }
}

/// A list of texts in TOML.
pub(crate) fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items = items.into_iter().map(|item| quote(item.as_ref()));
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}
