//! Slots of listings: the bound of the memory that they take.

use std::sync::Arc;
use std::time::Duration;

use headlong_net::{AddressLimits, AddressShare};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::state::HttpSettings;
use headlong_http::Peer;

/// Listings that are made, or sent to clients, at a time.
const SLOTS: usize = 12;
/// A listing up to this size keeps no slot while it is sent.
const SMALL_BYTES: usize = 64 << 10;
/// Large listings that are sent to one address at a time.
const LARGE_PER_ADDRESS_MAX: u64 = 6;

/// Slots of listings.
#[derive(Debug)]
pub(super) struct ListingSlots {
    all: Arc<Semaphore>,
    large: Arc<AddressLimits>,
}

impl Default for ListingSlots {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(SLOTS)),
            large: Arc::default(),
        }
    }
}

/// What a large listing holds until it was sent.
pub(super) struct LargeListing {
    pub(super) slot: OwnedSemaphorePermit,
    pub(super) share: Option<AddressShare>,
}

impl ListingSlots {
    /// A slot, for which other listings are waited for; `None` if there is none in time.
    pub(super) async fn take(&self, within: Duration) -> Option<OwnedSemaphorePermit> {
        let slot = Arc::clone(&self.all).acquire_owned();
        timeout(within, slot).await.ok()?.ok()
    }

    /// What a listing of this size holds while it is sent. `None` if the address of its client, other
    /// than a proxy, has reached its limit.
    pub(super) fn keep(
        &self,
        slot: OwnedSemaphorePermit,
        bytes: usize,
        settings: &HttpSettings,
        client: Peer,
    ) -> Option<Option<LargeListing>> {
        if bytes <= SMALL_BYTES {
            return Some(None);
        }
        let address = client
            .ip()
            .filter(|address| !settings.proxies.trust(*address));
        let share = match address {
            Some(address) => Some(self.large.hold(address, 1, LARGE_PER_ADDRESS_MAX)?),
            None => None,
        };
        Some(Some(LargeListing { slot, share }))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::config::Config;
    use crate::start::http_settings;

    #[tokio::test]
    async fn large_listing_keeps_slot_until_sent_and_one_address_half_of_them() {
        let (slots, settings) = (ListingSlots::default(), http_settings(&Config::default()));
        let client = |last| Peer::At(SocketAddr::from((Ipv4Addr::new(192, 0, 2, last), 9)));
        let take = async || slots.take(Duration::ZERO).await;
        let mut kept = Vec::new();
        for number in 0..SLOTS {
            let slot = take().await.expect("a free slot");
            let of = if number < SLOTS / 2 { 1 } else { 2 };
            let large = slots.keep(slot, SMALL_BYTES + 1, &settings, client(of));
            kept.push(large.expect("below its limit").expect("large"));
            if number == SLOTS / 2 - 1 {
                let slot = take().await.expect("a free slot");
                assert!(slots.keep(slot, usize::MAX, &settings, client(1)).is_none());
                let slot = take().await.expect("a free slot");
                let small = slots.keep(slot, SMALL_BYTES, &settings, client(1));
                assert!(small.expect("not limited").is_none());
            }
        }
        assert!(take().await.is_none());
        kept.pop();
        assert!(take().await.is_some());
    }
}
