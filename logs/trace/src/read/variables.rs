//! Patterns from server configurations: nginx's `log_format`, Apache's `LogFormat`.

use super::alias;
use super::known::{ALIASES, APACHE};
use super::row::Field;
use super::template::{Template, TemplateError, TemplateField, pieces};

/// Whether a name in a pattern is the session field: verbatim, or without the prefix of its origin
/// (`http_`, `cookie_`, `arg_`).
fn names_session(name: &str, session_field: Option<&str>) -> bool {
    let Some(wanted) = session_field else {
        return false;
    };
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let (name, wanted) = (plain(name), plain(wanted));
    let mut origins = ["http_", "cookie_", "arg_"].into_iter();
    name == wanted || origins.any(|origin| name.strip_prefix(origin) == Some(&wanted))
}

/// A pattern from nginx's `log_format`: the text with its variables, verbatim.
pub(crate) fn nginx(text: &str, session_field: Option<&str>) -> Result<Template, TemplateError> {
    let field = |name: &str| match names_session(name, session_field) {
        true => Some(Field::Session),
        false => alias::usual(name),
    };
    if is_name(text) {
        let known = ALIASES
            .iter()
            .filter_map(|(name, _)| name.strip_prefix("nginx:"));
        return Err(no_name("nginx", text, known));
    }
    let (pieces, after) = pieces(text, field)?;
    Template::new(pieces, after)
}

/// Whether a text is the name of a format, not a pattern.
fn is_name(text: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    !text.is_empty() && text.chars().all(is_word)
}

fn no_name<'n>(
    server: &'static str,
    name: &str,
    known: impl Iterator<Item = &'n str>,
) -> TemplateError {
    TemplateError::NoName {
        server,
        name: name.to_owned(),
        known: known.collect::<Vec<_>>().join(", "),
    }
}

/// A pattern from Apache's `LogFormat`, or one of the predefined ones by name.
pub(crate) fn apache(text: &str, session_field: Option<&str>) -> Result<Template, TemplateError> {
    let usual = APACHE.iter().find(|(name, _)| *name == text);
    if usual.is_none() && is_name(text) {
        return Err(no_name(
            "Apache",
            text,
            APACHE.iter().map(|(name, _)| *name),
        ));
    }
    // An escaped quote in a configuration file.
    let text = usual.map_or(text, |(_, text)| text).replace("\\\"", "\"");
    let (mut pieces, mut before, mut rest) = (Vec::new(), String::new(), text.as_str());
    while let Some((plain, behind)) = rest.split_once('%') {
        before.push_str(plain);
        if let Some(after) = behind.strip_prefix('%') {
            before.push('%');
            rest = after;
            continue;
        }
        let no_directive = || TemplateError::NoDirective(format!("%{behind}"));
        let (letter, argument, after) = directive(behind).ok_or_else(no_directive)?;
        let is_clock = letter == "t" && argument.is_empty();
        if is_clock {
            before.push('[');
        }
        let is_session = !argument.is_empty() && names_session(argument, session_field);
        pieces.push(TemplateField {
            before: std::mem::take(&mut before).into(),
            name: format!("%{}", &behind[..behind.len() - after.len()]),
            field: match is_session {
                true => Some(Field::Session),
                false => meaning(letter, &argument.to_ascii_lowercase()),
            },
        });
        if is_clock {
            before.push(']');
        }
        rest = after;
    }
    before.push_str(rest);
    Template::new(pieces, before.into())
}

/// Letter and argument of the directive after a percent sign, and the text after it.
fn directive(text: &str) -> Option<(&str, &str, &str)> {
    // `>`, `<`, `!` and a list of statuses restrict when it is written, and for which request.
    let is_modifier = |c: char| matches!(c, '<' | '>' | '!' | ',') || c.is_ascii_digit();
    let rest = text.trim_start_matches(is_modifier);
    let (argument, rest) = match rest.strip_prefix('{') {
        Some(inner) => inner.split_once('}')?,
        None => ("", rest),
    };
    let length = if rest.starts_with('^') { 3 } else { 1 };
    let letter = rest.get(..length)?;
    let is_letter = letter.ends_with(|c: char| c.is_ascii_alphabetic());
    is_letter.then(|| (letter, argument, &rest[length..]))
}

/// The field of a directive. Without an argument, `%t` is the time of arrival.
fn meaning(letter: &str, argument: &str) -> Option<Field> {
    Some(match (letter, argument) {
        ("h" | "a", _) => Field::Address,
        ("t", "end:sec" | "end:msec" | "end:usec") => Field::End,
        ("t", "" | "sec" | "msec" | "usec" | "begin:sec" | "begin:msec" | "begin:usec") => {
            Field::Start
        }
        ("r", _) => Field::RequestLine,
        ("s", _) => Field::Status,
        ("b" | "B", _) => Field::Bytes,
        ("O", _) => Field::BytesAll,
        ("D", _) | ("T", "us") => Field::ServiceUs,
        ("T", "ms") => Field::ServiceMs,
        ("T", "" | "s") => Field::ServiceS,
        ("U", _) => Field::Target,
        ("q", _) => Field::Query,
        ("m", _) => Field::Method,
        ("i", name) => alias::usual(&format!("http_{}", name.replace('-', "_")))?,
        ("o", name) => alias::usual(&format!("sent_http_{}", name.replace('-', "_")))?,
        ("C", name) => alias::usual(&format!("cookie_{name}"))?,
        _ => return None,
    })
}
