//! Helpers shared by the readers of an experiment's tables.

use std::collections::BTreeMap;

use headlong_settings::{Document, Rows, Value, ValueKind, choice, quote, suggestion, whole};

use super::BlockQueueOverrides;

const SCHEDULERS: &[&str] = &["none", "mq-deadline", "bfq", "kyber"];

#[rustfmt::skip]
pub(super) fn kernel_rows() -> Rows<BlockQueueOverrides> {
    let mut rows = Rows::<BlockQueueOverrides>::default();
    rows.add("scheduler", one_of(SCHEDULERS).optional(), |k| &mut k.scheduler, "");
    rows.add("read_ahead_kb", whole().at_least(0).optional(), |k| &mut k.read_ahead_kb, "");
    rows.add("max_sectors_kb", some().optional(), |k| &mut k.max_sectors_kb, "");
    rows
}

/// A whole number, at least 1.
pub(super) fn some() -> ValueKind<u32> {
    whole().at_least(1)
}

/// One of these names, as text.
pub(super) fn one_of(names: &'static [&'static str]) -> ValueKind<String> {
    let names: Vec<_> = names.iter().map(|name| (*name, *name)).collect();
    let known = choice(&names);
    let form = known.form().to_owned();
    let read = move |value: &Value| Ok(known.read(value)?.to_owned());
    ValueKind::new(form, read, |name: &String| quote(name))
}

/// Reports names that are not in `all`.
pub(super) fn known<'n, T>(
    document: &mut Document,
    key: &str,
    names: impl Iterator<Item = &'n String>,
    all: &BTreeMap<String, T>,
) {
    for name in names.filter(|name| !all.contains_key(*name)) {
        let hint = suggestion(name, all.keys().map(String::as_str));
        document.wrong(key, format!("`{name}` is not in this experiment; {hint}"));
    }
}

/// Values keyed by user-chosen names.
pub(super) fn by_name<V: 'static>(
    document: &mut Document,
    table: &str,
    kind: &ValueKind<V>,
) -> BTreeMap<String, V> {
    let mut found = BTreeMap::new();
    for (name, value) in document.below(table) {
        match kind.read(&value) {
            Ok(value) => {
                found.insert(name, value);
            }
            Err(why) => document.wrong(&format!("{table}.{name}"), why),
        }
    }
    found
}
