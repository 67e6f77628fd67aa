//! DASH URL templates: `$Number%05d$` and similar (ISO/IEC 23009-1, 5.3.9.4.4).

use alloc::string::String;
use core::fmt::Write;

use crate::uri::PATH_BYTES_MAX;

/// Widest `%0Nd`; the widest 64-bit number has 20 digits.
const WIDTH_MAX: usize = 20;

/// Values of the identifiers of a template.
#[derive(Debug, Clone, Copy, Default)]
pub struct TemplateValues<'a> {
    /// `$RepresentationID$`.
    pub representation_id: &'a str,
    /// `$Bandwidth$`, bits per second.
    pub bandwidth: u64,
    /// `$Number$`; `None` where the template may not use it.
    pub number: Option<u64>,
    /// `$Time$`, ticks; `None` where the template may not use it.
    pub time: Option<u64>,
}

/// Why a template cannot be expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// An unknown identifier, or one without a value here.
    #[error("uses an identifier that has no value")]
    UnknownIdentifier,
    /// A `$` without its partner.
    #[error("has a `$` without its partner")]
    Unbalanced,
    /// A format other than `%0Nd` with N up to 20.
    #[error("has a number format other than %0Nd")]
    BadFormat,
    /// The result is longer than any path.
    #[error("expands to a URL longer than any path")]
    TooLong,
}

/// Replaces the identifiers of `template`; `$$` stands for one `$`.
pub fn expand(template: &str, values: &TemplateValues<'_>) -> Result<String, TemplateError> {
    let mut out = String::with_capacity(template.len().min(PATH_BYTES_MAX));
    let mut rest = template;
    while let Some((before, tail)) = rest.split_once('$') {
        let (identifier, after) = tail.split_once('$').ok_or(TemplateError::Unbalanced)?;
        out.push_str(before);
        substitute(&mut out, identifier, values)?;
        if out.len() > PATH_BYTES_MAX {
            return Err(TemplateError::TooLong);
        }
        rest = after;
    }
    out.push_str(rest);
    if out.len() > PATH_BYTES_MAX {
        return Err(TemplateError::TooLong);
    }
    Ok(out)
}

/// Whether two segments of a rendition would get different URLs from `template`.
pub(crate) fn tells_segments_apart(template: &str) -> bool {
    template.contains("$Number") || template.contains("$Time")
}

fn substitute(
    out: &mut String,
    identifier: &str,
    values: &TemplateValues<'_>,
) -> Result<(), TemplateError> {
    let (name, format) = match identifier.find('%') {
        Some(at) => identifier.split_at(at),
        None => (identifier, ""),
    };
    let number = match name {
        "" if format.is_empty() => {
            out.push('$');
            return Ok(());
        }
        "RepresentationID" if format.is_empty() => {
            out.push_str(values.representation_id);
            return Ok(());
        }
        "Bandwidth" => Some(values.bandwidth),
        "Number" => values.number,
        "Time" => values.time,
        _ => None,
    };
    let number = number.ok_or(TemplateError::UnknownIdentifier)?;
    let width = width(format)?;
    write!(out, "{number:0width$}").map_err(|_| TemplateError::TooLong)
}

/// The width of `%0Nd`, also written `%Nd`; 1 without a format.
fn width(format: &str) -> Result<usize, TemplateError> {
    if format.is_empty() {
        return Ok(1);
    }
    let digits = format
        .strip_prefix('%')
        .and_then(|format| format.strip_suffix(['d', 'u']))
        .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
        .ok_or(TemplateError::BadFormat)?;
    let width = if digits.is_empty() {
        Ok(1)
    } else {
        digits.parse()
    };
    width
        .ok()
        .filter(|width| *width <= WIDTH_MAX)
        .ok_or(TemplateError::BadFormat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    const VALUES: TemplateValues<'static> = TemplateValues {
        representation_id: "v1",
        bandwidth: 800_000,
        number: Some(7),
        time: Some(90_000),
    };

    #[test]
    fn identifiers_are_replaced_with_their_formats() {
        for (template, url) in [
            ("$RepresentationID$/$Number$.m4s", "v1/7.m4s"),
            ("seg-$Number%05d$.m4s", "seg-00007.m4s"),
            ("$Bandwidth$/t$Time$.m4s", "800000/t90000.m4s"),
            ("a$$b", "a$b"),
            ("plain.mp4", "plain.mp4"),
            ("$Time%09d$$Number$", "0000900007"),
        ] {
            assert_eq!(expand(template, &VALUES), Ok(url.to_string()), "{template}");
        }
    }

    #[test]
    fn invalid_template_is_rejected_with_reason() {
        let none = TemplateValues::default();
        for (template, values, error) in [
            ("$Numbr$", VALUES, TemplateError::UnknownIdentifier),
            ("$Number$", none, TemplateError::UnknownIdentifier),
            ("$Number", VALUES, TemplateError::Unbalanced),
            ("$Number%x$", VALUES, TemplateError::BadFormat),
            ("$Number%099d$", VALUES, TemplateError::BadFormat),
        ] {
            assert_eq!(expand(template, &values), Err(error), "{template}");
        }
        let long = "$Number$".repeat(5000);
        assert_eq!(expand(&long, &VALUES), Err(TemplateError::TooLong));
    }

    proptest! {
        #[test]
        fn no_template_panics_or_grows_unbounded(
            template in "(\\$|Number|Time|RepresentationID|%0|9|d|%|é|a|/){0,60}",
            number: u64,
            time: u64,
        ) {
            let values = TemplateValues { number: Some(number), time: Some(time), ..VALUES };
            if let Ok(url) = expand(&template, &values) {
                prop_assert!(url.len() <= PATH_BYTES_MAX);
            }
        }
    }
}
