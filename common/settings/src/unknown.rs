//! Messages for unknown keys and tables.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use headlong_units::nearest;

use crate::document::Document;

/// Maximum number of names that a message lists; the manual has the others.
const LISTED_MAX: usize = 15;

/// `did you mean X?`, or the list of names.
pub fn suggestion<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match nearest(typed, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("there are {}", names.join(", ")),
    }
}

impl Document {
    pub(crate) fn reject_unknown(&mut self) {
        let tables: Vec<String> = self.tables.iter().map(|table| table.path.clone()).collect();
        let mut unknown: Vec<String> = Vec::new();
        for path in tables {
            if is_in(&path, &unknown) || self.is_table(&path) {
                continue;
            }
            let text = self.unknown_table(&path);
            self.wrong(&path, text);
            unknown.push(path);
        }
        let left: Vec<String> = self.values.keys().cloned().collect();
        for key in left.into_iter().filter(|key| !is_in(key, &unknown)) {
            let text = self.unknown_key(&key);
            self.wrong(&key, text);
        }
    }

    /// Whether something in this table was requested.
    fn is_table(&self, path: &str) -> bool {
        let prefix = format!("{path}.");
        let mut asked = self.known.iter().chain(&self.families);
        asked.any(|key| key.starts_with(&prefix) || key == path)
    }

    fn unknown_table(&self, path: &str) -> String {
        let tables = self.known.iter().filter_map(|key| key.rsplit_once('.'));
        let tables = tables.map(|(table, _)| table);
        match nearest(path, tables.chain(self.families.iter().map(String::as_str))) {
            Some(name) => format!("unknown table; did you mean [{name}]?"),
            None => format!("unknown table; see {}", self.manual),
        }
    }

    fn unknown_key(&self, key: &str) -> String {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        if self.families.contains(key) {
            return format!("is a table; write [{key}.NAME] on a line of its own");
        }
        let is_in_table =
            |known: &String| known.rsplit_once('.').is_some_and(|(of, _)| of == table);
        let holds_keys = self.known.iter().any(is_in_table);
        if self.families.contains(table) && !holds_keys || self.is_table(key) {
            return format!("is a table; write [{key}] on a line of its own");
        }
        let root = |key: &str| key.split('.').next().unwrap_or_default().to_owned();
        let elsewhere = self.known.iter().find_map(|known| {
            let (of, same) = known.rsplit_once('.').unwrap_or(("", known));
            (same == name && (of.is_empty() || root(of) != root(key))).then_some(of)
        });
        match elsewhere {
            Some("") => {
                return "unknown key here; it belongs at the top, before the first table"
                    .to_owned();
            }
            Some(table) => return format!("unknown key here; it belongs in [{table}]"),
            None => {}
        }
        let beside = |known: &'_ String| {
            let (of, name) = known.rsplit_once('.').unwrap_or(("", known));
            (of == table).then(|| name.to_owned())
        };
        let names: Vec<String> = self.known.iter().filter_map(beside).collect();
        match nearest(name, names.iter().map(String::as_str)) {
            Some(meant) if table.is_empty() => format!("unknown key; did you mean `{meant}`?"),
            Some(meant) => format!("unknown key; did you mean `{table}.{meant}`?"),
            None if names.len() <= LISTED_MAX => {
                format!("unknown key; there are {}", names.join(", "))
            }
            None => format!("unknown key; see {}", self.manual),
        }
    }
}

fn is_in(path: &str, tables: &[String]) -> bool {
    let is_below = |table: &String| path.strip_prefix(table.as_str());
    let mut tables = tables.iter().filter_map(is_below);
    tables.any(|rest| rest.is_empty() || rest.starts_with('.'))
}
