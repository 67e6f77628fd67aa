//! The query of a request target: pairs of keys and values, read on demand.
//!
//! It never chooses a file. What is looked for in it is what the player says (`CMCD=`) and a
//! configured session key.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use percent_encoding::percent_decode_str;

/// The decoded value of the first pair named `key`; `None` if there is none or it is not UTF-8.
///
/// A `+` stays one: it is a space only in what HTML forms send, and occurs in session ids.
pub fn query_value(query: &str, key: &str) -> Option<String> {
    let (_, value) = pairs(query).find(|(name, _)| is_named(name, key))?;
    let value = percent_decode_str(value).decode_utf8().ok()?;
    Some(value.into_owned())
}

/// The query without the pairs named `key`: what is left names the same thing for every player.
pub fn query_without<'a>(query: &'a str, key: &str) -> Cow<'a, str> {
    if !pairs(query).any(|(name, _)| is_named(name, key)) {
        return Cow::Borrowed(query);
    }
    let is_kept = |pair: &&str| !is_named(pair.split_once('=').map_or(*pair, |(n, _)| n), key);
    let kept: Vec<&str> = query.split('&').filter(is_kept).collect();
    Cow::Owned(kept.join("&"))
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
    fn a_value_is_found_by_its_key_and_decoded_once() {
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
    fn stripping_a_key_leaves_the_rest_as_it_was() {
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
