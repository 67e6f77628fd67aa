//! The words `key=value` of a `#headlong` line.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use core::str::FromStr;

use headlong_units::nearest;

use super::line::{self, LineWord};

pub(super) type LineValues<'a> = BTreeMap<&'a str, LineWord>;

pub(super) fn pairs<'a>(
    words: &'a [LineWord],
    keys: &[&str],
) -> Result<LineValues<'a>, line::LineFlaw> {
    let mut values = LineValues::new();
    for word in words {
        let pair = word.pair().filter(|(key, _)| keys.contains(key));
        let Some((key, value)) = pair else {
            let key = word.text.split('=').next().unwrap_or_default();
            let meant = nearest(key, keys.iter().copied())
                .map_or(String::new(), |meant| format!("; did you mean {meant}=?"));
            return Err((
                word.column,
                format!("`{}` is unknown here{meant}", word.text),
            ));
        };
        values.insert(key, value);
    }
    Ok(values)
}

pub(super) fn value<T>(
    values: &LineValues<'_>,
    key: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, line::LineFlaw> {
    let Some(word) = values.get(key) else {
        return Ok(None);
    };
    read(&word.text)
        .map(Some)
        .map_err(|reason| (word.column, reason))
}

pub(super) fn parsed<T: FromStr<Err = headlong_units::ParseError>>(
    text: &str,
) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}
