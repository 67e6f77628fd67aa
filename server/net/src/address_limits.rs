//! Limits per client address on what all clients share (connections, request memory).
//!
//! An address is not a viewer: behind one there may be a household, a carrier NAT with thousands of
//! viewers, or a CDN. The limit is therefore far above the needs of any of these and only stops a
//! client that takes everything. Trusted proxies are exempt; if a proxy names its client by the
//! PROXY protocol, the client is counted. For IPv6 the first 64 bits count, the least that one
//! subscriber has, and with a larger share the first 48 bits, which a site may have (RFC 6177,
//! section 2; RFC 4291, 2.5.4): 65,536 networks of 64 bits are not as many clients.
//!
//! Invariant: an address has an entry exactly while it holds something, so there are no more than
//! two entries for each connection, or request in progress.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headlong_engine::ViewerId;

/// Addresses that count as one client: an IPv4 address or an IPv6 /64 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subscriber(AddressBlock);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum AddressBlock {
    V4([u8; 4]),
    /// First 64 bits, the network of a subscriber.
    V6([u8; 8]),
    /// First 48 bits, the network of a site.
    V6Site([u8; 6]),
}

/// Addresses that one site may have: an IPv4 address or an IPv6 /48 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Site(AddressBlock);

impl Site {
    /// The site of an address.
    pub(super) fn of(address: IpAddr) -> Self {
        let subscriber = AddressBlock::of(address);
        Self(subscriber.site().unwrap_or(subscriber))
    }
}

impl Subscriber {
    /// The subscriber of an address.
    pub fn of(address: IpAddr) -> Self {
        Self(AddressBlock::of(address))
    }
}

/// The id of an address's site among the holders of memory.
pub fn holder(address: IpAddr) -> ViewerId {
    ViewerId(match Site::of(address).0 {
        AddressBlock::V4(address) => u32::from_be_bytes(address).into(),
        // Only `::/48` maps below 2^32, and no clients have addresses in it.
        AddressBlock::V6Site([a, b, c, d, e, f]) => u64::from_be_bytes([a, b, c, d, e, f, 0, 0]),
        AddressBlock::V6(network) => u64::from_be_bytes(network),
    })
}

impl AddressBlock {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }

    /// The site of an IPv6 network.
    fn site(self) -> Option<Self> {
        match self {
            Self::V6([a, b, c, d, e, f, ..]) => Some(Self::V6Site([a, b, c, d, e, f])),
            Self::V4(_) | Self::V6Site(_) => None,
        }
    }
}

/// The most that an address may hold, and that the addresses of an IPv6 site may hold together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareLimit {
    /// Of an IPv4 address, or an IPv6 /64 network.
    pub of_address: u64,
    /// Of an IPv6 /48 network.
    pub of_site: u64,
}

/// Amount that each address holds.
#[derive(Debug, Default)]
pub struct AddressLimits(Mutex<HashMap<AddressBlock, u64>>);

/// An amount that an address holds until this guard is dropped.
#[derive(Debug)]
pub struct AddressShare {
    origin: AddressBlock,
    amount: u64,
    all: Arc<AddressLimits>,
}

impl AddressLimits {
    /// Adds `amount` to what an address holds; `None` if it, or its site, would then hold more than
    /// its limit.
    pub fn hold(
        self: &Arc<Self>,
        address: IpAddr,
        amount: u64,
        max: ShareLimit,
    ) -> Option<AddressShare> {
        let origin = AddressBlock::of(address);
        let site = origin.site();
        let mut held = self.lock();
        let wanted = |of: AddressBlock, max: u64| {
            let present = held.get(&of).copied().unwrap_or(0);
            Some(present.saturating_add(amount)).filter(|wanted| *wanted <= max)
        };
        let of_address = (origin, wanted(origin, max.of_address)?);
        let of_site = match site {
            Some(site) => Some((site, wanted(site, max.of_site)?)),
            None => None,
        };
        held.extend([Some(of_address), of_site].into_iter().flatten());
        Some(AddressShare {
            origin,
            amount,
            all: Arc::clone(self),
        })
    }

    /// The amounts that an address and its site hold; they are equal for IPv4.
    pub(super) fn held_by(&self, address: IpAddr) -> (u64, u64) {
        let origin = AddressBlock::of(address);
        let held = self.lock();
        let of = |block: AddressBlock| held.get(&block).copied().unwrap_or(0);
        (of(origin), of(origin.site().unwrap_or(origin)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AddressBlock, u64>> {
        // Nothing under the lock panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AddressShare {
    fn drop(&mut self) {
        let mut held = self.all.lock();
        for of in [Some(self.origin), self.origin.site()]
            .into_iter()
            .flatten()
        {
            if let Some(count) = held.get_mut(&of) {
                *count -= self.amount;
                if *count == 0 {
                    held.remove(&of);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn max(of_address: u64) -> ShareLimit {
        ShareLimit {
            of_address,
            of_site: 2 * of_address,
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn limit_applies_to_each_address_separately() {
        let all = Arc::<AddressLimits>::default();
        let held: Vec<_> = (0..3)
            .map_while(|_| all.hold(ip("192.0.2.1"), 1, max(2)))
            .collect();
        assert_eq!(held.len(), 2);
        assert!(all.hold(ip("192.0.2.2"), 1, max(2)).is_some());
        drop(held);
        assert!(all.hold(ip("192.0.2.1"), 1, max(2)).is_some());
        assert!(
            all.lock().is_empty(),
            "an address that holds nothing has no entry"
        );
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together() {
        let all = Arc::<AddressLimits>::default();
        let _first = all
            .hold(ip("2001:db8:1:2::1"), 1, max(1))
            .expect("the first");
        assert!(all.hold(ip("2001:db8:1:2:ffff::9"), 1, max(1)).is_none());
        let _second = all.hold(ip("2001:db8:1:3::1"), 1, max(1)).expect("another");
        let _third = all.hold(ip("192.0.2.1"), 1, max(1)).expect("another");
        assert!(
            all.hold(ip("::ffff:192.0.2.1"), 1, max(1)).is_none(),
            "the same"
        );
    }

    #[test]
    fn networks_of_one_ipv6_site_share_its_limit() {
        let all = Arc::<AddressLimits>::default();
        let of = |network: u32, site: u32| ip(&format!("2001:db8:{site:x}:{network:x}::1"));
        let take = |network| all.hold(of(network, 1), 1, max(8));
        let mut held: Vec<_> = (0..1000).map_while(take).collect();
        assert_eq!(held.len(), 16);
        assert!(all.hold(of(0, 2), 1, max(8)).is_some(), "another site");
        held.pop();
        held.extend(take(2000));
        assert_eq!(held.len(), 16);
        drop(held);
        assert!(all.lock().is_empty());
        assert_eq!(holder(of(1, 1)), holder(of(2, 1)));
        assert_ne!(holder(of(1, 1)), holder(of(1, 2)));
        assert_ne!(holder(ip("192.0.2.1")), holder(ip("192.0.2.2")));
    }
}
