//! Kinds derived from others: with bounds, with an additional word, optional, and lists.

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::kind::{Rejection, ValueKind};
use crate::value::{Value, quote};

impl<V: PartialOrd + Copy + 'static> ValueKind<V> {
    /// No less than `min` and no more than `max`.
    #[must_use]
    pub fn between(self, min: V, max: V) -> Self {
        self.bounded(Some(min), Some(max))
    }

    /// No less than `min`.
    #[must_use]
    pub fn at_least(self, min: V) -> Self {
        self.bounded(Some(min), None)
    }

    /// No more than `max`.
    #[must_use]
    pub fn at_most(self, max: V) -> Self {
        self.bounded(None, Some(max))
    }

    fn bounded(mut self, min: Option<V>, max: Option<V>) -> Self {
        let shown = |bound: V| (self.show)(&bound).trim_matches('"').to_owned();
        let (least, most) = (min.map(shown), max.map(shown));
        self.range = match (&least, &most) {
            (Some(least), Some(most)) => format!("from {least} to {most}"),
            (Some(least), None) => format!("at least {least}"),
            (None, Some(most)) => format!("at most {most}"),
            (None, None) => String::new(),
        };
        let range = self.range.clone();
        self.check(move |value, written| {
            let is_below = min.is_some_and(|min| *value < min);
            let is_above = max.is_some_and(|max| *value > max);
            match is_below || is_above {
                true => Err(format!(
                    "{} is out of range; write {range}",
                    written.quoted()
                )),
                false => Ok(()),
            }
        })
    }
}

impl<V: 'static> ValueKind<V> {
    /// Accepts only values that pass `judge`, which receives the value and the written form.
    #[must_use]
    pub fn check(mut self, judge: impl Fn(&V, &Value) -> Result<(), String> + 'static) -> Self {
        let read = self.read;
        self.read = Box::new(move |value| {
            let read = read(value)?;
            judge(&read, value)?;
            Ok(read)
        });
        self
    }

    /// The same values in another type, such as a newtype.
    pub fn map<W: 'static>(self, to: fn(V) -> W, from: fn(&W) -> V) -> ValueKind<W> {
        let (read, show) = (self.read, self.show);
        ValueKind {
            form: self.form,
            range: self.range,
            read: Box::new(move |value| read(value).map(to)),
            show: Box::new(move |value| show(&from(value))),
        }
    }

    /// Makes the value optional.
    pub fn optional(self) -> ValueKind<Option<V>> {
        let (read, show) = (self.read, self.show);
        ValueKind {
            form: self.form,
            range: self.range,
            read: Box::new(move |value| read(value).map(Some)),
            show: Box::new(move |value| value.as_ref().map_or_else(String::new, &show)),
        }
    }

    /// A list of such values.
    pub fn list(self) -> ValueKind<Vec<V>> {
        let form = format!("a list, each {}, in square brackets", self.whole_form());
        let range = String::new();
        let item = alloc::rc::Rc::new(self);
        let shown = alloc::rc::Rc::clone(&item);
        ValueKind {
            form,
            range,
            read: Box::new(move |value| {
                let items = value.items().ok_or(Rejection::Unfit)?;
                let (mut good, mut wrong) = (Vec::new(), Vec::new());
                for value in items {
                    match item.read(value) {
                        Ok(item) => good.push(item),
                        Err(text) => wrong.push(text),
                    }
                }
                match wrong.is_empty() {
                    true => Ok(good),
                    false => Err(wrong.join("; also: ").into()),
                }
            }),
            show: Box::new(move |items| {
                let items: Vec<String> = items.iter().map(|item| shown.show(item)).collect();
                format!("[{}]", items.join(", "))
            }),
        }
    }
}

impl<V: PartialEq + Clone + 'static> ValueKind<V> {
    /// Also accepts a word, with the value that it stands for.
    #[must_use]
    pub fn or_word(self, word: &'static str, means: V) -> Self {
        let (read, show) = (self.read, self.show);
        let meaning = means.clone();
        Self {
            form: format!("{}, or {}", self.form, quote(word)),
            range: self.range,
            read: Box::new(move |value| match value.text() {
                Some(text) if text == word => Ok(means.clone()),
                _ => read(value).map_err(|wrong| match wrong {
                    Rejection::Told(text) => {
                        // One word after another: `or write "a" or "b"`.
                        let or = if text.contains("; or write ") {
                            " or"
                        } else {
                            "; or write"
                        };
                        Rejection::Told(format!("{text}{or} {}", quote(word)))
                    }
                    wrong => wrong,
                }),
            }),
            show: Box::new(move |value| match *value == meaning {
                true => quote(word),
                false => show(value),
            }),
        }
    }
}
