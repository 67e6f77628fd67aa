//! A value as it was written, and how a text is written in TOML.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt::Write as _;

use toml::de::{DeTable, DeValue};

/// A written value, independent of its syntax.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text in quotes, or a word of the command line.
    Text(String),
    /// An integer.
    Whole(i128),
    /// A number with a decimal point.
    Number(f64),
    /// `true` or `false`.
    Flag(bool),
    /// A list.
    List(Vec<Value>),
    /// A value that no setting accepts; the name of its kind.
    Other(&'static str),
}

impl Value {
    /// A value from the command line: TOML, or otherwise a text without quotes.
    pub fn of_word(word: &str) -> Self {
        let line = format!("value = {word}");
        let (document, errors) = DeTable::parse_recoverable(&line);
        let table = document.get_ref();
        match table.iter().next() {
            Some((_, value)) if errors.is_empty() && table.len() == 1 => {
                match Self::of(value.get_ref()) {
                    Self::Other(_) => Self::Text(word.to_owned()),
                    value => value,
                }
            }
            _ => Self::Text(word.to_owned()),
        }
    }

    pub(crate) fn of(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Integer(number) => {
                let whole = i128::from_str_radix(number.as_str(), number.radix());
                whole.map_or(Self::Other("a number with too many digits"), Self::Whole)
            }
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => Self::Number(number),
                Err(_) => Self::Other("a number that cannot be read"),
            },
            DeValue::Boolean(flag) => Self::Flag(*flag),
            DeValue::Array(items) => {
                Self::List(items.iter().map(|item| Self::of(item.get_ref())).collect())
            }
            DeValue::Datetime(_) => Self::Other("a date"),
            DeValue::Table(_) => Self::Other("a table"),
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The items, if it is a list.
    pub fn items(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// Its form in an error message.
    pub fn quoted(&self) -> String {
        match self {
            Self::Text(text) => format!("`{text}`"),
            Self::List(_) => "a list".to_owned(),
            Self::Other(kind) => (*kind).to_owned(),
            plain => format!("`{}`", plain.to_word()),
        }
    }

    /// Its form on a command line: a text without quotes.
    pub fn to_word(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            other => other.to_toml(),
        }
    }

    /// Its form in TOML; a value that no setting accepts becomes a text.
    pub fn to_toml(&self) -> String {
        match self {
            Self::Text(text) => quote(text),
            Self::Whole(number) => number.to_string(),
            Self::Number(number) => format!("{number:?}"),
            Self::Flag(flag) => flag.to_string(),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::to_toml).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Other(kind) => quote(kind),
        }
    }
}

/// A text in TOML quotes.
pub fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// One part of a key, quoted if necessary.
pub fn key_part(name: &str) -> String {
    let is_bare = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    match !name.is_empty() && name.bytes().all(is_bare) {
        true => name.to_owned(),
        false => quote(name),
    }
}
