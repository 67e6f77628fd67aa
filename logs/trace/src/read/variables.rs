//! Patterns as servers are configured with them: nginx's `log_format`, Apache's `LogFormat`.

use super::alias;
use super::row::Field;
use super::template::{Piece, Rest, Template, TemplateError};

/// nginx's `combined`.
pub(crate) const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" \
                                   $status $body_bytes_sent \"$http_referer\" \
                                   \"$http_user_agent\"";

/// What a variable of nginx means.
fn nginx_variable(name: &str, session_field: Option<&str>) -> Option<Field> {
    if session_field == Some(name) {
        return Some(Field::Session);
    }
    Some(match name {
        "remote_addr" | "realip_remote_addr" => Field::Address,
        "time_local" | "time_iso8601" => Field::End,
        "msec" => Field::EndS,
        "request" => Field::RequestLine,
        "request_uri" | "uri" | "document_uri" => Field::Target,
        "args" | "query_string" => Field::Query,
        "request_method" => Field::Method,
        "status" => Field::Status,
        "body_bytes_sent" => Field::Bytes,
        "bytes_sent" => Field::BytesAll,
        "request_time" => Field::ServiceS,
        "http_range" => Field::Range,
        "sent_http_content_range" | "upstream_http_content_range" => Field::ContentRange,
        "sent_http_content_length" => Field::ContentLength,
        "http_user_agent" => Field::Agent,
        "http_x_playback_session_id"
        | "arg_sid"
        | "arg_session"
        | "arg_session_id"
        | "cookie_session"
        | "cookie_sid"
        | "cookie_session_id" => Field::Session,
        "http_cmcd_session" => Field::Cmcd,
        _ => return None,
    })
}

/// The pattern of `combined`, with whatever fields somebody added behind it.
pub(crate) fn combined() -> Template {
    nginx(COMBINED, Rest::Fields, None).expect("combined is a pattern")
}

/// A pattern from nginx's `log_format`: the text with its variables, verbatim.
pub(crate) fn nginx(
    text: &str,
    rest: Rest,
    session_field: Option<&str>,
) -> Result<Template, TemplateError> {
    let (mut pieces, mut names, mut before) = (Vec::new(), Vec::new(), Vec::new());
    let mut bytes = text.as_bytes();
    while let [first, tail @ ..] = bytes {
        if *first != b'$' {
            before.push(*first);
            bytes = tail;
            continue;
        }
        let (name, after) = match tail {
            [b'{', inner @ ..] => {
                let end = memchr::memchr(b'}', inner);
                let end = end.ok_or_else(|| TemplateError::NoDirective(lossy(bytes)))?;
                (&inner[..end], &inner[end + 1..])
            }
            _ => {
                let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let end = tail.iter().position(|byte| !is_name(byte));
                tail.split_at(end.unwrap_or(tail.len()))
            }
        };
        if name.is_empty() {
            return Err(TemplateError::NoDirective(lossy(bytes)));
        }
        let name = lossy(name);
        pieces.push(Piece {
            before: std::mem::take(&mut before),
            field: nginx_variable(&name, session_field),
        });
        names.push(format!("${name}"));
        bytes = after;
    }
    Template::new(pieces, before, rest, &names)
}

/// A pattern from Apache's `LogFormat`. `common`, `combined` and `combinedio` are its usual ones.
pub(crate) fn apache(text: &str, session_field: Option<&str>) -> Result<Template, TemplateError> {
    let text = match text {
        "common" => "%h %l %u %t \"%r\" %>s %b",
        "combined" => "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"",
        "combinedio" => "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\" %I %O",
        other => other,
    };
    let (mut pieces, mut names, mut before) = (Vec::new(), Vec::new(), Vec::new());
    let mut bytes = text.as_bytes();
    while let [first, tail @ ..] = bytes {
        match (first, tail) {
            (b'%', [b'%', after @ ..]) => {
                before.push(b'%');
                bytes = after;
                continue;
            }
            // A quote within the quotes of a configuration file.
            (b'\\', [b'"', after @ ..]) => {
                before.push(b'"');
                bytes = after;
                continue;
            }
            (b'%', _) => {}
            _ => {
                before.push(*first);
                bytes = tail;
                continue;
            }
        }
        let (directive, after) =
            apache_directive(tail).ok_or_else(|| TemplateError::NoDirective(lossy(bytes)))?;
        let is_clock = directive
            == Directive {
                letter: "t",
                argument: None,
            };
        if is_clock {
            before.push(b'[');
        }
        let written = lossy(&bytes[..bytes.len() - after.len()]);
        pieces.push(Piece {
            before: std::mem::take(&mut before),
            field: directive.field(session_field),
        });
        if is_clock {
            before.push(b']');
        }
        names.push(written);
        bytes = after;
    }
    Template::new(pieces, before, Rest::Nothing, &names)
}

/// `%{argument}letter`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Directive<'a> {
    letter: &'a str,
    argument: Option<&'a str>,
}

/// The directive behind a percent sign, and what follows it.
fn apache_directive(text: &[u8]) -> Option<(Directive<'_>, &[u8])> {
    // `>`, `<`, `!` and a list of statuses say when and of which request it is written.
    let is_modifier =
        |byte: &u8| matches!(byte, b'<' | b'>' | b'!' | b',') || byte.is_ascii_digit();
    let start = text.iter().position(|byte| !is_modifier(byte))?;
    let rest = &text[start..];
    let (argument, rest) = match rest {
        [b'{', inner @ ..] => {
            let end = memchr::memchr(b'}', inner)?;
            (Some(str::from_utf8(&inner[..end]).ok()?), &inner[end + 1..])
        }
        _ => (None, rest),
    };
    let length = if rest.starts_with(b"^") { 3 } else { 1 };
    let letter = str::from_utf8(rest.get(..length)?).ok()?;
    letter
        .ends_with(|c: char| c.is_ascii_alphabetic())
        .then_some((Directive { letter, argument }, &rest[length..]))
}

impl Directive<'_> {
    /// What it means. Without an argument, `%t` is when the request was received.
    fn field(&self, session_field: Option<&str>) -> Option<Field> {
        let argument = self.argument.unwrap_or_default();
        if !argument.is_empty() && session_field == Some(argument) {
            return Some(Field::Session);
        }
        let lower = argument.to_ascii_lowercase();
        Some(match (self.letter, lower.as_str()) {
            ("h" | "a", _) => Field::Address,
            ("t", "") => Field::Start,
            ("t", "end:sec" | "end:msec" | "end:usec") => Field::End,
            ("t", "sec" | "msec" | "usec" | "begin:sec" | "begin:msec" | "begin:usec") => {
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
            ("i", "range") => Field::Range,
            ("i", "user-agent") => Field::Agent,
            ("i", "cmcd-session") => Field::Cmcd,
            ("i", name) => match alias::usual(&format!("http_{}", name.replace('-', "_")))? {
                Field::Session => Field::Session,
                _ => return None,
            },
            ("o", "content-range") => Field::ContentRange,
            ("o", "content-length") => Field::ContentLength,
            ("C", "session" | "sid" | "session_id") => Field::Session,
            _ => return None,
        })
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
