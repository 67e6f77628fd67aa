//! Histogram of chain lengths in bounded memory.

use alloc::vec::Vec;

use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};

/// Distinct lengths kept before they are rounded.
const LENGTHS_MAX: usize = 4 << 20;
/// Lengths buffered before sorting.
const WAITING_MAX: usize = 1 << 18;
/// Significant bits kept once there are too many lengths: steps of 0.02 %.
const ROUNDED_BITS: u32 = 12;

/// Lengths with their counts: exact up to four million distinct lengths, in steps of 0.02 % beyond.
///
/// Serialised in order, so that equal counts have equal bytes, however they were added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct LengthCounts {
    runs: Vec<(u64, u64)>,
    #[serde(skip)]
    waiting: Vec<u64>,
    is_rounded: bool,
}

impl Serialize for LengthCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sorted = self.clone();
        sorted.sort_in();
        let mut fields = serializer.serialize_struct("LengthCounts", 2)?;
        fields.serialize_field("runs", &sorted.runs)?;
        fields.serialize_field("is_rounded", &sorted.is_rounded)?;
        fields.end()
    }
}

impl LengthCounts {
    /// Most memory that one instance uses, bytes.
    pub const BYTES_MAX: usize = 2 * 16 * LENGTHS_MAX + 8 * WAITING_MAX;

    /// Counts a length.
    pub fn add(&mut self, length: u64) {
        self.waiting.push(self.kept(length));
        if self.waiting.len() >= WAITING_MAX {
            self.sort_in();
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, mut other: Self) {
        other.sort_in();
        self.sort_in();
        if other.is_rounded && !self.is_rounded {
            self.round();
        }
        let rounded: Vec<_> = other
            .runs
            .iter()
            .map(|(v, n)| (self.kept(*v), *n))
            .collect();
        self.runs = merged(&self.runs, &rounded);
        self.bound();
    }

    /// Lengths in ascending order with their counts.
    pub fn runs(&mut self) -> &[(u64, u64)] {
        self.sort_in();
        &self.runs
    }

    /// Whether lengths were rounded because there were too many distinct ones.
    pub const fn is_rounded(&self) -> bool {
        self.is_rounded
    }

    fn kept(&self, length: u64) -> u64 {
        let bits = u64::BITS - length.leading_zeros();
        match self.is_rounded && bits > ROUNDED_BITS {
            true => length >> (bits - ROUNDED_BITS) << (bits - ROUNDED_BITS),
            false => length,
        }
    }

    fn round(&mut self) {
        self.is_rounded = true;
        let rounded: Vec<_> = self.runs.iter().map(|(v, n)| (self.kept(*v), *n)).collect();
        self.runs = merged(&rounded, &[]);
    }

    fn sort_in(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        self.waiting.sort_unstable();
        let new: Vec<_> = self.waiting.drain(..).map(|length| (length, 1)).collect();
        self.runs = merged(&self.runs, &new);
        self.bound();
    }

    fn bound(&mut self) {
        if self.runs.len() > LENGTHS_MAX && !self.is_rounded {
            self.round();
        }
    }
}

/// Merges two sorted lists; each length occurs once.
fn merged(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::with_capacity(a.len() + b.len());
    let mut push = |(length, count): (u64, u64)| match all.last_mut() {
        Some(last) if last.0 == length => last.1 += count,
        _ => all.push((length, count)),
    };
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if x.0 <= y.0 => a.next(),
            (_, Some(_)) => b.next(),
            (Some(_), None) => a.next(),
            (None, None) => break,
        };
        next.into_iter().for_each(&mut push);
    }
    all
}

impl FromIterator<u64> for LengthCounts {
    fn from_iter<I: IntoIterator<Item = u64>>(lengths: I) -> Self {
        let mut all = Self::default();
        lengths.into_iter().for_each(|length| all.add(length));
        all
    }
}
