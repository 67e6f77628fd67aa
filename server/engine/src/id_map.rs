//! Tables whose keys are numbers that name something.
//!
//! The one idea: every piece that is sent asks for its request, its stream and its chain several times,
//! and a search tree misses the cache at each of its levels where a hash table does once. Numbers are
//! spread by a multiplication that is the same in every run.
//!
//! Invariant: nothing depends on the order in which a table is gone through; where one of several is
//! chosen, its number decides between equals.

use core::hash::{BuildHasherDefault, Hasher};

/// A table from a name to what has it.
pub(crate) type IdMap<K, V> = hashbrown::HashMap<K, V, BuildHasherDefault<Spread>>;

/// 2^64 over the golden ratio, odd.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads numbers evenly, whatever they have in common.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The table looks at the lowest bits and at the highest. The lowest of a product know only the
        // number's lowest, and its highest all of them: so both halves of it.
        let product = u128::from(self.0 ^ number) * u128::from(FACTOR);
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::StreamId;

    #[test]
    fn numbers_that_have_their_lowest_bits_in_common_are_still_spread() {
        for step in [1, 1 << 20, 1 << 40, 1 << 52] {
            let mut places = [0_u32; 64];
            let mut map = IdMap::default();
            for number in 0..4096_u64 {
                let key = number.wrapping_mul(step);
                let mut hasher = Spread::default();
                hasher.write_u64(key);
                places[(hasher.finish() % 64) as usize] += 1;
                map.insert(StreamId(key), number);
            }
            let most = places.into_iter().max().unwrap_or(0);
            assert!(
                most < 3 * 4096 / 64,
                "{most} of 4096 in one of 64, step {step}"
            );
            let last = 4095_u64;
            assert_eq!(map.get(&StreamId(last.wrapping_mul(step))), Some(&last));
        }
    }
}
