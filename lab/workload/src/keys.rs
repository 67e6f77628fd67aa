//! The keys of specifications: each is defined once, for reading and for writing.
//!
//! A specification passes all keys, with their kinds and fields, to a [`KeyVisitor`], which either
//! reads them from TOML or writes them, so the two cannot disagree.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use headlong_random::Empirical;
use headlong_settings::{
    Document, Mistakes, Rejection, Value, ValueKind, ValueLocation, number, quote, toml_line,
};
use headlong_units::{Duration, nearest};

use crate::Curve;

/// Reads or writes values by key.
pub(crate) trait KeyVisitor {
    /// A key, the kind of its values, and the field that holds its value.
    fn key<V: 'static>(&mut self, key: &str, kind: ValueKind<V>, value: &mut V);

    /// A key that is out of place, as it is valid only with the value `other` of the key `of`.
    fn misplaced(&mut self, _key: &str, _of: &str, _other: &str) {}

    /// The keys below `name`.
    fn section<'a>(&'a mut self, name: &'a str) -> KeySection<'a, Self> {
        KeySection { keys: self, name }
    }

    /// A key that is misplaced unless the condition is met.
    fn key_with<V: 'static>(
        &mut self,
        (is_met, of, other): (bool, &str, &str),
        key: &str,
        kind: ValueKind<V>,
        value: &mut V,
    ) {
        match is_met {
            true => self.key(key, kind, value),
            false => self.misplaced(key, of, other),
        }
    }
}

/// Keys below a name.
pub(crate) struct KeySection<'a, K: ?Sized> {
    keys: &'a mut K,
    name: &'a str,
}

impl<K: KeyVisitor + ?Sized> KeyVisitor for KeySection<'_, K> {
    fn key<V: 'static>(&mut self, key: &str, kind: ValueKind<V>, value: &mut V) {
        self.keys.key(&format!("{}.{key}", self.name), kind, value);
    }

    fn misplaced(&mut self, key: &str, of: &str, other: &str) {
        let full = |key: &str| format!("{}.{key}", self.name);
        self.keys.misplaced(&full(key), &full(of), other);
    }
}

impl KeyVisitor for Document {
    /// Stores a valid value in `value`.
    fn key<V: 'static>(&mut self, key: &str, kind: ValueKind<V>, value: &mut V) {
        if let Some(read) = self.get(key, &kind) {
            *value = read;
        }
    }

    /// An override of `of` cannot remove the keys of its old value: they are ignored.
    fn misplaced(&mut self, key: &str, of: &str, other: &str) {
        let is_passed = self.is_overridden(of) && !self.is_overridden(key);
        if self.take(key).is_some() && !is_passed {
            let text = format!("is valid only with {other}; remove it, or set that");
            self.wrong(key, text);
        }
    }
}

/// Writes TOML that parses to the same values.
#[derive(Default)]
pub(crate) struct TomlWriter {
    pub(crate) text: String,
    section: String,
}

impl KeyVisitor for TomlWriter {
    fn key<V: 'static>(&mut self, key: &str, kind: ValueKind<V>, value: &mut V) {
        toml_line(&mut self.text, &mut self.section, key, &kind.show(value));
    }
}

/// The text with its overrides.
pub(crate) fn document(source: &str, text: &str, overrides: &[(String, String)]) -> Document {
    let mut document = Document::new(source, "docs/lab/workload.md", text);
    for (key, value) in overrides {
        document.set(&format!("--set {key}"), key, Value::of_word(value));
    }
    document
}

/// An override may only change an existing table: a misspelt name would create another group or
/// class, which takes its share of the viewers.
pub(crate) fn no_new_tables(
    table: &mut Document,
    parents: &[&str],
    text: &str,
    overrides: &[(String, String)],
) {
    let mut own = document("", text, &[]);
    for parent in parents {
        let names = own.children(parent);
        // If the text has none, an override is the only way to add one.
        if names.is_empty() {
            continue;
        }
        for (key, _) in overrides {
            let rest = key.strip_prefix(parent);
            let rest = rest.and_then(|rest| rest.strip_prefix('.'));
            let Some((name, _)) = rest.and_then(|rest| rest.split_once('.')) else {
                continue;
            };
            if names.iter().any(|known| known == name) {
                continue;
            }
            let all = names.join(", ");
            let told = format!("there is no {parent}.{name} to change; there are {all}");
            table.wrong(key, format!("{told}; write a new one into a file"));
        }
    }
}

/// The mistake of naming no preset.
pub(crate) fn no_preset<'a>(name: &str, presets: impl Iterator<Item = &'a str>) -> Mistakes {
    let presets: Vec<&str> = presets.collect();
    let meant = nearest(name, presets.iter().copied());
    let meant = meant.map_or(String::new(), |meant| format!("did you mean {meant}? "));
    let names = presets.join(", ");
    let text =
        format!("no such preset; {meant}the presets are {names}; the name of a file ends in .toml");
    Mistakes::at(&ValueLocation::File(name.to_owned()), [text])
}

/// A list in TOML, on several lines if it is long.
pub(crate) fn list<T>(items: &[T], one: impl Fn(&T) -> String) -> String {
    let items: Vec<String> = items.iter().map(one).collect();
    let joined = items.join(", ");
    match joined.len() < 80 {
        true => format!("[{joined}]"),
        false => format!("[\n    {}\n]", items.join(",\n    ")),
    }
}

/// A number from `from` to `to`.
pub(crate) fn real(from: f64, to: f64) -> ValueKind<f64> {
    number().between(from, to)
}

/// A share or a probability.
pub(crate) fn share() -> ValueKind<f64> {
    real(0.0, 1.0)
}

/// A curve by name, by its points, or a constant: `120s` (if `is_time`) or a number.
pub(crate) fn curve(is_time: bool) -> ValueKind<Curve> {
    let read = move |value: &Value| match value {
        Value::Text(text) => {
            if let Some(curve) = Curve::named(text) {
                return Ok(curve);
            }
            if let (true, Ok(Duration(time))) = (is_time, text.parse()) {
                return Ok(Curve::constant(time as f64 / 1e9));
            }
            let meant = nearest(text, Curve::names());
            let meant = meant.map_or(String::new(), |name| format!("; did you mean {name}?"));
            let names = Curve::names().collect::<Vec<_>>().join(", ");
            let points = "write points like [[0, 0], [60, 0.5], [120, 1]]";
            Err(format!("no curve is called `{text}`{meant}; {points}, or one of {names}").into())
        }
        Value::List(points) => {
            let points: Result<Vec<_>, String> = points.iter().map(point).collect();
            let law = Empirical::new(points?).map_err(|error| error.to_string())?;
            Ok(Curve::inline(&law))
        }
        constant => Ok(Curve::constant(
            number().read(constant).map_err(|_| Rejection::Unfit)?,
        )),
    };
    let form = "the name of a curve, its points, or a constant";
    ValueKind::new(form, read, |curve: &Curve| {
        match Curve::named(&curve.name) {
            Some(_) => quote(&curve.name),
            None => list(curve.law.points(), |(value, share)| {
                format!("[{value}, {share}]")
            }),
        }
    })
}

/// A curve with values from `from` to `to`.
pub(crate) fn curve_within(is_time: bool, from: f64, to: f64) -> ValueKind<Curve> {
    curve(is_time).check(move |curve, _| {
        let (least, most) = (curve.law.quantile(0.0), curve.law.quantile(1.0));
        match least < from || most > to {
            true => Err(format!(
                "goes from {least} to {most}; values lie from {from} to {to}"
            )),
            false => Ok(()),
        }
    })
}

fn point(value: &Value) -> Result<(f64, f64), String> {
    match value.items() {
        Some([value, share]) => Ok((number().read(value)?, number().read(share)?)),
        _ => Err("a point is [value, share at or below it]".to_owned()),
    }
}
