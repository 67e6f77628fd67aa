//! Identity of the viewer: a session id, or the address of the client behind its proxies.

use std::borrow::Cow;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;

use super::alias;
use super::reason::DropReason;
use super::row::{Field, LineFields, unescape};

/// Identity of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientIdentity<'a> {
    /// The session id in the log.
    Session(Cow<'a, [u8]>),
    /// The client's address.
    Address(&'a [u8]),
}

/// The proxies whose lists of addresses are believed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrustedProxies {
    /// `None`: private and loopback ranges, and the sender of a request with such a list.
    networks: Option<Vec<IpNet>>,
}

impl FromStr for TrustedProxies {
    type Err = String;

    /// Addresses and networks, separated by commas: `192.0.2.1,2001:db8::/32`.
    fn from_str(text: &str) -> Result<Self, String> {
        let network = |text: &str| {
            let address = text.parse::<IpAddr>().map(IpNet::from);
            address.or_else(|_| text.parse()).map_err(|_| {
                format!("`{text}` is not an address or network, such as 192.0.2.1 or 10.0.0.0/8")
            })
        };
        let networks = text.split(',').map(|one| network(one.trim()));
        Ok(Self {
            networks: Some(networks.collect::<Result<_, _>>()?),
        })
    }
}

impl TrustedProxies {
    /// Whether an address is that of a proxy.
    fn contain(&self, address: &[u8]) -> bool {
        let Some(address) = parsed(address) else {
            return false;
        };
        match &self.networks {
            Some(networks) => networks.iter().any(|network| network.contains(&address)),
            None => is_internal(address),
        }
    }

    /// The client of a request from `peer` with this list of addresses: the last one that is not
    /// that of a proxy, otherwise the first.
    fn client<'a>(&self, peer: Option<&'a [u8]>, list: &'a [u8]) -> Option<&'a [u8]> {
        let known = peer.map(without_port);
        let is_default = self.networks.is_none();
        if let Some(peer) = known.filter(|peer| !is_default && !self.contain(peer)) {
            return Some(peer);
        }
        let mut first = None;
        for address in list.rsplit(|byte| *byte == b',').filter_map(listed) {
            let is_peer = is_default && known == Some(address);
            if !is_peer && !self.contain(address) {
                return Some(address);
            }
            first = Some(address);
        }
        first.or(known)
    }
}

/// Whether an address is not routed on the Internet: private, loopback, link-local or shared (RFC
/// 6598).
fn is_internal(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let is_shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            v4.is_private() || v4.is_loopback() || v4.is_link_local() || is_shared
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

fn parsed(address: &[u8]) -> Option<IpAddr> {
    str::from_utf8(address).ok()?.parse().ok()
}

/// Whether a text is an address, without a port.
fn is_address(text: &[u8]) -> bool {
    parsed(text).is_some()
}

/// Whether a text is a list of addresses without ports, as proxies pass it on.
pub(crate) fn is_address_list(text: &[u8]) -> bool {
    // Most texts are something else: a quick check before parsing.
    text.first()
        .is_some_and(|byte| byte.is_ascii_hexdigit() || *byte == b':')
        && text
            .split(|byte| *byte == b',')
            .all(|one| is_address(one.trim_ascii()))
}

/// An element of `X-Forwarded-For`, or of `Forwarded` (RFC 7239), without port; `None` if it names
/// no address.
fn listed(element: &[u8]) -> Option<&[u8]> {
    let mut element = element;
    // CloudFront and IIS escape the space after a comma.
    while let Some(rest) = element
        .strip_prefix(b"%20")
        .or(element.strip_prefix(b"+"))
        .or(element.strip_prefix(b" "))
    {
        element = rest;
    }
    if let Some(at) = memchr::memmem::find(element, b"for=") {
        let rest = &element[at + 4..];
        element = &rest[..memchr::memchr(b';', rest).unwrap_or(rest.len())];
    }
    let is_quote = |byte: &u8| matches!(byte, b'"' | b'\\' | b' ');
    let start = element.iter().position(|byte| !is_quote(byte))?;
    let end = element.iter().rposition(|byte| !is_quote(byte))? + 1;
    let address = without_port(&element[start..end]);
    (!matches!(address, b"" | b"-" | b"unknown")).then_some(address)
}

/// Rules for identifying viewers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ViewerRules {
    /// The session field given by the user: a key of the query or a cookie, if no field of the line
    /// has that name.
    session_key: Option<Arc<[u8]>>,
    /// Whether that field is a list of addresses.
    is_forwarded: bool,
    proxies: Arc<TrustedProxies>,
}

impl ViewerRules {
    /// Rules with the session field given by the user.
    pub(crate) fn new(session_field: Option<&str>) -> Self {
        Self {
            session_key: session_field.map(session_key),
            is_forwarded: session_field.and_then(alias::usual) == Some(Field::Forwarded),
            proxies: Arc::default(),
        }
    }

    /// The same with these proxies.
    pub(crate) fn trusting(self, proxies: &Arc<TrustedProxies>) -> Self {
        Self {
            proxies: Arc::clone(proxies),
            ..self
        }
    }

    /// Whether the session field given by the user is a list of addresses.
    pub(crate) const fn is_forwarded(&self) -> bool {
        self.is_forwarded
    }

    /// The viewer of a request for `target`.
    pub(crate) fn who<'a>(
        &self,
        row: &LineFields<'a>,
        target: Option<&'a [u8]>,
    ) -> Result<ClientIdentity<'a>, DropReason> {
        let query = row.known(Field::Query).or_else(|| {
            let target = target?;
            memchr::memchr(b'?', target).map(|mark| &target[mark + 1..])
        });
        // The separators of its keys may be escaped: Go programs write `\u0026` for `&`.
        let query = query.map(|query| unescape(query, row.escape));
        if let Some(key) = self.session_key.as_deref() {
            let in_query = query.as_ref().and_then(|query| match query {
                Cow::Borrowed(query) => value_of(query, key, b'&').map(Cow::Borrowed),
                Cow::Owned(query) => value_of(query, key, b'&').map(|name| name.to_vec().into()),
            });
            let in_cookie = || {
                let name = value_of(row.known(Field::Cookie)?, key, b';')?;
                Some(unescape(name, row.escape))
            };
            if let Some(name) = in_query.or_else(in_cookie) {
                return Ok(ClientIdentity::Session(name));
            }
        }
        if let Some(name) = row.known(Field::Forwarded).filter(|_| self.is_forwarded) {
            return Ok(ClientIdentity::Session(unescape(name, row.escape)));
        }
        if let Some(name) = row.known(Field::Session) {
            return Ok(ClientIdentity::Session(unescape(name, row.escape)));
        }
        let header = row.known(Field::Cmcd);
        if let Some(name) = header.and_then(|text| cmcd_session(&unescape(text, row.escape))) {
            return Ok(ClientIdentity::Session(name.into()));
        }
        if let Some(name) = query.as_deref().and_then(cmcd_in_query) {
            return Ok(ClientIdentity::Session(name.into()));
        }
        let peer = match row.known(Field::Client) {
            // The port follows the last colon, even for IPv6 without brackets.
            Some(client) => Some(&client[..memchr::memrchr(b':', client).unwrap_or(client.len())]),
            None => row.known(Field::Address),
        };
        let address = match (row.known(Field::Forwarded), peer) {
            (Some(list), peer) => self.proxies.client(peer, list),
            (None, Some(list)) if memchr::memchr(b',', list).is_some() => {
                self.proxies.client(None, list)
            }
            (None, peer) => peer.map(without_port),
        };
        address
            .map(ClientIdentity::Address)
            .ok_or(DropReason::NoSession)
    }
}

/// The value of a key in `a=1&b=2`, `a=1; b=2`.
fn value_of<'a>(text: &'a [u8], key: &[u8], separator: u8) -> Option<&'a [u8]> {
    let pairs = text.split(|byte| *byte == separator);
    let mut values = pairs.filter_map(|pair| {
        let value = pair.trim_ascii_start().strip_prefix(key)?;
        value.strip_prefix(b"=")
    });
    values.find(|value| !value.is_empty())
}

/// Removes the port from `192.0.2.7:40000` and `[2001:db8::1]:40000`; a bare IPv6 address is kept
/// whole.
fn without_port(address: &[u8]) -> &[u8] {
    if let [b'[', inner @ ..] = address {
        let end = memchr::memchr(b']', inner).unwrap_or(inner.len());
        return &inner[..end];
    }
    let mut colons = memchr::memchr_iter(b':', address);
    match (colons.next(), colons.next()) {
        (Some(end), None) => &address[..end],
        _ => address,
    }
}

/// The session id in `CMCD=...` of a query (CTA-5004, `sid`).
fn cmcd_in_query(query: &[u8]) -> Option<Vec<u8>> {
    // Most queries have none: a quick check before splitting.
    memchr::memmem::find(query, b"CMCD=")?;
    cmcd_session(&percent_decoded(value_of(query, b"CMCD", b'&')?))
}

/// The session id in CMCD: `...,sid="6e2fb550",...`.
fn cmcd_session(text: &[u8]) -> Option<Vec<u8>> {
    let mut from = 0;
    loop {
        let key = from + memchr::memmem::find(&text[from..], b"sid=\"")?;
        if key == 0 || matches!(text[key - 1], b',' | b' ') {
            let value = &text[key + 5..];
            let end = memchr::memchr(b'"', value)?;
            return (end > 0).then(|| value[..end].to_vec());
        }
        from = key + 5;
    }
}

fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if digit(high).is_some() && digit(low).is_some() => {
                let code = digit(high).zip(digit(low)).map(|(h, l)| h * 16 + l);
                plain.push(code.unwrap_or_default() as u8);
                rest = after;
            }
            _ => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    plain
}

/// The key without the prefix of its origin.
pub(crate) fn session_key(name: &str) -> Arc<[u8]> {
    let origins = ["arg_", "cookie_"];
    let mut keys = origins
        .iter()
        .filter_map(|origin| name.strip_prefix(origin));
    keys.next().unwrap_or(name).as_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(trusted: &str, peer: &'static str, list: &'static str) -> String {
        let trusted = match trusted {
            "" => TrustedProxies::default(),
            text => text.parse().expect("networks"),
        };
        let peer = (!peer.is_empty()).then_some(peer.as_bytes());
        let found = trusted.client(peer, list.as_bytes()).unwrap_or_default();
        String::from_utf8_lossy(found).into_owned()
    }

    #[test]
    fn client_is_last_address_that_is_no_proxy() {
        for (peer, list, expected) in [
            ("10.0.0.1", "192.0.2.10", "192.0.2.10"),
            ("", "192.0.2.10, 10.0.0.9", "192.0.2.10"),
            ("198.51.100.7", "192.0.2.10", "192.0.2.10"),
            ("198.51.100.7", "192.0.2.10, 198.51.100.7", "192.0.2.10"),
            ("10.0.0.1", "10.1.1.1, 192.0.2.10,10.0.0.2", "192.0.2.10"),
            ("10.0.0.1", "10.1.1.1, 10.0.0.2", "10.1.1.1"),
            ("10.0.0.1", "unknown, -", "10.0.0.1"),
            ("10.0.0.1", "[2001:db8::7]:443,%20::1", "2001:db8::7"),
            ("10.0.0.1", "192.0.2.10:51000, fd00::1", "192.0.2.10"),
            (
                "10.0.0.1",
                "for=192.0.2.60;proto=http, for=\"[2001:db8::7]:4711\"",
                "2001:db8::7",
            ),
        ] {
            assert_eq!(client("", peer, list), expected, "{peer} {list}");
        }
    }

    #[test]
    fn only_named_proxies_are_trusted_when_some_are_named() {
        let cdn = "198.51.100.0/24,2001:db8:1::/48";
        let list = "203.0.113.9, 192.0.2.10";
        assert_eq!(client(cdn, "198.51.100.7", list), "192.0.2.10");
        assert_eq!(client(cdn, "10.0.0.1", list), "10.0.0.1", "not trusted");
        assert_eq!(client(cdn, "2001:db8:1::5", "192.0.2.10"), "192.0.2.10");
        let error = "10.0.0.0/33".parse::<TrustedProxies>().expect_err("no net");
        assert!(error.starts_with("`10.0.0.0/33` is not"), "{error}");
    }

    #[test]
    fn port_is_removed_and_addresses_are_told_from_other_text() {
        for (text, expected) in [
            ("192.0.2.7:40000", "192.0.2.7"),
            ("[2001:db8::1]:40000", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("host.example", "host.example"),
        ] {
            assert_eq!(without_port(text.as_bytes()), expected.as_bytes());
        }
        assert!(is_address_list(b"192.0.2.7, ::1"));
        for other in ["", "-", "0.123", "10.0.0.1:80", "cafe", "MISS", "1, 2"] {
            assert!(!is_address_list(other.as_bytes()), "{other}");
        }
    }
}
