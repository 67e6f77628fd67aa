//! Header fields of requests (names and raw values) and of replies.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// Fields of a reply, in order, with lower-case names as HTTP/2 requires.
pub type FieldList = Vec<(&'static str, Cow<'static, str>)>;

/// Value of the field `name`; lines of the same name are joined with commas (RFC 9110 5.3).
///
/// A field that may occur once (`range`, a date) thereby becomes invalid if it occurs twice, as
/// intended, since it is ambiguous. Bytes that are not UTF-8 become replacement characters, which
/// match nothing that this server has sent.
pub fn combined<'a, F>(fields: F, name: &str) -> Option<Cow<'a, str>>
where
    F: IntoIterator<Item = (&'a str, &'a [u8])>,
{
    let mut lines = fields
        .into_iter()
        .filter(|(candidate, _)| candidate.eq_ignore_ascii_case(name))
        .map(|(_, value)| String::from_utf8_lossy(value));
    let mut value = lines.next()?;
    for line in lines {
        let joined = value.to_mut();
        joined.push_str(", ");
        joined.push_str(&line);
    }
    Some(value)
}

/// Whether a `host` field is valid (RFC 9110 7.2): a name or an address with an optional port. An
/// empty one is valid.
pub fn is_host(value: &[u8]) -> bool {
    let (name, port) = match value.iter().rposition(|byte| *byte == b':') {
        Some(at) if !value.ends_with(b"]") => (&value[..at], &value[at + 1..]),
        _ => (value, &[][..]),
    };
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(byte);
    let inner = name.strip_prefix(b"[").and_then(|n| n.strip_suffix(b"]"));
    let is_name = match inner {
        Some([]) => false,
        Some(inner) => inner.iter().all(|byte| *byte == b':' || is_of_name(byte)),
        None => name.iter().all(is_of_name),
    };
    is_name && port.iter().all(u8::is_ascii_digit)
}

/// The name of a valid `host` field: without its port, and without the dot that ends an absolute
/// name.
pub fn host_name(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, _)) if !host.ends_with(']') => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

/// Strips the optional whitespace of RFC 9110 5.6.3: spaces and tabs, nothing else.
pub(crate) fn trim_ows(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Whether `text` is a token (RFC 9110 5.6.2), like field names and methods.
pub(crate) fn is_token(text: &str) -> bool {
    let is_tchar = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(is_tchar)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [(&str, &[u8]); 4] = [
        ("Range", b"bytes=0-1"),
        ("if-none-match", b"\"a\""),
        ("If-None-Match", b"\"b\""),
        ("x", b"\xff"),
    ];

    #[test]
    fn lines_of_one_name_are_joined() {
        assert_eq!(combined(FIELDS, "range").as_deref(), Some("bytes=0-1"));
        assert_eq!(
            combined(FIELDS, "If-None-Match").as_deref(),
            Some("\"a\", \"b\"")
        );
        assert_eq!(combined(FIELDS, "absent"), None);
    }

    #[test]
    fn bytes_outside_utf8_become_replacement_characters() {
        assert_eq!(combined(FIELDS, "X").as_deref(), Some("\u{fffd}"));
    }

    #[test]
    fn host_name_has_no_port_and_no_final_dot() {
        for (host, name) in [
            ("tv.example", "tv.example"),
            ("tv.example.", "tv.example"),
            ("tv.example.:8080", "tv.example"),
            ("192.0.2.7:80", "192.0.2.7"),
            ("[::1]", "[::1]"),
            ("[::1]:80", "[::1]"),
            (":80", ""),
            ("", ""),
        ] {
            assert_eq!(host_name(host), name);
        }
    }

    #[test]
    fn host_is_name_or_address_with_optional_port() {
        for right in [
            "",
            "h",
            "tv.example",
            "tv_1.example:8080",
            "192.0.2.7:80",
            "[2001:db8::1]",
            "[::1]:80",
            "h:",
            "%C3%A9.example",
        ] {
            assert!(is_host(right.as_bytes()), "{right}");
        }
        for wrong in [
            "a b", "a/b", "a,b:80x", "u@h", "::1", "h:x", "[::1", "[]", "\"h\"", "\u{e9}",
        ] {
            assert!(!is_host(wrong.as_bytes()), "{wrong}");
        }
    }
}
