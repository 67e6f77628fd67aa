//! The kinds of value a key may have: how each is read, shown and described.
//!
//! The one idea: a type that implements [`Setting`] can be the value of a key, and reading,
//! printing and the manual's description are in one place for each type. What `show` prints,
//! `read` reads back to the same value.

use std::net::SocketAddr;
use std::path::PathBuf;

use headlong_engine::{Admission, Control, Order, Policy, Retention};
use headlong_units::{BitRate, Bytes, Duration};

use super::{AccessFormat, Admin, Io, LogLevel, LogSink, Prefetch, ServerTiming};
use headlong_units::nearest;

/// What was typed, freed from the syntax it came in.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Whole(i64),
    Flag(bool),
    List(Vec<Value>),
    /// Of a kind that no key has; the name of the kind.
    Other(&'static str),
}

impl Value {
    /// The value as an error message quotes it.
    fn quoted(&self) -> String {
        match self {
            Self::Text(text) => format!("`{text}`"),
            Self::Whole(number) => format!("`{number}`"),
            Self::Flag(flag) => format!("`{flag}`"),
            Self::List(_) => "a list".to_string(),
            Self::Other(kind) => (*kind).to_string(),
        }
    }

    fn unfit<T>(&self, form: &str) -> Result<T, String> {
        Err(format!("{} does not fit; write {form}", self.quoted()))
    }
}

/// A type that can be the value of a key.
pub(super) trait Setting: Sized {
    /// What to write, for the manual and for errors.
    fn form() -> String;
    /// From what was typed; the error says what is wrong and what to write.
    fn read(value: &Value) -> Result<Self, String>;
    /// As it would be written in the file; empty if nothing is set.
    fn show(&self) -> String;
}

/// A text in TOML's quotes.
fn quote(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

impl Setting for bool {
    fn form() -> String {
        "true or false".into()
    }
    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Flag(flag) => Ok(*flag),
            _ => value.unfit(&Self::form()),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for u32 {
    fn form() -> String {
        "a whole number such as 16".into()
    }
    fn read(value: &Value) -> Result<Self, String> {
        let number = match value {
            Value::Whole(number) => Self::try_from(*number).ok(),
            _ => None,
        };
        number.map_or_else(|| value.unfit(&Self::form()), Ok)
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

/// Types that `headlong_units` knows how to read: they all parse from a text.
macro_rules! quantities {
    ($($type:ty => $form:literal),+) => {$(
        impl Setting for $type {
            fn form() -> String {
                $form.into()
            }
            fn read(value: &Value) -> Result<Self, String> {
                match value {
                    Value::Text(text) => text.parse().map_err(|e| format!("{e}")),
                    // Without quotes, but otherwise a person's honest attempt: say what is missing.
                    _ => value.unfit(&Self::form()),
                }
            }
            fn show(&self) -> String {
                quote(&self.to_string())
            }
        }
    )+};
}

quantities!(
    Bytes => "a size such as \"2MiB\"",
    Duration => "a time such as \"5s\"",
    BitRate => "a bit rate such as \"2000kbps\""
);

/// Types with a fixed list of names.
macro_rules! named {
    ($($type:ty),+) => {$(
        impl Setting for $type {
            fn form() -> String {
                let names: Vec<_> = Self::ALL.iter().map(|value| quote(value.name())).collect();
                format!("one of {}", names.join(", "))
            }
            fn read(value: &Value) -> Result<Self, String> {
                let Value::Text(text) = value else {
                    return value.unfit(&Self::form());
                };
                Self::from_name(text).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|value| value.name()).collect();
                    let hint = nearest(text, names.iter().copied())
                        .map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"));
                    format!("`{text}` is unknown{hint}; the names are {}", names.join(", "))
                })
            }
            fn show(&self) -> String {
                quote(self.name())
            }
        }
    )+};
}

named!(
    Policy,
    Order,
    Retention,
    Admission,
    Io,
    AccessFormat,
    LogLevel,
    ServerTiming
);

impl Setting for String {
    fn form() -> String {
        "a text in quotes".into()
    }
    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) => Ok(text.clone()),
            _ => value.unfit(&Self::form()),
        }
    }
    fn show(&self) -> String {
        quote(self)
    }
}

impl Setting for PathBuf {
    fn form() -> String {
        "a path in quotes".into()
    }
    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) if text.is_empty() => {
                Err("the path is empty; name a file or folder".into())
            }
            Value::Text(text) if text.contains('\0') => {
                Err("the path holds a NUL character; name a file or folder".into())
            }
            Value::Text(text) => Ok(text.into()),
            _ => value.unfit(&Self::form()),
        }
    }
    fn show(&self) -> String {
        quote(&self.to_string_lossy())
    }
}

impl Setting for SocketAddr {
    fn form() -> String {
        "an address and port such as \"127.0.0.1:8080\" or \"[::]:8080\"".into()
    }
    fn read(value: &Value) -> Result<Self, String> {
        let Value::Text(text) = value else {
            return value.unfit(&Self::form());
        };
        let unfit = |_| {
            format!(
                "`{text}` is not an address and port; write it like 127.0.0.1:8080 or [::]:8080"
            )
        };
        text.parse().map_err(unfit)
    }
    fn show(&self) -> String {
        quote(&self.to_string())
    }
}

impl Setting for Admin {
    fn form() -> String {
        format!("{}, or \"off\"", SocketAddr::form())
    }
    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) if text == "off" => Ok(Self::Off),
            _ => SocketAddr::read(value).map(Self::Address),
        }
    }
    fn show(&self) -> String {
        match self {
            Self::Off => quote("off"),
            Self::Address(address) => address.show(),
        }
    }
}

impl Setting for Prefetch {
    fn form() -> String {
        format!("{}, \"auto\" or \"auto-paper\"", Bytes::form())
    }
    fn read(value: &Value) -> Result<Self, String> {
        let Value::Text(text) = value else {
            return value.unfit(&Self::form());
        };
        match Control::from_name(text) {
            Some(mode) if mode != Control::Off => Ok(Self::Found(mode)),
            _ => Bytes::read(value)
                .map(Self::Size)
                .map_err(|why| format!("{why}; or write \"auto\" or \"auto-paper\"")),
        }
    }
    fn show(&self) -> String {
        match self {
            Self::Size(bytes) => bytes.show(),
            Self::Found(mode) => quote(mode.name()),
        }
    }
}

impl Setting for LogSink {
    fn form() -> String {
        "a path in quotes, \"stdout\" or \"off\"".into()
    }
    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) if text == "off" => Ok(Self::Off),
            Value::Text(text) if text == "stdout" => Ok(Self::Stdout),
            Value::Text(_) => PathBuf::read(value).map(Self::File),
            _ => value.unfit(&Self::form()),
        }
    }
    fn show(&self) -> String {
        match self {
            Self::Off => quote("off"),
            Self::Stdout => quote("stdout"),
            Self::File(path) => path.show(),
        }
    }
}

impl<T: Setting> Setting for Option<T> {
    fn form() -> String {
        T::form()
    }
    fn read(value: &Value) -> Result<Self, String> {
        T::read(value).map(Some)
    }
    fn show(&self) -> String {
        self.as_ref().map_or_else(String::new, T::show)
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn form() -> String {
        format!("a list, each {}", T::form())
    }
    fn read(value: &Value) -> Result<Self, String> {
        let Value::List(values) = value else {
            return value.unfit(&format!("{}, in square brackets", Self::form()));
        };
        let mut items = Vec::new();
        let mut wrong = Vec::new();
        for value in values {
            match T::read(value) {
                Ok(item) => items.push(item),
                Err(text) => wrong.push(text),
            }
        }
        if wrong.is_empty() {
            Ok(items)
        } else {
            Err(wrong.join("; also: "))
        }
    }
    fn show(&self) -> String {
        let items: Vec<_> = self.iter().map(T::show).collect();
        format!("[{}]", items.join(", "))
    }
}
