//! Encoding and decoding of numbers.

use alloc::vec::Vec;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A checksum over several parts: the result of each is the seed of the next.
pub(super) fn checksum(parts: &[&[u8]]) -> u64 {
    let first = 0x6865_6164_6c6f_6e67;
    parts
        .iter()
        .fold(first, |seed, part| xxh3_64_with_seed(part, seed))
}

/// Decodes numbers from the front of a slice.
pub(super) struct ByteReader<'a>(pub(super) &'a [u8]);

impl ByteReader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// Checks that the next bytes equal `wanted`.
    pub(super) fn is(&mut self, wanted: &[u8; 8]) -> Option<()> {
        (self.take::<8>()? == *wanted).then_some(())
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn u128(&mut self) -> Option<u128> {
        self.take().map(u128::from_le_bytes)
    }
}

/// Appends numbers.
pub(super) trait ByteWriter {
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    fn u128(&mut self, value: u128);
}

impl ByteWriter for Vec<u8> {
    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn u128(&mut self, value: u128) {
        self.extend_from_slice(&value.to_le_bytes());
    }
}
