//! How many chains have which length, in bounded memory.

use alloc::vec::Vec;

/// Different lengths that are kept before they are rounded.
const LENGTHS_MAX: usize = 4 << 20;
/// Lengths that wait to be sorted in.
const WAITING_MAX: usize = 1 << 18;
/// Bits of a length that are kept once there are too many: 0.02 % apart.
const ROUNDED_BITS: u32 = 12;

/// Lengths with how often each came: exact as long as there are at most four million different
/// ones, 0.02 % apart after that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lengths {
    runs: Vec<(u64, u64)>,
    waiting: Vec<u64>,
    is_rounded: bool,
}

impl Lengths {
    /// Most bytes of memory that one takes.
    pub const BYTES_MAX: usize = 2 * 16 * LENGTHS_MAX + 8 * WAITING_MAX;

    /// One more.
    pub fn add(&mut self, length: u64) {
        self.waiting.push(self.kept(length));
        if self.waiting.len() >= WAITING_MAX {
            self.sort_in();
        }
    }

    /// Those of another too.
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

    /// Lengths in rising order, each with how often it came.
    pub fn runs(&mut self) -> &[(u64, u64)] {
        self.sort_in();
        &self.runs
    }

    /// Whether lengths were rounded because there were too many different ones.
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

/// Two sorted lists as one, each length once.
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

impl FromIterator<u64> for Lengths {
    fn from_iter<I: IntoIterator<Item = u64>>(lengths: I) -> Self {
        let mut all = Self::default();
        lengths.into_iter().for_each(|length| all.add(length));
        all
    }
}
