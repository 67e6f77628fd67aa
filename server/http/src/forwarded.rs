//! The client of a request that passed through proxies: `X-Forwarded-For`, and `Forwarded` (RFC
//! 7239).
//!
//! Each proxy appends the address that it received the request from, so the list is read from the
//! right. An entry is trusted only if its writer is: the first was written by the peer of the
//! connection, the next by the address in the first, and so on. Anything left of the first
//! untrusted address may be forged.
//!
//! Invariant: an untrusted peer cannot impersonate another client.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::fields::{combined, trim_ows};
use crate::peer::Peer;

headlong_units::names! {
    /// The field in which trusted proxies name their clients. Only one is supported at a time: a
    /// proxy that writes one of them passes on the other as the client sent it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub enum ForwardedField {
        /// `X-Forwarded-For`: a list of addresses.
        #[default]
        XForwardedFor => "x-forwarded-for",
        /// `Forwarded` (RFC 7239): key-value pairs, of which `for` is used.
        Forwarded => "forwarded",
    }
}

impl ForwardedField {
    /// The client of a request from `peer` with these fields: the rightmost untrusted address, or
    /// else the leftmost known one. Its port is 0 if unknown.
    pub fn client<'a, F>(self, peer: Peer, fields: F, is_trusted: impl Fn(IpAddr) -> bool) -> Peer
    where
        F: IntoIterator<Item = (&'a str, &'a [u8])>,
    {
        let mut client = peer;
        if !peer.is_trusted(&is_trusted) {
            return client;
        }
        let Some(list) = combined(fields, self.name()) else {
            return client;
        };
        let mut left = Some(&*list);
        while let Some(list) = left {
            let (before, entry) = self.last_entry(list);
            // An entry that is not an address ends the search: its client is unknown.
            let Some(named) = self.named(entry) else {
                break;
            };
            client = Peer::At(named);
            if !is_trusted(named.ip()) {
                break;
            }
            left = before;
        }
        client
    }

    fn last_entry(self, list: &str) -> (Option<&str>, &str) {
        match self {
            Self::XForwardedFor => match list.rsplit_once(',') {
                Some((before, entry)) => (Some(before), entry),
                None => (None, list),
            },
            Self::Forwarded => last_unquoted(list, b','),
        }
    }

    fn named(self, entry: &str) -> Option<SocketAddr> {
        match self {
            Self::XForwardedFor => node(trim_ows(entry)),
            Self::Forwarded => {
                let value = trim_ows(only_for(entry)?);
                let inner = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
                node(inner.unwrap_or(value))
            }
        }
    }
}

/// The value of `for` in an element; `None` if there are two, which is ambiguous.
fn only_for(element: &str) -> Option<&str> {
    let (mut left, mut found) = (Some(element), None);
    while let Some(pairs) = left {
        let (before, pair) = last_unquoted(pairs, b';');
        left = before;
        let Some((key, value)) = pair.split_once('=') else {
            continue;
        };
        if trim_ows(key).eq_ignore_ascii_case("for") && found.replace(value).is_some() {
            return None;
        }
    }
    found
}

/// The text after the last separator outside of quotes, and the text before it.
///
/// Parsed from the right, because a client controls the left: an open quote of the client would
/// include entries of a proxy.
fn last_unquoted(text: &str, separator: u8) -> (Option<&str>, &str) {
    let bytes = text.as_bytes();
    let mut is_quoted = false;
    for (at, byte) in bytes.iter().enumerate().rev() {
        if *byte == b'"' {
            let escapes = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\');
            is_quoted ^= escapes.count().is_multiple_of(2);
        } else if *byte == separator && !is_quoted {
            return (Some(&text[..at]), &text[at + 1..]);
        }
    }
    (None, text)
}

/// An address with or without a port; an IPv6 address may be in brackets.
fn node(text: &str) -> Option<SocketAddr> {
    let address = text.parse::<SocketAddr>().ok();
    let address = address.or_else(|| {
        let bracketed = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
        let ip = match bracketed {
            Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::from),
            None => text.parse::<IpAddr>().ok(),
        };
        Some(SocketAddr::new(ip?, 0))
    })?;
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use super::*;
    use proptest::prelude::*;

    fn is_trusted(ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => ip.octets()[0] == 10,
            IpAddr::V6(ip) => ip.segments()[0] == 0xfd00,
        }
    }

    fn client(field: ForwardedField, peer: &str, lines: &[&str]) -> String {
        let fields = lines.iter().map(|line| (field.name(), line.as_bytes()));
        let peer = match peer {
            "unix:" => Peer::Local,
            address => Peer::At(address.parse().expect("an address")),
        };
        field.client(peer, fields, is_trusted).to_string()
    }

    #[test]
    fn rightmost_untrusted_address_is_client() {
        for (peer, lines, expected) in [
            ("10.0.0.1:9", &["192.0.2.7"][..], "192.0.2.7"),
            ("10.0.0.1:9", &["198.51.100.1, 192.0.2.7"], "192.0.2.7"),
            ("10.0.0.1:9", &["192.0.2.7, 10.0.0.2"], "192.0.2.7"),
            ("10.0.0.1:9", &["192.0.2.7", "10.0.0.2"], "192.0.2.7"),
            ("10.0.0.1:9", &["10.0.0.3,10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1:9", &["192.0.2.7:4711"], "192.0.2.7:4711"),
            ("10.0.0.1:9", &["2001:db8::1"], "2001:db8::1"),
            ("10.0.0.1:9", &["[2001:db8::1]:80"], "[2001:db8::1]:80"),
            ("10.0.0.1:9", &["::ffff:192.0.2.7"], "192.0.2.7"),
            ("[::ffff:10.0.0.1]:9", &["192.0.2.7"], "192.0.2.7"),
            ("[fd00::1]:9", &["192.0.2.7"], "192.0.2.7"),
            ("10.0.0.1:9", &[], "10.0.0.1:9"),
            ("unix:", &["192.0.2.7, 10.0.0.2"], "192.0.2.7"),
            ("unix:", &[], "unix:"),
        ] {
            let found = client(ForwardedField::XForwardedFor, peer, lines);
            assert_eq!(found, expected, "{peer} {lines:?}");
        }
    }

    #[test]
    fn field_of_untrusted_peer_is_ignored() {
        for lines in [&["192.0.2.7"][..], &["10.0.0.1"], &["192.0.2.7, 10.0.0.1"]] {
            let found = client(ForwardedField::XForwardedFor, "203.0.113.5:9", lines);
            assert_eq!(found, "203.0.113.5:9");
        }
    }

    #[test]
    fn invalid_address_ends_search() {
        for line in [
            "",
            ",",
            "unknown",
            "_hidden",
            "192.0.2",
            "192.0.2.7.1",
            "[192.0.2.7]",
            "[::1",
            "::1]",
            "192.0.2.7:99999",
            "192.0.2.7 1",
            "\u{fffd}",
            "for=192.0.2.7",
        ] {
            let found = client(ForwardedField::XForwardedFor, "10.0.0.1:9", &[line]);
            assert_eq!(found, "10.0.0.1:9", "{line}");
        }
        let halfway = client(
            ForwardedField::XForwardedFor,
            "10.0.0.1:9",
            &["192.0.2.7, unknown, 10.0.0.2"],
        );
        assert_eq!(halfway, "10.0.0.2");
    }

    #[test]
    fn parses_elements_of_forwarded() {
        for (line, expected) in [
            ("for=192.0.2.7", "192.0.2.7"),
            (
                "For=\"192.0.2.7:4711\";proto=https;by=10.0.0.9",
                "192.0.2.7:4711",
            ),
            ("proto=http; for = \"[2001:db8::1]\"", "2001:db8::1"),
            ("for=\"[2001:db8::1]:80\"", "[2001:db8::1]:80"),
            ("for=198.51.100.1, for=192.0.2.7, for=10.0.0.2", "192.0.2.7"),
            ("for=unknown", "10.0.0.1:9"),
            ("for=_gazonk", "10.0.0.1:9"),
            ("by=192.0.2.7", "10.0.0.1:9"),
            ("192.0.2.7", "10.0.0.1:9"),
            ("for=\"", "10.0.0.1:9"),
            ("for=192.0.2.7;for=198.51.100.1", "10.0.0.1:9"),
        ] {
            let found = client(ForwardedField::Forwarded, "10.0.0.1:9", &[line]);
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn quoted_separators_do_not_add_entries() {
        for line in [
            r#"for=203.0.113.5;host="x,for=1.2.3.4;a=b""#,
            r#"proto=http;host="x,for=1.2.3.4;a=b";for=203.0.113.5"#,
            r#"for=203.0.113.5;host="x\",for=1.2.3.4;a=b""#,
            r#"for=203.0.113.5;host="x\\""#,
            r#"for=1.2.3.4;host=", for=203.0.113.5;host="x""#,
            r#"for="203.0.113.5";host="x;for=1.2.3.4""#,
        ] {
            let found = client(ForwardedField::Forwarded, "10.0.0.1:9", &[line]);
            assert_eq!(found, "203.0.113.5", "{line}");
        }
    }

    #[test]
    fn other_field_is_ignored() {
        let fields: [(&str, &[u8]); 1] = [("forwarded", b"for=192.0.2.7")];
        let peer = Peer::At("10.0.0.1:9".parse().expect("an address"));
        let found = ForwardedField::XForwardedFor.client(peer, fields, is_trusted);
        assert_eq!(found, peer);
    }

    proptest! {
        #[test]
        fn client_cannot_forge_entries(
            written in prop::collection::vec(any::<u8>(), 0..60),
            host in "(x|=|;|,|\"|\\\\|for=1\\.2\\.3\\.4){0,9}",
            is_host_first in any::<bool>(),
            field in prop::sample::select(ForwardedField::ALL),
        ) {
            let host = host.replace('\\', r"\\").replace('"', r#"\""#);
            let added = match (field, is_host_first) {
                (ForwardedField::XForwardedFor, _) => ", 192.0.2.7, 10.0.0.2".to_string(),
                (ForwardedField::Forwarded, false) => {
                    format!(", for=192.0.2.7;host=\"{host}\", for=10.0.0.2;host=\"{host}\"")
                }
                (ForwardedField::Forwarded, true) => {
                    format!(", host=\"{host}\";for=192.0.2.7, host=\"{host}\";for=10.0.0.2")
                }
            };
            let line: Vec<u8> = [&written[..], added.as_bytes()].concat();
            let peer = Peer::At("10.0.0.1:9".parse().expect("an address"));
            let fields = [(field.name(), &line[..])];
            let found = field.client(peer, fields, is_trusted);
            prop_assert_eq!(found.to_string(), "192.0.2.7");
            // From an untrusted peer the whole field is ignored.
            let peer = Peer::At("203.0.113.5:9".parse().expect("an address"));
            prop_assert_eq!(field.client(peer, fields, is_trusted), peer);
        }

        #[test]
        fn any_field_gives_valid_peer(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let peer = Peer::At("10.0.0.1:9".parse().expect("an address"));
            for field in ForwardedField::ALL {
                let found = field.client(peer, [(field.name(), &line[..])], |_| true);
                let is_canonical = match found {
                    Peer::At(address) => address.ip().to_canonical() == address.ip(),
                    Peer::Local => false,
                };
                prop_assert!(found == peer || is_canonical);
            }
        }
    }
}
