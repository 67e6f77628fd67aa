//! Refusal of addresses whose connections were closed for floods of control frames or of requests.
//!
//! A flood costs the server a little until its connection is closed. A client that opens the next
//! connection at once would cost that little without end, so an address whose connections flood often
//! is refused for a few seconds, and with more floods the whole network of an IPv6 site. Others behind
//! the same address are refused meanwhile too, but keep the connections that they have.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use tokio::time::{Duration, Instant};

use crate::address_limits::{Site, Subscriber};

/// What a flood adds to the debts of its address and site; debts are paid by time.
const OWED_PER_FLOOD: Duration = Duration::from_secs(1);
/// An address that owes more is refused.
const ADDRESS_OWES_MAX: Duration = Duration::from_secs(10);
/// A site that owes more is refused.
const SITE_OWES_MAX: Duration = Duration::from_secs(60);
/// The longest refusal after the last flood.
const REFUSED_MAX: Duration = Duration::from_secs(10);
/// Paid debts are removed when there are this many.
const SWEPT_AT: usize = 4096;

/// What addresses and sites owe for their floods.
#[derive(Debug, Default)]
pub(super) struct FloodPenalties {
    addresses: Mutex<Debts<Subscriber>>,
    sites: Mutex<Debts<Site>>,
}

impl FloodPenalties {
    /// A connection of this address flooded.
    pub(super) fn note_flood(&self, address: IpAddr, now: Instant) {
        let debts = lock(&self.addresses);
        note(debts, Subscriber::of(address), ADDRESS_OWES_MAX, now);
        note(lock(&self.sites), Site::of(address), SITE_OWES_MAX, now);
    }

    /// Whether connections of this address are refused.
    pub(super) fn refuses(&self, address: IpAddr, now: Instant) -> bool {
        let owes_more = |paid_at: Option<&Instant>, max| {
            paid_at.is_some_and(|paid_at| paid_at.duration_since(now) > max)
        };
        let (address, site) = (Subscriber::of(address), Site::of(address));
        owes_more(lock(&self.addresses).get(&address), ADDRESS_OWES_MAX)
            || owes_more(lock(&self.sites).get(&site), SITE_OWES_MAX)
    }
}

/// When each debt will be paid.
type Debts<K> = HashMap<K, Instant>;

fn note<K: Eq + Hash>(
    mut debts: impl std::ops::DerefMut<Target = Debts<K>>,
    of: K,
    owes_max: Duration,
    now: Instant,
) {
    if debts.len() >= SWEPT_AT {
        debts.retain(|_, paid_at| *paid_at > now);
    }
    let paid_at = debts.entry(of).or_insert(now);
    let owed = (*paid_at).max(now) + OWED_PER_FLOOD;
    *paid_at = owed.min(now + owes_max + REFUSED_MAX);
}

fn lock<K>(debts: &Mutex<Debts<K>>) -> std::sync::MutexGuard<'_, Debts<K>> {
    // Nothing under the lock panics.
    debts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(site: u32, network: u32) -> IpAddr {
        let text = format!("2001:db8:{site:x}:{network:x}::1");
        text.parse().expect("an address")
    }

    #[test]
    fn address_that_floods_often_is_refused_for_ten_seconds() {
        let (penalties, begun) = (FloodPenalties::default(), Instant::now());
        let flooder = network(1, 2);
        for _ in 0..10 {
            penalties.note_flood(flooder, begun);
            assert!(!penalties.refuses(flooder, begun), "a flood now and then");
        }
        (0..10).for_each(|_| penalties.note_flood(flooder, begun));
        let refused_at = |after| penalties.refuses(flooder, begun + after);
        assert!(refused_at(Duration::from_secs(9)));
        assert!(!refused_at(Duration::from_secs(10)));
        assert!(!penalties.refuses(network(1, 3), begun), "a neighbour");
    }

    #[test]
    fn site_whose_networks_flood_is_refused() {
        let (penalties, begun) = (FloodPenalties::default(), Instant::now());
        (0..60).for_each(|other| penalties.note_flood(network(1, other), begun));
        assert!(!penalties.refuses(network(1, 100), begun));
        penalties.note_flood(network(1, 61), begun);
        assert!(penalties.refuses(network(1, 100), begun));
        assert!(!penalties.refuses(network(2, 100), begun));
    }

    #[test]
    fn paid_debts_of_many_addresses_are_removed() {
        let (penalties, begun) = (FloodPenalties::default(), Instant::now());
        let address = |number: usize| IpAddr::from((number as u32).to_be_bytes());
        (0..SWEPT_AT).for_each(|number| penalties.note_flood(address(number), begun));
        penalties.note_flood(address(SWEPT_AT), begun + OWED_PER_FLOOD);
        assert_eq!(lock(&penalties.addresses).len(), 1);
        assert_eq!(lock(&penalties.sites).len(), 1);
    }
}
