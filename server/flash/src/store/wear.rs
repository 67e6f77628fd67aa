//! Write budget of the SSDs.
//!
//! An SSD is rated for a number of bytes, which last for years only if each day uses at most its
//! share. There are two counters. The bytes of the last 24 hours, in quarters of an hour, are a
//! limit for any day. A token bucket, refilled evenly with the daily budget, indicates how scarce
//! writes are, so that the first hours do not use up the budget of the evening.
//!
//! Invariant: over any 24 hours at most the budget is recorded, provided that [`Wear::budget_left`]
//! allowed each record.

use headlong_units::{Duration, Instant};

const QUARTER: Duration = Duration::from_secs(900);
/// The quarters of a day, plus the current one.
const QUARTERS: usize = 97;
const DAY: Duration = Duration::from_secs(86_400);
/// The capacity of the bucket is the daily budget divided by this.
const BUCKET_PARTS: u64 = 4;
/// Level of a full bucket.
pub(crate) const FULL: u64 = 1024;

/// Bytes written and reserved.
#[derive(Debug)]
pub(crate) struct Wear {
    budget: u64,
    quarters: [u64; QUARTERS],
    /// Number of the current quarter since the start.
    current: u64,
    /// Content of the bucket.
    bucket: u64,
    dripped_at: Instant,
}

impl Wear {
    /// Creates a budget from which nothing has been used.
    pub(crate) fn new(budget: u64) -> Self {
        Self {
            budget,
            quarters: [0; QUARTERS],
            current: 0,
            bucket: budget / BUCKET_PARTS,
            dripped_at: Instant::ZERO,
        }
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    pub(crate) fn set_budget(&mut self, budget: u64) {
        self.budget = budget;
        self.bucket = self.bucket.min(budget / BUCKET_PARTS);
    }

    /// Bytes that may still be written now.
    pub(crate) fn budget_left(&self, now: Instant) -> u64 {
        let passed = (now.0 / QUARTER.0).saturating_sub(self.current);
        let is_of_day = |behind: &u64| behind + passed < QUARTERS as u64;
        let quarters = (0..QUARTERS as u64).filter(is_of_day);
        let slot = |behind: u64| (self.current + QUARTERS as u64 - behind) % QUARTERS as u64;
        let used: u64 = quarters
            .map(|behind| self.quarters[slot(behind) as usize])
            .sum();
        self.budget.saturating_sub(used)
    }

    /// Records bytes submitted to an SSD.
    pub(crate) fn record(&mut self, now: Instant, bytes: u64) {
        self.pass(now);
        self.quarters[self.current as usize % QUARTERS] += bytes;
    }

    /// Reserves bytes to be written: takes them from the bucket.
    pub(crate) fn reserve(&mut self, now: Instant, bytes: u64) {
        self.drip(now);
        self.bucket = self.bucket.saturating_sub(bytes);
    }

    /// Level of the bucket, in units of 1/[`FULL`].
    pub(crate) fn level(&mut self, now: Instant) -> u64 {
        self.drip(now);
        let size = (self.budget / BUCKET_PARTS).max(1);
        (u128::from(self.bucket) * u128::from(FULL) / u128::from(size)) as u64
    }

    fn drip(&mut self, now: Instant) {
        let passed = now.since(self.dripped_at).min(DAY);
        let drop = u128::from(self.budget) * u128::from(passed.0) / u128::from(DAY.0);
        if drop > 0 {
            self.dripped_at = self.dripped_at.max(now);
            let size = self.budget / BUCKET_PARTS;
            self.bucket = self.bucket.saturating_add(drop as u64).min(size);
        }
    }

    fn pass(&mut self, now: Instant) {
        let quarter = now.0 / QUARTER.0;
        let passed = quarter.saturating_sub(self.current);
        for step in 1..=passed.min(QUARTERS as u64) {
            self.quarters[((self.current + step) % QUARTERS as u64) as usize] = 0;
        }
        // After more than a day, all quarters in between have been cleared above.
        self.current = self.current.max(quarter);
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_24_hours_exceed_the_budget(
            steps in prop::collection::vec((0_u64..20_000, 0_u64..500), 1..400),
        ) {
            let mut wear = Wear::new(1000);
            let (mut now, mut written) = (Instant::ZERO, Vec::new());
            for (seconds, bytes) in steps {
                now = now + Duration::from_secs(seconds);
                let bytes = bytes.min(wear.budget_left(now));
                wear.record(now, bytes);
                written.push((now, bytes));
                let of_day = written.iter().filter(|(at, _)| now.since(*at) < DAY);
                let sum: u64 = of_day.map(|(_, bytes)| bytes).sum();
                prop_assert!(sum <= 1000, "{sum}");
            }
            now = now + DAY + QUARTER;
            prop_assert_eq!(wear.budget_left(now), 1000, "the previous day does not count");
        }
    }

    #[test]
    fn bucket_refills_evenly_over_a_day() {
        let mut wear = Wear::new(86_400);
        wear.reserve(Instant::ZERO, 86_400);
        assert_eq!(wear.level(Instant::ZERO), 0);
        let hours = Duration::from_secs(3 * 3600);
        let level = wear.level(Instant::ZERO + hours);
        assert_eq!(level, FULL / 2);
    }
}
