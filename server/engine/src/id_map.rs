//! Hash tables keyed by ids.
//!
//! Every piece that is sent looks up its request, its stream and its chain several times; a search
//! tree misses the cache at each level, a hash table once. Ids are hashed by a multiplication that
//! is the same in every run.
//!
//! Invariant: no result depends on the iteration order of a table; among equals the lower id
//! decides.

use core::hash::{BuildHasherDefault, Hasher};

/// A table from an id to its value.
pub(crate) type IdMap<K, V> = hashbrown::HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// 2^64 over the golden ratio, odd.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes ids evenly, whatever bits they share.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The table uses the lowest and the highest bits. The lowest bits of a product depend only
        // on the number's lowest bits, its highest bits on all of them; so both halves are
        // combined.
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
    fn numbers_with_equal_low_bits_are_spread() {
        for step in [1, 1 << 20, 1 << 40, 1 << 52] {
            let mut places = [0_u32; 64];
            let mut map = IdMap::default();
            for number in 0..4096_u64 {
                let key = number.wrapping_mul(step);
                let mut hasher = IdHasher::default();
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
