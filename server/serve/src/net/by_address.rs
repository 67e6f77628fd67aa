//! What one address may hold of what all share.
//!
//! The one idea: an address is not a viewer. Behind one there may be a household, a provider's NAT
//! with thousands of them, or a CDN; so the bound is far above what any of these needs, and is there
//! for those who would take everything. A proxy that is trusted counts not at all, and where it says
//! by the PROXY protocol for whom it connects, its client does. Of IPv6 the first 64 bits count,
//! which is what one subscriber has at least (RFC 6177, section 2; RFC 4291, 2.5.4).
//!
//! Invariant: an address has an entry exactly while it holds something, so there are no more entries
//! than connections, or requests in progress.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headlong_engine::ViewerId;

/// Addresses that count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subscriber(Origin);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Origin {
    V4([u8; 4]),
    /// The network of a subscriber.
    V6([u8; 8]),
}

impl Subscriber {
    /// Whom an address is of.
    pub fn of(address: IpAddr) -> Self {
        Self(Origin::of(address))
    }

    /// Its number among those who hold memory.
    pub fn holder(self) -> ViewerId {
        ViewerId(match self.0 {
            Origin::V4(address) => u32::from_be_bytes(address).into(),
            // Of all networks only `::/64` is below 2^32, which has no addresses of others.
            Origin::V6(network) => u64::from_be_bytes(network),
        })
    }
}

impl Origin {
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

/// How much each address holds.
#[derive(Debug, Default)]
pub struct ByAddress(Mutex<HashMap<Origin, u64>>);

/// Some of what an address holds, as long as this lives.
#[derive(Debug)]
pub struct Held {
    origin: Origin,
    amount: u64,
    all: Arc<ByAddress>,
}

impl ByAddress {
    /// So much more for an address; `None` if that is more than it may hold.
    pub fn hold(self: &Arc<Self>, address: IpAddr, amount: u64, max: u64) -> Option<Held> {
        let origin = Origin::of(address);
        let mut held = self.lock();
        let present = held.get(&origin).copied().unwrap_or(0);
        let wanted = present.saturating_add(amount);
        if wanted > max {
            return None;
        }
        held.insert(origin, wanted);
        Some(Held {
            origin,
            amount,
            all: Arc::clone(self),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Origin, u64>> {
        // Nothing under the lock panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
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
    fn an_address_holds_so_many_and_others_as_many() {
        let all = Arc::<ByAddress>::default();
        let held: Vec<_> = (0..3)
            .map_while(|_| all.hold(ip("192.0.2.1"), 1, 2))
            .collect();
        assert_eq!(held.len(), 2);
        assert!(all.hold(ip("192.0.2.2"), 1, 2).is_some());
        drop(held);
        assert!(all.hold(ip("192.0.2.1"), 1, 2).is_some());
        assert!(all.lock().is_empty(), "who holds nothing has no entry");
    }

    #[test]
    fn a_subscriber_is_one_however_many_addresses_it_has() {
        let all = Arc::<ByAddress>::default();
        let _first = all.hold(ip("2001:db8:1:2::1"), 1, 1).expect("the first");
        assert!(all.hold(ip("2001:db8:1:2:ffff::9"), 1, 1).is_none());
        let _second = all.hold(ip("2001:db8:1:3::1"), 1, 1).expect("another");
        let _third = all.hold(ip("192.0.2.1"), 1, 1).expect("another");
        assert!(all.hold(ip("::ffff:192.0.2.1"), 1, 1).is_none(), "the same");
    }
}
