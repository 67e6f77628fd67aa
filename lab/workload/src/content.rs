//! The bytes of a title: an arithmetic sequence of 64-bit words. Any byte can be verified on its
//! own, and a block can be stored as eight bytes.
//!
//! Word `i` of a title (bytes `8 i .. 8 i + 8`, little endian) is `start + i * step` modulo 2^64;
//! both follow from the title's number. The step is odd and differs between titles, so a page of
//! one title never equals a page of another, nor another page of the same title.

/// First word and step of a title's sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Word 0.
    pub start: u64,
    /// Difference of consecutive words; odd.
    pub step: u64,
}

impl Content {
    /// The content of title `title`.
    pub const fn of_title(title: u64) -> Self {
        let start = mix(title.wrapping_mul(2));
        Self {
            start,
            step: mix(title.wrapping_mul(2).wrapping_add(1)) | 1,
        }
    }

    /// Word `index`.
    pub const fn word(&self, index: u64) -> u64 {
        self.start.wrapping_add(index.wrapping_mul(self.step))
    }

    /// Writes the bytes from `offset` into `buffer`.
    pub fn fill(&self, offset: u64, buffer: &mut [u8]) {
        let (head, rest) = buffer.split_at_mut(bytes_to_word(offset).min(buffer.len()));
        self.fill_part(offset, head);
        let first = offset.div_ceil(8);
        let mut word = self.word(first);
        let (words, tail) = rest.as_chunks_mut::<8>();
        for target in words.iter_mut() {
            *target = word.to_le_bytes();
            word = word.wrapping_add(self.step);
        }
        self.fill_part((first + words.len() as u64) * 8, tail);
    }

    /// Index of the first wrong byte in `bytes`, which were read at `offset`; `None` if all are
    /// correct.
    pub fn first_wrong(&self, offset: u64, bytes: &[u8]) -> Option<usize> {
        let (head, rest) = bytes.split_at(bytes_to_word(offset).min(bytes.len()));
        if let Some(at) = self.first_wrong_part(offset, head) {
            return Some(at);
        }
        let first = offset.div_ceil(8);
        let (words, tail) = rest.as_chunks::<8>();
        let mut word = self.word(first);
        // Differences are accumulated and checked once, so that the loop has no branch.
        let mut difference = 0;
        for found in words {
            difference |= u64::from_le_bytes(*found) ^ word;
            word = word.wrapping_add(self.step);
        }
        if difference != 0 {
            return self.first_wrong_part(offset, bytes);
        }
        let behind = head.len() + words.len() * 8;
        let in_tail = self.first_wrong_part((first + words.len() as u64) * 8, tail);
        in_tail.map(|at| behind + at)
    }

    fn byte(&self, offset: u64) -> u8 {
        self.word(offset / 8).to_le_bytes()[(offset % 8) as usize]
    }

    fn fill_part(&self, offset: u64, buffer: &mut [u8]) {
        for (at, byte) in (offset..).zip(buffer) {
            *byte = self.byte(at);
        }
    }

    fn first_wrong_part(&self, offset: u64, bytes: &[u8]) -> Option<usize> {
        let mut places = (offset..).zip(bytes);
        places.position(|(at, byte)| *byte != self.byte(at))
    }
}

/// Bytes from `offset` to the next word boundary.
const fn bytes_to_word(offset: u64) -> usize {
    (offset.wrapping_neg() % 8) as usize
}

/// SplitMix64's finaliser: consecutive titles get unrelated sequences.
const fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn any_range_can_be_verified_alone() {
        let content = Content::of_title(17);
        let mut whole = vec![0; 4096];
        content.fill(0, &mut whole);
        for (from, to) in [(0, 4096), (1, 9), (7, 8), (8, 24), (13, 13), (1000, 3001)] {
            let mut part = vec![0; to - from];
            content.fill(from as u64, &mut part);
            assert_eq!(part, whole[from..to]);
            assert_eq!(content.first_wrong(from as u64, &part), None);
        }
    }

    #[test]
    fn finds_single_wrong_byte_at_any_position() {
        let content = Content::of_title(3);
        for wrong in 0..67 {
            let mut part = vec![0; 67];
            content.fill(5, &mut part);
            part[wrong] ^= 0x10;
            assert_eq!(content.first_wrong(5, &part), Some(wrong));
        }
    }

    #[test]
    fn detects_other_title_and_other_offset() {
        let content = Content::of_title(3);
        let mut part = vec![0; 64];
        Content::of_title(4).fill(0, &mut part);
        assert!(content.first_wrong(0, &part).is_some());
        content.fill(4096, &mut part);
        assert!(content.first_wrong(0, &part).is_some());
    }
}
