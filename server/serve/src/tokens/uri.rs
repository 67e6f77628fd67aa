//! The URI that is asked for, and containers of URIs (`cdniuc`).
//!
//! A URI has one spelling here: the path by which the file is looked up, encoded anew, and the
//! query without the token. Whether it is `http` or `https` is not known behind a proxy that ends
//! TLS, so both are tried.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use regex::bytes::RegexBuilder;
use ring::digest::{SHA256, digest};

/// The longest expression over a URI, in bytes.
const EXPRESSION_BYTES_MAX: usize = 1024;
/// The most memory of one, in bytes: the time that it takes is that, times the length of a URI.
const EXPRESSION_MEMORY_MAX: usize = 64 * 1024;

/// What a path holds as it is (RFC 3986 3.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'/');

/// A URI with either scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Uri([String; 2]);

impl Uri {
    /// Of the host that was asked, a decoded path from its first slash on, and a query without its
    /// token.
    pub(crate) fn new(host: &str, path: &str, query: &str) -> Self {
        let host = host.to_ascii_lowercase();
        let path = utf8_percent_encode(path, ENCODED).to_string();
        let query = match query {
            "" => String::new(),
            query => format!("?{query}"),
        };
        let of = |scheme: &str, port: &str| {
            let host = host.strip_suffix(port).unwrap_or(&host);
            format!("{scheme}://{host}{path}{query}")
        };
        Self([of("https", ":443"), of("http", ":80")])
    }
}

/// Whether a container holds the URI. One that is not understood holds none.
pub(super) fn holds(container: &str, uri: &Uri) -> bool {
    match container.split_once(':') {
        Some(("regex", expression)) => matches(expression, uri),
        Some(("hash", hash)) => {
            let wanted = hash.strip_prefix("sha-256;");
            let of = |uri: &String| URL_SAFE_NO_PAD.encode(digest(&SHA256, uri.as_bytes()));
            wanted.is_some_and(|wanted| uri.0.iter().any(|uri| of(uri) == wanted))
        }
        _ => false,
    }
}

/// The whole URI must match.
fn matches(expression: &str, uri: &Uri) -> bool {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return false;
    }
    let expression = RegexBuilder::new(&format!(r"\A(?:{expression})\z"))
        .unicode(false)
        .size_limit(EXPRESSION_MEMORY_MAX)
        .build();
    expression.is_ok_and(|expression| uri.0.iter().any(|uri| expression.is_match(uri.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_has_one_spelling_whatever_was_written() {
        let uri = Uri::new("TV.example:443", "/a b/é%.ts", "x=%20");
        let path = "/a%20b/%C3%A9%25.ts?x=%20";
        assert_eq!(uri.0[0], format!("https://tv.example{path}"));
        assert_eq!(uri.0[1], format!("http://tv.example:443{path}"));
    }

    #[test]
    fn an_expression_is_over_the_whole_uri_and_bounded() {
        let uri = Uri::new("tv.example", "/films/a/segment001.mp4", "");
        let is_held = |container: &str| holds(container, &uri);
        assert!(is_held(
            r"regex:[^:]*\://[^/]*/films/a/segment.{3}\.mp4(\?.*)?"
        ));
        assert!(!is_held("regex:/films/a/.*"));
        assert!(!is_held("regex:https://tv.example/films/a/"));
        assert!(!is_held(&format!("regex:{}", ".*".repeat(600))));
        assert!(!is_held("regex:((.{99}){99}){99}|.*"));
        assert!(!is_held("regex:("));
        assert!(!is_held(".*"));
        assert!(!is_held("glob:*"));
    }

    #[test]
    fn a_hash_is_of_one_uri() {
        let of = |uri: &[u8]| URL_SAFE_NO_PAD.encode(digest(&SHA256, uri));
        let container = format!("hash:sha-256;{}", of(b"https://tv.example/a.mp4"));
        assert!(holds(&container, &Uri::new("tv.example", "/a.mp4", "")));
        assert!(!holds(&container, &Uri::new("tv.example", "/b.mp4", "")));
        assert!(!holds(&container, &Uri::new("tv.example", "/a.mp4", "x=1")));
        assert!(!holds("hash:md5;x", &Uri::new("tv.example", "/a.mp4", "")));
    }
}
