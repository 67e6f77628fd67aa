//! Aligned memory for direct I/O.

use headlong_flash::RECORD_ALIGN_BYTES;

const ALIGN: usize = RECORD_ALIGN_BYTES as usize;

/// Zeroed bytes at an aligned address.
#[derive(Debug)]
pub(super) struct AlignedBytes {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBytes {
    /// Allocates `length` bytes, rounded up to the alignment.
    pub(super) fn new(length: usize) -> Self {
        let length = length.next_multiple_of(ALIGN);
        let bytes = vec![0; length + ALIGN];
        let start = bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self {
            bytes,
            start,
            length,
        }
    }

    /// A copy of these bytes, padded with zeros.
    pub(super) fn of(content: &[u8]) -> Self {
        let mut aligned = Self::new(content.len());
        aligned.as_mut()[..content.len()].copy_from_slice(content);
        aligned
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl AsMut<[u8]> for AlignedBytes {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_long_enough() {
        for length in [0, 1, 4096, 5000] {
            let content = vec![7; length];
            let aligned = AlignedBytes::of(&content);
            assert_eq!(aligned.as_ref().as_ptr().align_offset(ALIGN), 0);
            assert_eq!(aligned.as_ref().len(), length.next_multiple_of(ALIGN));
            assert_eq!(aligned.as_ref()[..length], content);
        }
    }
}
