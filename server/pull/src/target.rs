//! Connection targets allowed to an edge: its origin, and targets of the origin's redirects.
//!
//! The operator named one host, and only that host may have any address. Anything else an origin
//! names may come from an attacker who wants to reach the edge's own network.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Whether to use TLS.
    pub is_tls: bool,
    /// Host name or address, in lower case, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Rules for connection targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetRules {
    /// The origin as configured.
    pub origin: Target,
    /// Additional hosts that it may redirect to.
    pub hosts: Vec<String>,
    /// Whether those hosts may have private addresses.
    pub may_be_private: bool,
}

impl TargetRules {
    /// Whether a redirect to this target may be followed, judged by its name. Never from TLS to
    /// plain text.
    pub fn may_follow(&self, target: &Target) -> bool {
        let is_named = target.host == self.origin.host || self.hosts.contains(&target.host);
        is_named && (target.is_tls || !self.origin.is_tls)
    }

    /// Whether a connection to this resolved address of a host is allowed.
    pub fn may_connect(&self, host: &str, port: u16, address: IpAddr) -> bool {
        let is_origin = host == self.origin.host && port == self.origin.port;
        is_origin || self.may_be_private || is_public(address)
    }
}

/// Whether an address is public, and not of this machine or a private network.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_reserved = a == 0 || a >= 240 || (a == 192 && b == 0 && c == 0);
    let is_benchmark = a == 198 && (b == 18 || b == 19);
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || is_shared
        || is_reserved
        || is_benchmark)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // Addresses that embed an IPv4 address (NAT64, 6to4).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
        // Global unicast is 2000::/3, except documentation and Teredo.
        [0x2001, 0xdb8 | 0, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;
    use alloc::vec;

    #[test]
    fn local_and_private_addresses_are_not_public() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "172.16.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "240.0.0.1",
            "198.18.0.1",
            "192.0.0.8",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "::7f00:1",
        ] {
            let address = private.parse().expect("an address");
            assert!(!is_public(address), "{private}");
        }
        for public in [
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "2a00:1450::1",
            "64:ff9b::808:808",
        ] {
            assert!(is_public(public.parse().expect("an address")), "{public}");
        }
    }

    #[test]
    fn redirects_go_to_allowed_hosts_and_never_leave_tls() {
        let target = |is_tls, host: &str| Target {
            is_tls,
            host: host.to_owned(),
            port: 443,
        };
        let rules = TargetRules {
            origin: target(true, "origin.example"),
            hosts: vec!["store.example".to_owned()],
            may_be_private: false,
        };
        assert!(rules.may_follow(&target(true, "origin.example")));
        assert!(rules.may_follow(&target(true, "store.example")));
        assert!(!rules.may_follow(&target(true, "other.example")));
        assert!(!rules.may_follow(&target(false, "origin.example")));
        let here = IpAddr::from([127, 0, 0, 1]);
        assert!(rules.may_connect("origin.example", 443, here));
        assert!(!rules.may_connect("origin.example", 22, here));
        assert!(!rules.may_connect("store.example", 443, here));
        assert!(rules.may_connect("store.example", 443, IpAddr::from([8, 8, 8, 8])));
    }
}
