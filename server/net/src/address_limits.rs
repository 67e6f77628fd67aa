//! Limits per client address on what all clients share (connections, request memory).
//!
//! An address is not a viewer: behind one there may be a household, a carrier NAT with thousands of
//! viewers, or a CDN. The limit is therefore far above the needs of any of these and only stops a
//! client that takes everything. Trusted proxies are exempt; if a proxy names its client by the
//! PROXY protocol, the client is counted. For IPv6 the first 64 bits count, the least that one
//! subscriber has (RFC 6177, section 2; RFC 4291, 2.5.4).
//!
//! Invariant: an address has an entry exactly while it holds something, so there are no more
//! entries than connections, or requests in progress.

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
}

impl Subscriber {
    /// The subscriber of an address.
    pub fn of(address: IpAddr) -> Self {
        Self(AddressBlock::of(address))
    }

    /// Its id among the holders of memory.
    pub fn holder(self) -> ViewerId {
        ViewerId(match self.0 {
            AddressBlock::V4(address) => u32::from_be_bytes(address).into(),
            // Only `::/64` maps below 2^32, and no clients have addresses in it.
            AddressBlock::V6(network) => u64::from_be_bytes(network),
        })
    }
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
    /// Adds `amount` to what an address holds; `None` if the sum would exceed `max`.
    pub fn hold(self: &Arc<Self>, address: IpAddr, amount: u64, max: u64) -> Option<AddressShare> {
        let origin = AddressBlock::of(address);
        let mut held = self.lock();
        let present = held.get(&origin).copied().unwrap_or(0);
        let wanted = present.saturating_add(amount);
        if wanted > max {
            return None;
        }
        held.insert(origin, wanted);
        Some(AddressShare {
            origin,
            amount,
            all: Arc::clone(self),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AddressBlock, u64>> {
        // Nothing under the lock panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AddressShare {
    fn drop(&mut self) {
        let mut held = self.all.lock();
        if let Some(count) = held.get_mut(&self.origin) {
            *count -= self.amount;
            if *count == 0 {
                held.remove(&self.origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn limit_applies_to_each_address_separately() {
        let all = Arc::<AddressLimits>::default();
        let held: Vec<_> = (0..3)
            .map_while(|_| all.hold(ip("192.0.2.1"), 1, 2))
            .collect();
        assert_eq!(held.len(), 2);
        assert!(all.hold(ip("192.0.2.2"), 1, 2).is_some());
        drop(held);
        assert!(all.hold(ip("192.0.2.1"), 1, 2).is_some());
        assert!(
            all.lock().is_empty(),
            "an address that holds nothing has no entry"
        );
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together() {
        let all = Arc::<AddressLimits>::default();
        let _first = all.hold(ip("2001:db8:1:2::1"), 1, 1).expect("the first");
        assert!(all.hold(ip("2001:db8:1:2:ffff::9"), 1, 1).is_none());
        let _second = all.hold(ip("2001:db8:1:3::1"), 1, 1).expect("another");
        let _third = all.hold(ip("192.0.2.1"), 1, 1).expect("another");
        assert!(all.hold(ip("::ffff:192.0.2.1"), 1, 1).is_none(), "the same");
    }
}
