//! Requests whose reply depends on target and range only.
//!
//! Frequent requests come from players that send the same few fields. If all other fields of a
//! request are known to have no effect on the reply, its target and range identify the reply, so
//! that its head can be cached. Any field that is not in this list disables caching.

use crate::fields::is_host;

/// Fields without effect on the reply to a GET of a file, in lower case. Some are logged, or
/// identify viewers; `accept-encoding` has no effect only where files are never compressed,
/// `referer` and `cookie` only where no rule checks them.
const WITHOUT_EFFECT: [&str; 16] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "cookie",
    "dnt",
    "icy-metadata",
    "pragma",
    "priority",
    "referer",
    "save-data",
    "upgrade-insecure-requests",
    "user-agent",
    "x-playback-session-id",
    "x-requested-with",
];

/// Prefixes of the fields in which browsers describe the requesting page.
const OF_BROWSERS: [&str; 2] = ["sec-fetch-", "sec-ch-"];

/// Fields of a request that target and range identify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheableFields<'a> {
    /// Value of its `range` field; empty without one.
    pub range: &'a [u8],
}

impl<'a> CacheableFields<'a> {
    /// Reads the fields of a GET; `None` if a field other than `range` may matter, or is invalid.
    /// With `needs_host` (HTTP/1.1) exactly one `host` is required, otherwise (HTTP/2) none is
    /// allowed.
    pub fn read<F>(fields: F, needs_host: bool) -> Option<Self>
    where
        F: IntoIterator<Item = (&'a str, &'a [u8])>,
    {
        let (mut range, mut hosts) = (None, 0);
        for (name, value) in fields {
            if name.eq_ignore_ascii_case("host") {
                if !is_host(value) {
                    return None;
                }
                hosts += 1;
            } else if name.eq_ignore_ascii_case("range") {
                if value.is_empty() || range.replace(value).is_some() {
                    return None;
                }
            } else if name.eq_ignore_ascii_case("connection") {
                if !value.eq_ignore_ascii_case(b"keep-alive") {
                    return None;
                }
            } else if !is_without_effect(name) {
                return None;
            }
        }
        let range = range.unwrap_or_default();
        (hosts == usize::from(needs_host)).then_some(Self { range })
    }
}

fn is_without_effect(name: &str) -> bool {
    let is_of_browsers = |start: &&str| {
        let begins = name.as_bytes().get(..start.len());
        begins.is_some_and(|begins| begins.eq_ignore_ascii_case(start.as_bytes()))
    };
    let mut known = WITHOUT_EFFECT.iter();
    known.any(|known| name.eq_ignore_ascii_case(known)) || OF_BROWSERS.iter().any(is_of_browsers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: (&str, &[u8]) = ("Host", b"h");

    fn range_of<'a>(fields: &[(&'a str, &'a [u8])]) -> Option<&'a [u8]> {
        let all = [HOST].into_iter().chain(fields.iter().copied());
        CacheableFields::read(all, true).map(|plain| plain.range)
    }

    #[test]
    fn accepts_fields_of_players() {
        let none: &[u8] = b"";
        assert_eq!(range_of(&[]), Some(none));
        let fields: [(&str, &[u8]); 5] = [
            ("User-Agent", b"player/1"),
            ("ACCEPT", b"*/*"),
            ("Sec-Fetch-Mode", b"cors"),
            ("Connection", b"Keep-Alive"),
            ("range", b"bytes=0-9"),
        ];
        assert_eq!(range_of(&fields), Some(&b"bytes=0-9"[..]));
    }

    #[test]
    fn refuses_fields_that_may_change_reply() {
        let others: [(&str, &[u8]); 12] = [
            ("If-Range", b"\"a\""),
            ("If-None-Match", b"*"),
            ("Origin", b"https://a.example"),
            ("Connection", b"close"),
            ("Content-Length", b"0"),
            ("Transfer-Encoding", b"chunked"),
            ("Expect", b"100-continue"),
            ("Authorization", b"Bearer x"),
            ("CMCD-Request", b"bl=1"),
            ("X-Forwarded-For", b"192.0.2.1"),
            ("Sec-Something", b"1"),
            ("X-Unheard-Of", b"1"),
        ];
        for field in others {
            assert_eq!(range_of(&[field]), None, "{}", field.0);
        }
    }

    #[test]
    fn refuses_ambiguous_host_or_range() {
        assert_eq!(range_of(&[HOST]), None);
        assert_eq!(CacheableFields::read([("host", &b"a b"[..])], true), None);
        assert_eq!(CacheableFields::read([], true), None);
        assert_eq!(
            CacheableFields::read([HOST], false),
            None,
            "HTTP/2 uses :authority"
        );
        assert!(CacheableFields::read([], false).is_some());
        assert_eq!(range_of(&[("range", b"a"), ("Range", b"b")]), None);
    }
}
