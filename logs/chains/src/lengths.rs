//! How many chains have which length, in as much memory as there are different lengths.

use alloc::vec::Vec;

/// Lengths that may wait to be counted before there are many counted ones.
const PENDING_MIN: usize = 1 << 14;

/// A multiset of lengths. Millions of chains share their lengths, as requests have few sizes.
#[derive(Debug, Clone, Default)]
pub struct Lengths {
    counted: Vec<(u64, u64)>,
    pending: Vec<u64>,
    total: u64,
}

impl Lengths {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in one more length, bytes.
    pub fn add(&mut self, length: u64) {
        self.total += 1;
        self.pending.push(length);
        if self.pending.len() >= PENDING_MIN.max(self.counted.len()) {
            self.count_pending();
        }
    }

    /// Takes in those of another part of the log.
    pub fn merge(&mut self, mut other: Self) {
        self.count_pending();
        other.count_pending();
        self.total += other.total;
        self.counted.append(&mut other.counted);
        self.sum_up();
    }

    /// How many lengths were taken in.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Each different length, ascending, and how many chains have it.
    pub fn counted(&mut self) -> &[(u64, u64)] {
        self.count_pending();
        &self.counted
    }

    fn count_pending(&mut self) {
        if !self.pending.is_empty() {
            self.counted
                .extend(self.pending.drain(..).map(|length| (length, 1)));
            self.sum_up();
        }
    }

    fn sum_up(&mut self) {
        // What was counted before is in order already, which this sort makes use of.
        self.counted.sort_by_key(|&(length, _)| length);
        self.counted.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 += if is_same { next.1 } else { 0 };
            is_same
        });
    }
}

impl FromIterator<u64> for Lengths {
    fn from_iter<I: IntoIterator<Item = u64>>(lengths: I) -> Self {
        let mut all = Self::new();
        lengths.into_iter().for_each(|length| all.add(length));
        all
    }
}
