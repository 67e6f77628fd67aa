//! Negative cache: titles that an origin does not have, remembered for a limited time.
//!
//! Invariant: the number of keys is bounded, and each expires; the oldest is dropped first.

use alloc::collections::VecDeque;

use alloc::collections::BTreeMap;
use headlong_units::{Duration, Instant};

/// Keys of missing titles.
#[derive(Debug)]
pub struct NegativeCache {
    keep: Duration,
    count_max: usize,
    until: BTreeMap<u128, Instant>,
    order: VecDeque<(u128, Instant)>,
}

impl NegativeCache {
    /// Creates a cache of at most `count_max` keys, each kept for `keep`.
    pub fn new(keep: Duration, count_max: usize) -> Self {
        Self {
            keep,
            count_max: count_max.max(1),
            until: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Adds a missing title.
    pub fn note(&mut self, now: Instant, key: u128) {
        if self.keep == Duration::ZERO {
            return;
        }
        let until = now + self.keep;
        if self.until.insert(key, until) == Some(until) {
            return;
        }
        self.order.push_back((key, until));
        while self.order.len() > self.count_max
            || self.order.front().is_some_and(|(_, until)| *until <= now)
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let Some((key, until)) = self.order.pop_front() else {
            return;
        };
        // It may have been added again since.
        if self.until.get(&key) == Some(&until) {
            self.until.remove(&key);
        }
    }

    /// Whether a title is known to be missing.
    pub fn has(&self, now: Instant, key: u128) -> bool {
        self.until.get(&key).is_some_and(|until| now < *until)
    }

    /// Removes a title.
    pub fn forget(&mut self, key: u128) {
        self.until.remove(&key);
    }

    /// Removes all titles.
    pub fn clear(&mut self) {
        self.until.clear();
        self.order.clear();
    }

    /// Number of titles.
    pub fn len(&self) -> usize {
        self.until.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn key_is_known_until_it_expires(
            steps in prop::collection::vec((0_u128..8, 0_u64..4), 1..200),
        ) {
            let keep = Duration(10);
            let mut known = NegativeCache::new(keep, 4);
            let mut now = Instant(0);
            let mut noted: BTreeMap<u128, Instant> = BTreeMap::new();
            for (key, pause) in steps {
                now = now + Duration(pause);
                known.note(now, key);
                noted.insert(key, now);
                prop_assert!(known.has(now, key));
                prop_assert!(known.len() <= 4 && known.order.len() <= 4);
                for key in 0..8 {
                    let is_young = noted.get(&key).is_some_and(|at| now.since(*at) < keep);
                    prop_assert!(is_young || !known.has(now, key));
                }
            }
        }
    }

    #[test]
    fn removed_key_is_unknown_and_zero_time_adds_nothing() {
        let mut known = NegativeCache::new(Duration(10), 4);
        known.note(Instant(0), 1);
        known.forget(1);
        assert!(!known.has(Instant(1), 1));
        let mut never = NegativeCache::new(Duration::ZERO, 4);
        never.note(Instant(0), 1);
        assert!(never.is_empty());
    }
}
