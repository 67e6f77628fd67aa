//! The requested URI, and URI containers (`cdniuc`).
//!
//! A URI is normalised: the path by which the file is looked up, encoded again, and the query
//! without the token. Behind a proxy that terminates TLS the scheme is unknown, so both `http` and
//! `https` are tried.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use headlong_units::path_bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use regex::bytes::RegexBuilder;
use ring::digest::{SHA256, digest};

/// Longest expression over a URI, in bytes.
const EXPRESSION_BYTES_MAX: usize = 1024;
/// Most memory of a compiled expression, in bytes; matching time is proportional to it and to the
/// length of the URI.
const EXPRESSION_MEMORY_MAX: usize = 64 * 1024;

/// Characters that a path contains unencoded (RFC 3986 3.3).
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
pub struct Uri([String; 2]);

impl Uri {
    /// From the requested host, the text of a path with its leading slash, and a query without its
    /// token.
    pub fn new(host: &str, path: &str, query: &str) -> Self {
        let host = host.to_ascii_lowercase();
        let path = percent_encode(&path_bytes(path), ENCODED).to_string();
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

/// Whether a container includes the URI. An unknown kind of container includes none.
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

/// The expression must match the whole URI.
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
    fn uri_is_normalised() {
        let uri = Uri::new("TV.example:443", "/a b/é%.ts", "x=%20");
        let path = "/a%20b/%C3%A9%25.ts?x=%20";
        assert_eq!(uri.0[0], format!("https://tv.example{path}"));
        assert_eq!(uri.0[1], format!("http://tv.example:443{path}"));
    }

    #[test]
    fn expression_matches_whole_uri_and_is_bounded() {
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
    fn hash_matches_one_uri() {
        let of = |uri: &[u8]| URL_SAFE_NO_PAD.encode(digest(&SHA256, uri));
        let container = format!("hash:sha-256;{}", of(b"https://tv.example/a.mp4"));
        assert!(holds(&container, &Uri::new("tv.example", "/a.mp4", "")));
        assert!(!holds(&container, &Uri::new("tv.example", "/b.mp4", "")));
        assert!(!holds(&container, &Uri::new("tv.example", "/a.mp4", "x=1")));
        assert!(!holds("hash:md5;x", &Uri::new("tv.example", "/a.mp4", "")));
    }
}
