//! The query of a request target: key-value pairs, parsed on demand.
//!
//! It never selects a file of a root. It may contain CMCD (`CMCD=`) and a configured session key;
//! for titles of an origin it may be part of the name, see [`QueryKey`].

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use percent_encoding::percent_decode_str;

/// The decoded value of the first pair named `key`; `None` if it is missing or not UTF-8.
///
/// A `+` is kept: it means a space only in HTML forms, and occurs in session ids.
pub fn query_value(query: &str, key: &str) -> Option<String> {
    let (_, value) = pairs(query).find(|(name, _)| is_named(name, key))?;
    let value = percent_decode_str(value).decode_utf8().ok()?;
    Some(value.into_owned())
}

/// The query without the pairs named `key`; the remainder identifies the same content for every
/// player.
pub fn query_without<'a>(query: &'a str, key: &str) -> Cow<'a, str> {
    if !pairs(query).any(|(name, _)| is_named(name, key)) {
        return Cow::Borrowed(query);
    }
    let is_kept = |pair: &&str| !is_named(pair.split_once('=').map_or(*pair, |(n, _)| n), key);
    let kept: Vec<&str> = query.split('&').filter(is_kept).collect();
    Cow::Owned(kept.join("&"))
}

/// Which part of a query distinguishes titles of an origin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum QueryKey {
    /// Nothing.
    #[default]
    Ignored,
    /// All of it, as written.
    All,
    /// Arguments with these names, in this order.
    Names(Vec<String>),
}

/// Longest query that may be part of a name, in bytes.
const KEY_BYTES_MAX: usize = 1024;

impl QueryKey {
    /// The part of a query that identifies a title, without arguments for which `is_of_viewer`
    /// holds: tokens, sessions, CMCD. `None` if it is too long for a name.
    pub fn of(&self, query: &str, is_of_viewer: impl Fn(&str) -> bool) -> Option<String> {
        let named = |pair: &&str| {
            let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
            !is_of_viewer(name)
        };
        let kept: Vec<&str> = match self {
            Self::Ignored => Vec::new(),
            Self::All => {
                let all = query.split('&').filter(|pair| !pair.is_empty());
                all.filter(named).collect()
            }
            Self::Names(names) => {
                let of_name = |name: &String| {
                    let all = query.split('&').filter(|pair| !pair.is_empty());
                    let name = name.clone();
                    all.filter(move |pair| {
                        let written = pair.split_once('=').map_or(*pair, |(name, _)| name);
                        is_named(written, &name)
                    })
                };
                names.iter().flat_map(of_name).filter(named).collect()
            }
        };
        let key = kept.join("&");
        (key.len() <= KEY_BYTES_MAX).then_some(key)
    }
}

fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn is_named(encoded: &str, key: &str) -> bool {
    encoded == key || (encoded.contains('%') && percent_decode_str(encoded).eq(key.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_found_by_key_and_decoded_once() {
        let query = "a=1&CMCD=br%3D1%2Csid%3D%22x%252e%22&b&s%69d=y+z&CMCD=2";
        let value = query_value(query, "CMCD");
        assert_eq!(value.as_deref(), Some("br=1,sid=\"x%2e\""));
        assert_eq!(query_value(query, "b").as_deref(), Some(""));
        assert_eq!(query_value(query, "sid").as_deref(), Some("y+z"));
        assert_eq!(query_value(query, "cmcd"), None);
        assert_eq!(query_value("x=%ff", "x"), None);
        assert_eq!(query_value("x=50%", "x").as_deref(), Some("50%"));
    }

    #[test]
    fn query_key_selects_arguments_without_those_of_viewer() {
        let is_of_viewer = |name: &str| is_named(name, "token") || is_named(name, "CMCD");
        let query = "b=2&token=x&a=1&&CMCD=br&t%6fken=y&a=%31&c";
        let of = |rule: &QueryKey| rule.of(query, is_of_viewer);
        let names = |names: &[&str]| QueryKey::Names(names.iter().map(|&n| n.into()).collect());
        assert_eq!(of(&QueryKey::Ignored).as_deref(), Some(""));
        assert_eq!(of(&QueryKey::All).as_deref(), Some("b=2&a=1&a=%31&c"));
        assert_eq!(of(&names(&["a", "b"])).as_deref(), Some("a=1&a=%31&b=2"));
        assert_eq!(of(&names(&["token", "c"])).as_deref(), Some("c"));
        assert_eq!(of(&names(&["d"])).as_deref(), Some(""));
        let long = "x".repeat(KEY_BYTES_MAX + 1);
        assert_eq!(QueryKey::All.of(&long, is_of_viewer), None);
        assert_eq!(
            QueryKey::Ignored.of(&long, is_of_viewer).as_deref(),
            Some("")
        );
    }

    #[test]
    fn removing_key_leaves_rest_unchanged() {
        for (query, rest) in [
            ("CMCD=br%3D1", ""),
            ("a=1&CMCD=x&b=%20", "a=1&b=%20"),
            ("a=1&b=2", "a=1&b=2"),
            ("%43MCD=x&a", "a"),
            ("CMCD&CMCDx=1", "CMCDx=1"),
            ("", ""),
        ] {
            assert_eq!(query_without(query, "CMCD"), rest, "{query}");
        }
    }
}
