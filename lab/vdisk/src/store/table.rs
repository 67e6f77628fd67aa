//! The table of extents as a file: 40 bytes per run, little endian, after a head with a checksum.
//!
//! ```text
//! 0   8  magic
//! 8   8  number of runs
//! 16  8  checksum of all that follows (FNV-1a, 64 bits)
//! 24     runs: first page, pages, kind (or bytes of a head << 8 | kind), first word, step
//! ```

use super::extents::{ExtentMap, PageRun};
use super::sequence::{PAGE_BYTES, PageContent, WordSequence};

const MAGIC: &[u8; 8] = b"HLDISK01";
const HEAD_BYTES: usize = 24;
const RUN_WORDS: usize = 5;
const RUN_BYTES: usize = RUN_WORDS * 8;

const LITERAL: u64 = 0;
const SEQUENCE: u64 = 1;
const HEAD: u64 = 2;

pub(super) fn encode(extents: &ExtentMap) -> Vec<u8> {
    let mut runs = Vec::with_capacity(extents.count() * RUN_BYTES);
    for (first, run) in extents.iter() {
        let (kind, sequence) = match run.content {
            PageContent::Zero | PageContent::Literal => (LITERAL, WordSequence::ZERO),
            PageContent::Sequence(sequence) => (SEQUENCE, sequence),
            PageContent::Head(sequence, bytes) => (HEAD | u64::from(bytes) << 8, sequence),
        };
        for word in [first, run.pages, kind, sequence.first, sequence.step] {
            runs.extend_from_slice(&word.to_le_bytes());
        }
    }
    let mut table = Vec::with_capacity(HEAD_BYTES + runs.len());
    table.extend_from_slice(MAGIC);
    table.extend_from_slice(&(extents.count() as u64).to_le_bytes());
    table.extend_from_slice(&checksum(&runs).to_le_bytes());
    table.append(&mut runs);
    table
}

/// Decodes a table; returns the problem if it is invalid.
pub(super) fn decode(table: &[u8], capacity_bytes: u64) -> Result<ExtentMap, &'static str> {
    let (head, runs) = table
        .split_at_checked(HEAD_BYTES)
        .ok_or("it is too short")?;
    let (head, _) = head.as_chunks::<8>();
    if &head[0] != MAGIC {
        return Err("it is not a table of extents of this version");
    }
    let (runs, rest) = runs.as_chunks::<RUN_BYTES>();
    if !rest.is_empty() || runs.len() as u64 != u64::from_le_bytes(head[1]) {
        return Err("its length does not match its head");
    }
    if checksum(runs.as_flattened()) != u64::from_le_bytes(head[2]) {
        return Err("its checksum is wrong");
    }
    let pages = capacity_bytes / PAGE_BYTES as u64;
    let mut extents = ExtentMap::default();
    for run in runs {
        let (words, _) = run.as_chunks::<8>();
        let mut fields = [0; RUN_WORDS];
        for (field, word) in fields.iter_mut().zip(words) {
            *field = u64::from_le_bytes(*word);
        }
        let (first, run) = run_of(fields).ok_or("it holds a run of an unknown kind")?;
        let end = first.checked_add(run.pages);
        if end.is_none_or(|end| end > pages) {
            return Err("it holds a run beyond the end of the disk");
        }
        extents.put(first, run);
    }
    Ok(extents)
}

fn run_of([first, pages, kind, word, step]: [u64; RUN_WORDS]) -> Option<(u64, PageRun)> {
    let sequence = WordSequence { first: word, step };
    let bytes = kind >> 8;
    let content = match kind & 0xff {
        LITERAL => PageContent::Literal,
        SEQUENCE => PageContent::Sequence(sequence),
        HEAD if bytes <= PAGE_BYTES as u64 => PageContent::Head(sequence, bytes as u16),
        _ => return None,
    };
    Some((first, PageRun { pages, content }))
}

/// FNV-1a over words: enough to detect a torn or truncated file.
fn checksum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0xcbf2_9ce4_8422_2325, |sum, word| {
        (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 1 << 30;

    fn extents() -> ExtentMap {
        let sequence = WordSequence { first: 9, step: 4 };
        let mut extents = ExtentMap::default();
        for (first, pages, content) in [
            (3, 5, PageContent::Literal),
            (8, 1, PageContent::Head(sequence, 100)),
            (20, 1000, PageContent::Sequence(sequence)),
        ] {
            extents.put(first, PageRun { pages, content });
        }
        extents
    }

    #[test]
    fn table_is_read_back() {
        let table = encode(&extents());
        assert_eq!(decode(&table, CAPACITY), Ok(extents()));
    }

    #[test]
    fn damaged_table_is_rejected() {
        let table = encode(&extents());
        for cut in [0, 8, 23, 24, 60, table.len() - 1] {
            assert!(decode(&table[..cut], CAPACITY).is_err(), "{cut}");
        }
        for at in 0..table.len() {
            let mut wrong = table.clone();
            wrong[at] ^= 0x80;
            assert!(decode(&wrong, CAPACITY).is_err(), "{at}");
        }
        assert!(decode(&table, 1 << 20).is_err(), "a smaller disk");
    }
}
