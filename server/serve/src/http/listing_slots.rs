//! Memory of listings: few are made at a time, and those that clients receive slowly share a budget.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use headlong_net::{AddressLimits, AddressShare};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Listings that are made at a time.
const MAKING_MAX: usize = 4;
/// Unit of the budget; a listing up to this size takes none of it.
const UNIT_BYTES: usize = 64 << 10;
/// Units of listings that are being sent: 24 MiB.
const UNITS: u32 = 384;
/// Units of listings that are being sent to one address.
const UNITS_PER_ADDRESS: u32 = UNITS / 2;

/// The memory of listings.
#[derive(Debug)]
pub(super) struct ListingSlots {
    making: Arc<Semaphore>,
    sending: Arc<Semaphore>,
    by_address: Arc<AddressLimits>,
}

impl Default for ListingSlots {
    fn default() -> Self {
        Self {
            making: Arc::new(Semaphore::new(MAKING_MAX)),
            sending: Arc::new(Semaphore::new(UNITS as usize)),
            by_address: Arc::default(),
        }
    }
}

/// Memory of a large listing, held until it was sent.
pub(super) struct LargeListing {
    pub(super) units: OwnedSemaphorePermit,
    pub(super) share: Option<AddressShare>,
}

impl ListingSlots {
    /// A turn to make a listing, for which others are waited for; `None` if there is none in time.
    pub(super) async fn make(&self, within: Duration) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.making).acquire_owned();
        timeout(within, turn).await.ok()?.ok()
    }

    /// What a listing of this size holds while it is sent to an address; `None` for a proxy, whose
    /// clients are many. Returns `None` if the budget, or the address's part of it, is used up.
    pub(super) fn send(
        &self,
        bytes: usize,
        address: Option<IpAddr>,
    ) -> Option<Option<LargeListing>> {
        if bytes <= UNIT_BYTES {
            return Some(None);
        }
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let share = match address {
            Some(address) => {
                let max = u64::from(UNITS_PER_ADDRESS);
                Some(self.by_address.hold(address, units.into(), max)?)
            }
            None => None,
        };
        let units = Arc::clone(&self.sending)
            .try_acquire_many_owned(units)
            .ok()?;
        Some(Some(LargeListing { units, share }))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::http::listing_page::PAGE_BYTES_MAX;

    #[tokio::test]
    async fn large_listings_share_budget_and_one_address_has_half() {
        let slots = ListingSlots::default();
        let address = |last| Some(IpAddr::from(Ipv4Addr::new(192, 0, 2, last)));
        let send = |bytes, last| slots.send(bytes, address(last));
        let large = |last| send(UNITS_PER_ADDRESS as usize * UNIT_BYTES, last).flatten();
        let first = large(1).expect("half of the budget");
        assert!(send(UNIT_BYTES + 1, 1).is_none(), "the address has no more");
        assert!(send(UNIT_BYTES, 1).is_some_and(|held| held.is_none()));
        let second = large(2).expect("the other half");
        assert!(send(UNIT_BYTES + 1, 3).is_none(), "the budget is used up");
        drop((first, second));
        assert!(send(PAGE_BYTES_MAX, 3).flatten().is_some(), "any page fits");
        let turns: Vec<_> = (0..MAKING_MAX)
            .map(|_| slots.make(Duration::ZERO))
            .collect();
        let mut taken = Vec::new();
        for turn in turns {
            taken.push(turn.await.expect("a turn"));
        }
        assert!(slots.make(Duration::ZERO).await.is_none());
    }
}
