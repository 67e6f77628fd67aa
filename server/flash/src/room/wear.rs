//! How much may be written.
//!
//! The one idea: an SSD is sold for so many bytes, which last for years only if no day takes more
//! than its part. Two counts. The bytes of the last day, in quarters of an hour, are a limit that
//! holds for any day. A bucket that a day's part drips into evenly says how scarce writing is, so
//! that the first hours do not use up what the evening needs.
//!
//! Invariant: over any 24 hours at most the budget is recorded, if nothing is recorded that
//! [`Wear::left`] did not allow.

use headlong_units::{Duration, Instant};

const QUARTER: Duration = Duration::from_secs(900);
/// Those of a day, and the one that is passing.
const QUARTERS: usize = 97;
const DAY: Duration = Duration::from_secs(86_400);
/// The bucket holds what drips into it in a day over this.
const BUCKET_PARTS: u64 = 4;
/// How full the bucket is, of this.
pub(crate) const FULL: u64 = 1024;

/// Bytes written, and to be written.
#[derive(Debug)]
pub(crate) struct Wear {
    budget: u64,
    quarters: [u64; QUARTERS],
    /// The quarter that is passing, since the beginning.
    current: u64,
    /// What is in the bucket.
    bucket: u64,
    dripped_at: Instant,
}

impl Wear {
    /// Nothing was written yet.
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

    /// Bytes that may still be written now, of any day's.
    pub(crate) fn left(&self, now: Instant) -> u64 {
        let passed = (now.0 / QUARTER.0).saturating_sub(self.current);
        let is_of_day = |behind: &u64| behind + passed < QUARTERS as u64;
        let quarters = (0..QUARTERS as u64).filter(is_of_day);
        let slot = |behind: u64| (self.current + QUARTERS as u64 - behind) % QUARTERS as u64;
        let used: u64 = quarters
            .map(|behind| self.quarters[slot(behind) as usize])
            .sum();
        self.budget.saturating_sub(used)
    }

    /// Bytes are given to an SSD to write.
    pub(crate) fn record(&mut self, now: Instant, bytes: u64) {
        self.pass(now);
        self.quarters[self.current as usize % QUARTERS] += bytes;
    }

    /// Bytes will be written: they leave the bucket.
    pub(crate) fn reserve(&mut self, now: Instant, bytes: u64) {
        self.drip(now);
        self.bucket = self.bucket.saturating_sub(bytes);
    }

    /// How full the bucket is, of [`FULL`].
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
        // More than a day passed: the quarters between were all cleared above.
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
        fn no_day_takes_more_than_the_budget(
            steps in prop::collection::vec((0_u64..20_000, 0_u64..500), 1..400),
        ) {
            let mut wear = Wear::new(1000);
            let (mut now, mut written) = (Instant::ZERO, Vec::new());
            for (seconds, bytes) in steps {
                now = now + Duration::from_secs(seconds);
                let bytes = bytes.min(wear.left(now));
                wear.record(now, bytes);
                written.push((now, bytes));
                let of_day = written.iter().filter(|(at, _)| now.since(*at) < DAY);
                let sum: u64 = of_day.map(|(_, bytes)| bytes).sum();
                prop_assert!(sum <= 1000, "{sum}");
            }
            now = now + DAY + QUARTER;
            prop_assert_eq!(wear.left(now), 1000, "yesterday does not count");
        }
    }

    #[test]
    fn the_bucket_fills_with_a_days_part_of_the_budget() {
        let mut wear = Wear::new(86_400);
        wear.reserve(Instant::ZERO, 86_400);
        assert_eq!(wear.level(Instant::ZERO), 0);
        let hours = Duration::from_secs(3 * 3600);
        let level = wear.level(Instant::ZERO + hours);
        assert_eq!(level, FULL / 2);
    }
}
