//! Requests whose reply follows from target and range alone.
//!
//! The one idea: what is asked for again and again is asked for by players that send the same few
//! fields. A request that has none but those that never change a reply here is told by its target
//! and its range, so a reply to it can be kept at hand. The list is of what is known to be without
//! effect: a field that is not on it, whatever it may be, is read as always.

use crate::fields::is_host;

/// Fields without effect on what a GET of a file is answered with, in lower case. Some of them are in
/// the log, or tell viewers apart; `accept-encoding` is without effect only where a file is never
/// compressed, `referer` and `cookie` only where no rule asks for them.
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

/// What browsers tell of the page that asks.
const OF_BROWSERS: [&str; 2] = ["sec-fetch-", "sec-ch-"];

/// A request that is told by its target and this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainFields<'a> {
    /// The value of its `range`; empty if it has none.
    pub range: &'a [u8],
}

impl<'a> PlainFields<'a> {
    /// The fields of a GET; `None` if anything but target and range may matter, or if they are wrong.
    /// Over HTTP/1.1 one of them must name a host, over HTTP/2 none need.
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
        PlainFields::read(all, true).map(|plain| plain.range)
    }

    #[test]
    fn what_players_send_is_told_by_its_range() {
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
    fn what_may_change_a_reply_is_not_plain() {
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
    fn two_hosts_or_ranges_or_none_are_for_others_to_judge() {
        assert_eq!(range_of(&[HOST]), None);
        assert_eq!(PlainFields::read([("host", &b"a b"[..])], true), None);
        assert_eq!(PlainFields::read([], true), None);
        assert_eq!(
            PlainFields::read([HOST], false),
            None,
            "it has another name there"
        );
        assert!(PlainFields::read([], false).is_some());
        assert_eq!(range_of(&[("range", b"a"), ("Range", b"b")]), None);
    }
}
