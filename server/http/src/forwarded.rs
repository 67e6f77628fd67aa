//! Who sent a request that came through proxies: `X-Forwarded-For`, and `Forwarded` (RFC 7239).
//!
//! The one idea: each proxy adds on the right whom it got the request from, so the list is read
//! from the right, and an entry is believed only if who wrote it is trusted: the first entry is the
//! word of the other end of the connection, the next the word of whom the first names, and so on.
//! What lies left of the first address that is not trusted anybody may have written.
//!
//! Invariant: who is not trusted cannot make itself pass for another.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::fields::{combined, trim_ows};
use crate::peer::Peer;

headlong_units::names! {
    /// In which field trusted proxies say whom they speak for. It is one only: a proxy that writes one
    /// of them hands on the other as the client sent it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub enum ForwardedField {
        /// `X-Forwarded-For`: addresses.
        #[default]
        XForwardedFor => "x-forwarded-for",
        /// `Forwarded` (RFC 7239): pairs, of which `for` counts.
        Forwarded => "forwarded",
    }
}

impl ForwardedField {
    /// The client of a request that came from `peer` with these fields: the rightmost address that
    /// is not trusted, or the last that is known. Its port is 0 if nobody says which.
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
            // What is no address ends the way back: who it stands for is unknown.
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

/// The value of `for` in an element; none if there are two, as nobody knows which one counts.
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

/// What is behind the last separator, and what is before it. One in a quoted string is none.
///
/// Read from the right, because on the left is what a client wrote: a quote that it left open would
/// take in what a proxy added.
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

/// An address with or without a port; one of IPv6 may stand in brackets.
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
    fn the_rightmost_address_that_is_not_trusted_is_the_client() {
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
    fn who_is_not_trusted_is_not_believed() {
        for lines in [&["192.0.2.7"][..], &["10.0.0.1"], &["192.0.2.7, 10.0.0.1"]] {
            let found = client(ForwardedField::XForwardedFor, "203.0.113.5:9", lines);
            assert_eq!(found, "203.0.113.5:9");
        }
    }

    #[test]
    fn what_is_no_address_says_nothing() {
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
    fn forwarded_has_its_own_form() {
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
    fn what_a_proxy_quotes_of_a_request_is_no_entry_of_its_own() {
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
    fn the_field_that_was_not_chosen_says_nothing() {
        let fields: [(&str, &[u8]); 1] = [("forwarded", b"for=192.0.2.7")];
        let peer = Peer::At("10.0.0.1:9".parse().expect("an address"));
        let found = ForwardedField::XForwardedFor.client(peer, fields, is_trusted);
        assert_eq!(found, peer);
    }

    proptest! {
        #[test]
        fn what_a_client_writes_changes_nothing(
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
            // From elsewhere the whole of it says nothing.
            let peer = Peer::At("203.0.113.5:9".parse().expect("an address"));
            prop_assert_eq!(field.client(peer, fields, is_trusted), peer);
        }

        #[test]
        fn any_field_has_an_answer(line in prop::collection::vec(any::<u8>(), 0..200)) {
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
