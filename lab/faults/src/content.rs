//! Contents of files: generated from a key and an offset, so that every delivered byte can be
//! verified without storing any content.

use headlong_random::Generator;

/// Identifies one writing of one file; different keys give different bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ContentKey(pub(crate) u64);

impl ContentKey {
    /// A unique key.
    pub(crate) fn of(seed: u64, number: u64) -> Self {
        Self(Generator::new(seed).fork("content").fork_at(number).bits())
    }

    /// Eight bytes of the file.
    fn word(self, index: u64) -> [u8; 8] {
        // The finalizer of SplitMix64 (Steele, Lea, Flood 2014): consecutive inputs give unrelated
        // values.
        let mut bits = self.0 ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)).to_le_bytes()
    }

    /// Writes the bytes from `offset` on.
    pub(crate) fn fill(self, offset: u64, into: &mut [u8]) {
        let mut at = offset;
        let mut rest = into;
        while !rest.is_empty() {
            let word = self.word(at / 8);
            let from = (at % 8) as usize;
            let count = (8 - from).min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&word[from..from + count]);
            at += count as u64;
            rest = later;
        }
    }

    /// The offset of the first byte that differs from the content at `offset`.
    pub(crate) fn first_difference(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let word = self.word(at / 8);
            let from = (at % 8) as usize;
            let count = (8 - from).min(rest.len());
            let (now, later) = rest.split_at(count);
            if now != &word[from..from + count] {
                let wrong = now.iter().zip(&word[from..]).position(|(is, be)| is != be);
                return Some(at + wrong.unwrap_or(0) as u64);
            }
            at += count as u64;
            rest = later;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_consistent_and_wrong_byte_is_detected() {
        let key = ContentKey::of(1, 2);
        let mut whole = vec![0; 100];
        key.fill(0, &mut whole);
        for (from, to) in [(0, 100), (3, 8), (8, 17), (99, 100), (5, 5)] {
            let mut part = vec![0; to - from];
            key.fill(from as u64, &mut part);
            assert_eq!(part, whole[from..to]);
            assert_eq!(key.first_difference(from as u64, &part), None);
        }
        whole[42] ^= 1;
        assert_eq!(key.first_difference(0, &whole), Some(42));
        assert_ne!(ContentKey::of(1, 3), key);
    }
}
