//! Who is at an end of a connection.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

/// Who is at an end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Who has this address; its port is 0 if nobody says which.
    At(SocketAddr),
    /// A process of this machine at a unix socket. It has no address, and whoever may write to the
    /// socket is let in by the operator: a proxy.
    Local,
}

impl Peer {
    /// Its address without the port, if it has one. A socket for both versions of IP calls an IPv4
    /// address ::ffff:192.0.2.7; here it is 192.0.2.7.
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Self::At(address) => Some(address.ip().to_canonical()),
            Self::Local => None,
        }
    }

    /// Whether it is believed about whom it speaks for, if those addresses are for which `is_trusted`
    /// holds.
    pub fn is_trusted(self, is_trusted: impl FnOnce(IpAddr) -> bool) -> bool {
        self.ip().is_none_or(is_trusted)
    }

    /// As the text that nginx has for it in `$remote_addr`: an address without a port, or `unix:`.
    pub fn host(self) -> impl fmt::Display {
        Host(self)
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::At(address)
    }
}

/// Address and port as far as they are known, or `unix:`.
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

struct Host(Peer);

impl fmt::Display for Host {
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
    fn a_peer_is_shown_by_what_is_known_of_it() {
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
    fn who_has_no_address_is_trusted_and_others_by_theirs() {
        assert!(Peer::Local.is_trusted(|_| false));
        let peer = Peer::At("[::ffff:192.0.2.7]:80".parse().expect("an address"));
        assert!(peer.is_trusted(|ip| ip == IpAddr::from([192, 0, 2, 7])));
        assert!(!peer.is_trusted(|_| false));
    }
}
