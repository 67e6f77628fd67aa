//! Pages that follow a rule: their 64-bit little-endian words form an arithmetic sequence.
//!
//! The rule is recognised from the content alone. Zeros and any repeated word are sequences with
//! step 0. A page that starts with a sequence and ends in zeros is the last page of a file, padded
//! by the kernel.

/// Bytes of a page: the smallest write of file systems and the page cache.
pub const PAGE_BYTES: usize = 4096;
const WORDS: u64 = (PAGE_BYTES / 8) as u64;
/// Fewer bytes do not determine a step.
const HEAD_BYTES_MIN: usize = 16;

/// An arithmetic sequence of 64-bit words, modulo 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WordSequence {
    /// Word 0.
    pub first: u64,
    /// Difference between consecutive words.
    pub step: u64,
}

/// Content of a page; see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageContent {
    /// Only zeros: nothing is stored.
    Zero,
    /// A sequence over the whole page.
    Sequence(WordSequence),
    /// So many bytes of a sequence, then zeros.
    Head(WordSequence, u16),
    /// Anything else, stored literally.
    Literal,
}

impl PageContent {
    /// Classifies a page.
    pub fn of_page(page: &[u8; PAGE_BYTES]) -> Self {
        let sequence = WordSequence::from_start(page);
        if sequence.is_page(page) {
            return if sequence == WordSequence::ZERO {
                Self::Zero
            } else {
                Self::Sequence(sequence)
            };
        }
        if page[PAGE_BYTES - 1] != 0 {
            return Self::Literal;
        }
        let bytes = page
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        if bytes > HEAD_BYTES_MIN && sequence.starts(&page[..bytes]) {
            Self::Head(sequence, bytes as u16)
        } else {
            Self::Literal
        }
    }

    /// The content `pages` pages further on.
    #[must_use]
    pub fn skip(self, pages: u64) -> Self {
        match self {
            Self::Sequence(sequence) => Self::Sequence(sequence.skip(pages)),
            other => other,
        }
    }

    /// Whether `next` continues this content after `pages` pages.
    pub fn continues(self, pages: u64, next: Self) -> bool {
        match self {
            Self::Head(..) => false,
            _ => self.skip(pages) == next,
        }
    }
}

impl WordSequence {
    /// All words zero.
    pub const ZERO: Self = Self { first: 0, step: 0 };

    /// The sequence defined by the first two words.
    fn from_start(page: &[u8; PAGE_BYTES]) -> Self {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&page[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let first = word(0);
        Self {
            first,
            step: word(8).wrapping_sub(first),
        }
    }

    /// The sequence `pages` pages further on.
    #[must_use]
    pub fn skip(self, pages: u64) -> Self {
        let words = pages.wrapping_mul(WORDS);
        Self {
            first: self.first.wrapping_add(words.wrapping_mul(self.step)),
            ..self
        }
    }

    /// Whether the whole page follows this sequence, given that its first words do.
    fn is_page(self, page: &[u8; PAGE_BYTES]) -> bool {
        let (words, _) = page.as_chunks::<8>();
        // Most pages without a sequence show it at once.
        if !self.follows(&words[..8]) {
            return false;
        }
        self.follows(words)
    }

    /// Whether consecutive words differ by the step. Differences are accumulated and tested once:
    /// without branches the loop is vectorised.
    fn follows(self, words: &[[u8; 8]]) -> bool {
        let mut difference = 0;
        for (word, next) in words.iter().zip(&words[1..]) {
            let step = u64::from_le_bytes(*next).wrapping_sub(u64::from_le_bytes(*word));
            difference |= step ^ self.step;
        }
        difference == 0
    }

    /// Whether the sequence begins with these bytes.
    fn starts(self, bytes: &[u8]) -> bool {
        let (words, tail) = bytes.as_chunks::<8>();
        let mut word = self.first;
        for found in words {
            if u64::from_le_bytes(*found) != word {
                return false;
            }
            word = word.wrapping_add(self.step);
        }
        word.to_le_bytes().starts_with(tail)
    }

    /// Writes the sequence from word 0 on into `buffer`; the last word may be truncated.
    pub fn fill(self, buffer: &mut [u8]) {
        const LANES: usize = 8;
        let mut lanes = [0u64; LANES];
        for (lane, index) in lanes.iter_mut().zip(0..) {
            *lane = self.first.wrapping_add(self.step.wrapping_mul(index));
        }
        let stride = self.step.wrapping_mul(LANES as u64);
        let (blocks, rest) = buffer.as_chunks_mut::<{ LANES * 8 }>();
        for block in blocks {
            let (words, _) = block.as_chunks_mut::<8>();
            for (word, lane) in words.iter_mut().zip(&mut lanes) {
                *word = lane.to_le_bytes();
                *lane = lane.wrapping_add(stride);
            }
        }
        for (word, lane) in rest.chunks_mut(8).zip(lanes) {
            word.copy_from_slice(&lane.to_le_bytes()[..word.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEQUENCE: WordSequence = WordSequence {
        first: 0xfedc_ba98_7654_3210,
        step: 0x9e37_79b9_7f4a_7c15,
    };

    fn page(sequence: WordSequence) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        sequence.fill(&mut page);
        page
    }

    #[test]
    fn sequence_page_is_recognised_and_restored() {
        let sequences = [
            SEQUENCE,
            WordSequence { first: 7, step: 0 },
            WordSequence { first: 0, step: 1 },
            WordSequence {
                first: u64::MAX,
                step: u64::MAX,
            },
        ];
        for sequence in sequences {
            assert_eq!(
                PageContent::of_page(&page(sequence)),
                PageContent::Sequence(sequence)
            );
        }
        assert_eq!(PageContent::of_page(&[0; PAGE_BYTES]), PageContent::Zero);
    }

    #[test]
    fn one_wrong_byte_makes_page_literal() {
        for at in (0..PAGE_BYTES).step_by(61).chain([PAGE_BYTES - 1]) {
            let mut page = page(SEQUENCE);
            page[at] ^= 0x40;
            assert_eq!(
                PageContent::of_page(&page),
                PageContent::Literal,
                "byte {at}"
            );
        }
    }

    #[test]
    fn last_page_of_file_is_head_of_sequence() {
        for bytes in [17, 24, 100, 4000, 4095] {
            let mut page = page(SEQUENCE);
            page[bytes..].fill(0);
            let PageContent::Head(sequence, found) = PageContent::of_page(&page) else {
                panic!("{bytes} bytes: {:?}", PageContent::of_page(&page));
            };
            // Bytes of the sequence that happen to be zero may fall to either side.
            assert!(sequence == SEQUENCE && usize::from(found) <= bytes);
            let mut again = [0; PAGE_BYTES];
            sequence.fill(&mut again[..usize::from(found)]);
            assert!(again == page);
        }
        let mut odd = page(SEQUENCE);
        odd[2000..].fill(0);
        odd[1000] ^= 1;
        assert_eq!(PageContent::of_page(&odd), PageContent::Literal);
    }

    #[test]
    fn sequence_continues_over_pages() {
        let mut two = [0; 2 * PAGE_BYTES];
        SEQUENCE.fill(&mut two);
        assert!(two[PAGE_BYTES..] == page(SEQUENCE.skip(1)));
        let content = PageContent::Sequence(SEQUENCE);
        assert!(content.continues(3, PageContent::Sequence(SEQUENCE.skip(3))));
        assert!(!content.continues(3, PageContent::Sequence(SEQUENCE.skip(2))));
        assert!(PageContent::Literal.continues(9, PageContent::Literal));
        assert!(!PageContent::Literal.continues(9, PageContent::Zero));
    }
}
