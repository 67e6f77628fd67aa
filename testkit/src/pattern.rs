//! Verifiable content: a title's bytes are an arithmetic sequence of 64-bit words (little endian),
//! whose start and step follow from the title's number.
//!
//! Any wrong byte order, title, offset or stale buffer shows at the first word, and verification
//! needs neither the file nor memory for it. A new version of a file is another title number.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

const WORD_BYTES: u64 = 8;

/// A wrong byte.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("title {title}: byte {offset} is {found:#04x} instead of {expected:#04x}")]
pub struct Mismatch {
    /// The title whose bytes were expected.
    pub title: u64,
    /// Offset of the first wrong byte in the title.
    pub offset: u64,
    /// The correct byte.
    pub expected: u8,
    /// The byte found.
    pub found: u8,
}

/// The finaliser of SplitMix64: every title gets unrelated words, zero included.
const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Start and step of a title's sequence. The step is odd, so that no word repeats within 2^64.
const fn sequence(title: u64) -> (u64, u64) {
    let start = mix(title);
    (start, mix(start) | 1)
}

/// Fills `buffer` with the bytes of `title` from `offset` on.
pub fn fill(title: u64, offset: u64, buffer: &mut [u8]) {
    let (start, step) = sequence(title);
    let mut word_index = offset / WORD_BYTES;
    let mut skip = (offset % WORD_BYTES) as usize;
    let mut rest = buffer;
    while !rest.is_empty() {
        let word = start
            .wrapping_add(step.wrapping_mul(word_index))
            .to_le_bytes();
        let part = &word[skip..];
        let length = part.len().min(rest.len());
        let (head, tail) = rest.split_at_mut(length);
        head.copy_from_slice(&part[..length]);
        rest = tail;
        skip = 0;
        word_index += 1;
    }
}

/// Verifies that `bytes` are those of `title` from `offset` on; returns the first that is not.
pub fn verify(title: u64, offset: u64, bytes: &[u8]) -> Result<(), Mismatch> {
    let mut expected = [0u8; 4096];
    let mut at = offset;
    for chunk in bytes.chunks(expected.len()) {
        let expected = &mut expected[..chunk.len()];
        fill(title, at, expected);
        if chunk != expected {
            let wrong = chunk.iter().zip(expected.iter()).position(|(a, b)| a != b);
            let wrong = wrong.expect("the slices differ somewhere");
            return Err(Mismatch {
                title,
                offset: at + wrong as u64,
                expected: expected[wrong],
                found: chunk[wrong],
            });
        }
        at += chunk.len() as u64;
    }
    Ok(())
}

/// The bytes of `title` in `range`, as a vector.
pub fn bytes(title: u64, range: std::ops::Range<u64>) -> Vec<u8> {
    let length = range.end.saturating_sub(range.start);
    let mut buffer = vec![0; usize::try_from(length).expect("the range fits into memory")];
    fill(title, range.start, &mut buffer);
    buffer
}

/// Writes a file with the first `size_bytes` bytes of `title`, and makes it durable.
pub fn write_file(path: &Path, title: u64, size_bytes: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < size_bytes {
        let length = (size_bytes - at).min(buffer.len() as u64);
        let part = &mut buffer[..length as usize];
        fill(title, at, part);
        file.write_all(part)?;
        at += length;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_of_title_has_same_bytes() {
        let whole = bytes(7, 0..10_000);
        for (start, end) in [
            (0, 1),
            (1, 9),
            (7, 8),
            (8, 4104),
            (4095, 9_999),
            (9_999, 10_000),
        ] {
            assert_eq!(bytes(7, start..end), whole[start as usize..end as usize]);
            verify(7, start, &whole[start as usize..end as usize]).expect("right bytes");
        }
    }

    #[test]
    fn flipped_bit_is_located() {
        let mut data = bytes(3, 1_000..9_000);
        data[4_567] ^= 0x10;
        let wrong = verify(3, 1_000, &data).expect_err("a mismatch");
        assert_eq!(wrong.offset, 5_567);
        assert_eq!(wrong.expected ^ wrong.found, 0x10);
    }

    #[test]
    fn wrong_title_or_offset_is_detected() {
        let data = bytes(3, 4_096..8_192);
        assert!(verify(4, 4_096, &data).is_err());
        assert!(verify(3, 0, &data).is_err());
        assert!(verify(3, 4_104, &data).is_err());
    }
}
