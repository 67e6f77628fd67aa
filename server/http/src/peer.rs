//! The peer of a connection.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// An IP address; its port is 0 if unknown.
    At(SocketAddr),
    /// A local process on a unix socket. It has no address, and counts as a trusted proxy, because
    /// the operator controls who may write to the socket.
    Local,
}

impl Peer {
    /// Its address without the port, if it has one. The IPv4-mapped address ::ffff:192.0.2.7 of a
    /// dual-stack socket becomes 192.0.2.7.
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Self::At(address) => Some(address.ip().to_canonical()),
            Self::Local => None,
        }
    }

    /// Whether it may name its client; `is_trusted` decides for addresses.
    pub fn is_trusted(self, is_trusted: impl FnOnce(IpAddr) -> bool) -> bool {
        self.ip().is_none_or(is_trusted)
    }

    /// The text of nginx's `$remote_addr`: an address without a port, or `unix:`.
    pub fn host(self) -> impl fmt::Display {
        ParsedHost(self)
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::At(address)
    }
}

/// Address and port as far as known, or `unix:`.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) if address.port() != 0 => {
                SocketAddr::new(address.ip().to_canonical(), address.port()).fmt(f)
            }
            _ => self.host().fmt(f),
        }
    }
}

struct ParsedHost(Peer);

impl fmt::Display for ParsedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.ip() {
            Some(ip) => ip.fmt(f),
            None => f.write_str("unix:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn displays_address_with_port_if_known() {
        for (address, host, whole) in [
            ("192.0.2.7:0", "192.0.2.7", "192.0.2.7"),
            ("192.0.2.7:80", "192.0.2.7", "192.0.2.7:80"),
            ("[::ffff:192.0.2.7]:80", "192.0.2.7", "192.0.2.7:80"),
            ("[2001:db8::1]:80", "2001:db8::1", "[2001:db8::1]:80"),
        ] {
            let peer = Peer::At(address.parse().expect("an address"));
            assert_eq!(peer.host().to_string(), host);
            assert_eq!(peer.to_string(), whole);
        }
        assert_eq!(Peer::Local.host().to_string(), "unix:");
        assert_eq!(Peer::Local.to_string(), "unix:");
    }

    #[test]
    fn local_peer_is_trusted_and_others_by_address() {
        assert!(Peer::Local.is_trusted(|_| false));
        let peer = Peer::At("[::ffff:192.0.2.7]:80".parse().expect("an address"));
        assert!(peer.is_trusted(|ip| ip == IpAddr::from([192, 0, 2, 7])));
        assert!(!peer.is_trusted(|_| false));
    }
}
