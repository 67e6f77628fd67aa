//! Identity of viewers, which joins requests into a viewing session.
//!
//! The preferred id is the one that the player assigned to its session; the next is one in a
//! configured field. Otherwise address and user agent are used, which joins all viewers of a
//! household with the same player.

use alloc::string::String;

use crate::cmcd::Cmcd;
use crate::fields::{combined, trim_ows};
use crate::query::query_value;

/// Longest name kept for logs, in bytes; the identity is computed from all of it.
const NAME_BYTES_MAX: usize = 128;

/// Sources of a session id for players that send none with CMCD, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionRule {
    /// Name of a header field.
    pub header: Option<String>,
    /// Name of a cookie.
    pub cookie: Option<String>,
    /// Key in the query.
    pub query: Option<String>,
}

/// A viewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer {
    /// The same for all requests of one viewer, on every machine and in every version: FNV-1a (64
    /// bits) over one byte with its source (the number of [`IdSource`]), then over the session id,
    /// or over the address, a zero byte and the user agent.
    pub id: u64,
    /// Source of the id.
    pub found_by: IdSource,
    /// Session id for display, cut after 128 bytes; `None` without one.
    pub name: Option<String>,
}

/// Source of a viewer's id. The numbers are part of the identity and must not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IdSource {
    /// `sid` of CMCD.
    Cmcd = 1,
    /// The configured header field.
    Header = 2,
    /// The configured cookie.
    Cookie = 3,
    /// The configured key of the query.
    Query = 4,
    /// Address and user agent.
    Address = 5,
}

impl SessionRule {
    /// The viewer of a request with these fields and this query, from an address with these octets.
    pub fn viewer<'a, F>(
        &self,
        cmcd: &Cmcd,
        fields: F,
        query: Option<&str>,
        address: &[u8],
    ) -> Viewer
    where
        F: IntoIterator<Item = (&'a str, &'a [u8])> + Clone,
    {
        let field = |name: &str| combined(fields.clone(), name);
        let by_header = || field(self.header.as_deref()?).map(|v| String::from(trim_ows(&v)));
        let by_cookie = || {
            let name = self.cookie.as_deref()?;
            cookie_value(&field("cookie")?, name).map(String::from)
        };
        let by_query = || query_value(query?, self.query.as_deref()?);
        let named = |found_by, name: Option<String>| {
            let name = name.filter(|name| !name.is_empty())?;
            Some(Viewer::named(found_by, name))
        };
        named(IdSource::Cmcd, cmcd.session_id.clone())
            .or_else(|| named(IdSource::Header, by_header()))
            .or_else(|| named(IdSource::Cookie, by_cookie()))
            .or_else(|| named(IdSource::Query, by_query()))
            .unwrap_or_else(|| {
                let user_agent = field("user-agent").unwrap_or_default();
                Viewer::at(address, &user_agent)
            })
    }
}

impl Viewer {
    fn named(found_by: IdSource, mut name: String) -> Self {
        let id = Fnv::new().with(&[found_by as u8]).with(name.as_bytes());
        name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
        Self {
            id: id.finish(),
            found_by,
            name: Some(name),
        }
    }

    fn at(address: &[u8], user_agent: &str) -> Self {
        let found_by = IdSource::Address;
        let id = Fnv::new()
            .with(&[found_by as u8])
            .with(unmapped(address))
            .with(&[0])
            .with(user_agent.as_bytes());
        Self {
            id: id.finish(),
            found_by,
            name: None,
        }
    }
}

/// Converts an IPv4-mapped address (`::ffff:a.b.c.d`) to its four octets.
fn unmapped(address: &[u8]) -> &[u8] {
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    match address.strip_prefix(&MAPPED) {
        Some(octets) if octets.len() == 4 => octets,
        _ => address,
    }
}

/// Value of a cookie in a `cookie` field (RFC 6265 5.4), without surrounding quotes.
pub fn cookie_value<'a>(cookies: &'a str, name: &str) -> Option<&'a str> {
    // Several lines of the field were joined with commas, which cookie values cannot contain.
    let pairs = cookies.split([';', ',']).filter_map(|p| p.split_once('='));
    let mut values = pairs.filter(|(key, _)| trim_ows(key) == name);
    let value = trim_ows(values.next()?.1);
    let inner = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    Some(inner.unwrap_or(value))
}

// A small, stable hash for ids of viewers.

/// FNV-1a, 64 bits (draft-eastlake-fnv): the same on every machine and in every version.
///
/// It is not keyed, so a client can construct collisions. A collision only makes two viewers share
/// a chain, which they could also achieve by sending the same session id.
#[derive(Clone, Copy)]
pub(crate) struct Fnv(u64);

impl Fnv {
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn with(self, bytes: &[u8]) -> Self {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Self(bytes.iter().fold(self.0, step))
    }

    pub(crate) const fn finish(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    const FIELDS: [(&str, &[u8]); 3] = [
        ("X-Session", b" from-header "),
        ("Cookie", b"a=1; play=from-cookie; b=2"),
        ("User-Agent", b"player/1"),
    ];

    fn rule(header: bool, cookie: bool, query: bool) -> SessionRule {
        SessionRule {
            header: header.then(|| "x-session".to_string()),
            cookie: cookie.then(|| "play".to_string()),
            query: query.then(|| "s".to_string()),
        }
    }

    fn found(rule: &SessionRule, cmcd: &Cmcd) -> (IdSource, Option<String>) {
        let viewer = rule.viewer(cmcd, FIELDS, Some("s=from%2Dquery"), &[127, 0, 0, 1]);
        (viewer.found_by, viewer.name)
    }

    #[test]
    fn best_available_source_is_used() {
        let said = Cmcd {
            session_id: Some("from-player".to_string()),
            ..Cmcd::default()
        };
        let silent = Cmcd::default();
        let name = |text: &str| Some(text.to_string());
        for (rule, cmcd, expected) in [
            (
                rule(true, true, true),
                &said,
                (IdSource::Cmcd, name("from-player")),
            ),
            (
                rule(true, true, true),
                &silent,
                (IdSource::Header, name("from-header")),
            ),
            (
                rule(false, true, true),
                &silent,
                (IdSource::Cookie, name("from-cookie")),
            ),
            (
                rule(false, false, true),
                &silent,
                (IdSource::Query, name("from-query")),
            ),
            (
                rule(false, false, false),
                &silent,
                (IdSource::Address, None),
            ),
        ] {
            assert_eq!(found(&rule, cmcd), expected);
        }
    }

    #[test]
    fn address_and_user_agent_identify_viewer_in_both_families() {
        let rule = SessionRule::default();
        let id = |agent: &'static [u8], address: &[u8]| {
            let fields = [("user-agent", agent)];
            rule.viewer(&Cmcd::default(), fields, None, address).id
        };
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
        assert_eq!(id(b"a", &[10, 0, 0, 1]), id(b"a", &mapped));
        assert_ne!(id(b"a", &[10, 0, 0, 1]), id(b"b", &[10, 0, 0, 1]));
        assert_ne!(id(b"a", &[10, 0, 0, 1]), id(b"a", &[10, 0, 0, 2]));
    }

    #[test]
    fn identity_is_documented_hash() {
        let viewer = Viewer::named(IdSource::Cmcd, "foobar".to_string());
        let by_hand = b"\x01foobar"
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        assert_eq!(viewer.id, by_hand);
    }

    #[test]
    fn long_name_is_cut_for_log_but_not_for_identity() {
        let long = "é".repeat(100);
        let viewer = Viewer::named(IdSource::Header, long.clone());
        assert_eq!(viewer.name.map(|n| n.len()), Some(128));
        assert_ne!(viewer.id, Viewer::named(IdSource::Header, long + "x").id);
    }

    #[test]
    fn cookie_is_found_by_whole_name() {
        let cookies = "xplay=0; play=\"a b\" ;play=second, other=1";
        assert_eq!(cookie_value(cookies, "play"), Some("a b"));
        assert_eq!(cookie_value(cookies, "other"), Some("1"));
        assert_eq!(cookie_value(cookies, "pla"), None);
        assert_eq!(cookie_value("play", "play"), None);
        assert_eq!(cookie_value("play=", "play"), Some(""));
        assert_eq!(cookie_value("play=\"", "play"), Some("\""));
    }

    #[test]
    fn matches_published_vectors() {
        assert_eq!(Fnv::new().finish(), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Fnv::new().with(b"a").finish(), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Fnv::new().with(b"foobar").finish(), 0x8594_4171_f739_67e8);
    }
}
