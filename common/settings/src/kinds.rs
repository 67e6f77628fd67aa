//! The kinds of settings: sizes, times, rates, numbers, names and texts.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use core::str::FromStr;

use headlong_units::{BitRate, ByteRate, Bytes, Duration, nearest};

use crate::kind::{Rejection, ValueKind};
use crate::value::{Value, quote};

/// True or false.
pub fn flag() -> ValueKind<bool> {
    let read = |value: &Value| match value {
        Value::Flag(flag) => Ok(*flag),
        _ => Err(Rejection::Unfit),
    };
    ValueKind::new("true or false", read, bool::to_string)
}

/// Any text.
pub fn text() -> ValueKind<String> {
    let read = |value: &Value| value.text().map(str::to_owned).ok_or(Rejection::Unfit);
    ValueKind::new("a text in quotes", read, |text: &String| quote(text))
}

/// A value parsed from a text, with the messages of its own error type.
pub fn parsed<V: FromStr<Err: Display> + Display + 'static>(form: &'static str) -> ValueKind<V> {
    let read = |value: &Value| {
        let text = value.text().ok_or(Rejection::Unfit)?;
        text.parse()
            .map_err(|error: V::Err| error.to_string().into())
    };
    ValueKind::new(form, read, |value: &V| quote(&value.to_string()))
}

/// As [`parsed`], for a value that requires a unit.
fn quantity<V: FromStr<Err: Display> + Display + 'static>(form: &'static str) -> ValueKind<V> {
    let mut kind = parsed(form);
    let read = kind.read;
    kind.read = alloc::boxed::Box::new(move |value| match has_no_unit(value) {
        true => Err(Rejection::NoUnit),
        false => read(value),
    });
    kind
}

/// Whether it is a number, with or without quotes.
fn has_no_unit(value: &Value) -> bool {
    match value {
        Value::Whole(number) => *number >= 0,
        Value::Number(_) => true,
        Value::Text(text) => text.trim().parse::<f64>().is_ok(),
        _ => false,
    }
}

/// A size in bytes.
pub fn size() -> ValueKind<u64> {
    quantity("a size such as \"2MiB\"").map(|bytes: Bytes| bytes.0, |bytes| Bytes(*bytes))
}

/// A duration.
pub fn time() -> ValueKind<Duration> {
    quantity("a time such as \"5s\"")
}

/// A duration, in seconds as a floating-point number.
pub fn seconds() -> ValueKind<f64> {
    let to = |time: Duration| time.0 as f64 / 1e9;
    // Rounded to microseconds; a finer resolution is not needed.
    let from = |seconds: &f64| Duration((*seconds * 1e6 + 0.5) as u64 * 1000);
    time().map(to, from)
}

/// Bits per second.
pub fn bit_rate() -> ValueKind<BitRate> {
    quantity("a bit rate such as \"2000kbps\"")
}

/// Bytes per second; above zero.
pub fn rate() -> ValueKind<f64> {
    let read = |value: &Value| {
        if has_no_unit(value) {
            return Err(Rejection::NoUnit);
        }
        let text = value.text().ok_or(Rejection::Unfit)?;
        let rate: Result<ByteRate, _> = text.trim().parse();
        match rate.map_err(|error| error.to_string())? {
            ByteRate(0) => Err(Rejection::Unfit),
            rate => Ok(rate.0 as f64),
        }
    };
    let show = |rate: &f64| quote(&format!("{}/s", Bytes(*rate as u64)));
    ValueKind::new("a rate such as \"25MiB/s\"", read, show)
}

/// A fraction from 0 to 1, written in per cent.
pub fn share() -> ValueKind<f64> {
    let read = |value: &Value| {
        let number = value.text().and_then(|text| text.trim().strip_suffix('%'));
        let number = number.and_then(|number| number.trim().parse::<f64>().ok());
        Ok(number.ok_or(Rejection::Unfit)? / 100.0)
    };
    let show = |share: &f64| quote(&format!("{}%", share * 100.0));
    ValueKind::new("a share such as \"0.3%\"", read, show).between(0.0, 1.0)
}

/// An integer of type `N`.
pub fn whole<N: TryFrom<i128> + Display + 'static>() -> ValueKind<N> {
    let read = |value: &Value| {
        let number = match value {
            Value::Whole(number) => Some(*number),
            // `10.0` is as valid as `10`.
            Value::Number(number) if number.abs() < 1e15 && *number as i64 as f64 == *number => {
                Some(*number as i128)
            }
            _ => None,
        };
        let number = number.and_then(|number| N::try_from(number).ok());
        number.ok_or(Rejection::Unfit)
    };
    ValueKind::new("a whole number such as 16", read, N::to_string)
}

/// A finite number.
pub fn number() -> ValueKind<f64> {
    let read = |value: &Value| match value {
        Value::Number(number) if number.is_finite() => Ok(*number),
        Value::Whole(number) => Ok(*number as f64),
        _ => Err(Rejection::Unfit),
    };
    ValueKind::new("a number such as 0.5", read, f64::to_string)
}

/// One of these names, each with its value.
pub fn choice<V: Copy + PartialEq + 'static>(names: &[(&'static str, V)]) -> ValueKind<V> {
    let names: Vec<(&'static str, V)> = names.to_vec();
    let quoted: Vec<String> = names.iter().map(|(name, _)| quote(name)).collect();
    let form = format!("one of {}", quoted.join(", "));
    let shown = names.clone();
    let read = move |value: &Value| {
        let text = value.text().ok_or(Rejection::Unfit)?;
        let found = names.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            let meant = nearest(text, all.iter().copied())
                .map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"));
            format!(
                "`{text}` is unknown{meant}; the names are {}",
                all.join(", ")
            )
            .into()
        })
    };
    ValueKind::new(form, read, move |value| {
        let name = shown.iter().find(|(_, one)| one == value);
        name.map_or_else(String::new, |(name, _)| quote(name))
    })
}

/// One of the values of a type whose values have names.
pub fn named<V: Copy + PartialEq + 'static>(
    all: &[V],
    name: fn(V) -> &'static str,
) -> ValueKind<V> {
    let names: Vec<(&'static str, V)> = all.iter().map(|value| (name(*value), *value)).collect();
    choice(&names)
}
