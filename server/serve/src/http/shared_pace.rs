//! Shared pacing: replies of one address, and of one session, share a rate limit.
//!
//! Invariant: a schedule is kept while a reply uses it or its time is not over; others are removed
//! when the table doubles.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headlong_engine::ViewerId;
use headlong_http::SharedPacer;
use headlong_units::Instant;

use headlong_net::Subscriber;

/// Limits in bytes a second for all replies of an address, and of a session; zero for unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SharedRates {
    /// Limit of an address.
    pub per_address: u64,
    /// Limit of a session.
    pub per_session: u64,
}

/// The table is first cleaned at this size, then at twice the size left by the last cleaning.
const TIDIED_AT: usize = 64;

#[derive(Debug)]
struct ScheduleTable<Key> {
    schedules: HashMap<Key, Arc<Mutex<SharedPacer>>>,
    tidied_at: usize,
}

impl<Key> Default for ScheduleTable<Key> {
    fn default() -> Self {
        Self {
            schedules: HashMap::new(),
            tidied_at: TIDIED_AT,
        }
    }
}

impl<Key: Hash + Eq> ScheduleTable<Key> {
    fn of(&mut self, now: Instant, key: Key, bytes_per_second: u64) -> Arc<Mutex<SharedPacer>> {
        if self.schedules.len() >= self.tidied_at {
            self.schedules.retain(|_, schedule| {
                Arc::strong_count(schedule) > 1 || lock(schedule).free_at() > now
            });
            self.tidied_at = TIDIED_AT.max(2 * self.schedules.len());
        }
        let new = || Arc::new(Mutex::new(SharedPacer::new(bytes_per_second)));
        let schedule = Arc::clone(self.schedules.entry(key).or_insert_with(new));
        lock(&schedule).set_rate(bytes_per_second);
        schedule
    }
}

/// All shared schedules.
#[derive(Debug, Default)]
pub(super) struct SharedPaces {
    by_address: Mutex<ScheduleTable<Subscriber>>,
    by_session: Mutex<ScheduleTable<ViewerId>>,
}

/// The schedules of one reply, and the time at which its next bytes may be sent.
#[derive(Debug, Default)]
pub(super) struct ReplySchedules {
    schedules: Vec<Arc<Mutex<SharedPacer>>>,
    may_go_at: Instant,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under the locks panics.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedPaces {
    /// The schedules of a reply that begins now. `address` is `None` for a proxy.
    pub(super) fn of(
        &self,
        now: Instant,
        rates: SharedRates,
        (address, session): (Option<IpAddr>, ViewerId),
    ) -> ReplySchedules {
        let mut schedules = Vec::new();
        if let Some(address) = address.filter(|_| rates.per_address > 0) {
            let key = Subscriber::of(address);
            schedules.push(lock(&self.by_address).of(now, key, rates.per_address));
        }
        if rates.per_session > 0 {
            schedules.push(lock(&self.by_session).of(now, session, rates.per_session));
        }
        let free_at = schedules.iter().map(|schedule| lock(schedule).free_at());
        ReplySchedules {
            may_go_at: free_at.max().unwrap_or_default(),
            schedules,
        }
    }
}

impl ReplySchedules {
    /// Whether the reply has no shared schedule.
    pub(super) fn is_none(&self) -> bool {
        self.schedules.is_empty()
    }

    /// The time at which its next bytes may be sent.
    pub(super) fn may_go_at(&self) -> Instant {
        self.may_go_at
    }

    /// `bytes` of the reply are sent now.
    pub(super) fn go(&mut self, now: Instant, bytes: u64) {
        let next = self.schedules.iter().map(|of| lock(of).go(now, bytes));
        self.may_go_at = next.max().unwrap_or_default();
    }

    /// `bytes` of the reply were not sent: they will be sent again.
    pub(super) fn take_back(&mut self, bytes: u64) {
        let free_at = self.schedules.iter().map(|of| {
            let mut schedule = lock(of);
            schedule.take_back(bytes);
            schedule.free_at()
        });
        // Bytes that other replies have reserved time for since do not delay it.
        self.may_go_at = self.may_go_at.min(free_at.max().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use headlong_units::Duration;

    use super::*;

    const RATES: SharedRates = SharedRates {
        per_address: 1000,
        per_session: 500,
    };

    fn ip(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn slower_schedule_of_address_and_session_applies() {
        let paces = SharedPaces::default();
        let mut first = paces.of(at(1), RATES, (ip(1), ViewerId(1)));
        assert_eq!(first.may_go_at(), Instant::ZERO, "immediately");
        first.go(at(1), 1000);
        assert_eq!(first.may_go_at(), at(3), "limited by its session");
        // Another session of the address; the same session at another address; no address.
        let second = paces.of(at(1), RATES, (ip(1), ViewerId(2)));
        assert_eq!(second.may_go_at(), at(2));
        let third = paces.of(at(1), RATES, (ip(2), ViewerId(1)));
        assert_eq!(third.may_go_at(), at(3));
        let fourth = paces.of(at(1), RATES, (None, ViewerId(3)));
        assert_eq!(fourth.may_go_at(), Instant::ZERO);
        assert!(
            paces
                .of(at(1), SharedRates::default(), (ip(1), ViewerId(1)))
                .is_none()
        );
    }

    #[test]
    fn bytes_taken_back_reserve_no_time() {
        let paces = SharedPaces::default();
        let mut reply = paces.of(at(1), RATES, (ip(1), ViewerId(1)));
        reply.go(at(1), 4000);
        assert_eq!(reply.may_go_at(), at(9));
        reply.take_back(3000);
        assert_eq!(reply.may_go_at(), at(3));
        let other = paces.of(at(1), RATES, (ip(1), ViewerId(2)));
        assert_eq!(other.may_go_at(), at(2));
        reply.go(at(1), 3000);
        assert_eq!(reply.may_go_at(), at(9));
    }

    #[test]
    fn schedule_is_kept_until_its_time_is_over() {
        let paces = SharedPaces::default();
        for viewer in 0..1000 {
            let mut reply = paces.of(at(1), RATES, (None, ViewerId(viewer)));
            reply.go(at(1), 5000);
        }
        let known = || lock(&paces.by_session).schedules.len();
        assert_eq!(known(), 1000);
        let again = paces.of(at(1), RATES, (None, ViewerId(7)));
        assert_eq!(again.may_go_at(), at(11));
        drop(again);
        for viewer in 1000..3000 {
            paces.of(at(20), RATES, (None, ViewerId(viewer)));
        }
        assert!(known() <= 2 * TIDIED_AT, "{}", known());
    }
}
