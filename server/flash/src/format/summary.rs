//! A block's summary: which records lie in it, with one checksum over all.

use alloc::vec::Vec;

use super::bytes::{Reader, Writer, checksum};
use super::layout::{ENTRY_BYTES, Layout, SUMMARY_HEAD_BYTES};
use super::record::padded_bytes;
use crate::names::{FileKey, PieceId, RECORD_ALIGN_BYTES};
use crate::spec::RecordEntry;

const MAGIC: &[u8; 8] = b"HLBLOCK\0";

/// What a summary says of the block as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryHead {
    /// The block, as this SSD counts.
    pub block: u32,
    /// Entries.
    pub count: u32,
    /// Which filling of the block: drawn anew each time one is begun, so that no record of an earlier one is
    /// taken for one of this.
    pub filling: u64,
    /// The engine's number; grows with every block that it seals.
    pub sequence: u64,
    /// Whose disk's bytes they are.
    pub owner: u64,
    /// When it was sealed, in seconds since 1970; what was written lately is counted by it.
    pub sealed_s: u64,
}

/// A block's summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Of the whole.
    pub head: SummaryHead,
    /// Its records, from front to back.
    pub entries: Vec<RecordEntry>,
}

impl SummaryHead {
    /// Of the first bytes of a block: whether they look like the summary of this block, and how long
    /// it is; to know how much more is to be read. Nothing is believed yet.
    pub fn peek(bytes: &[u8], device: u128, block: u32, layout: &Layout) -> Option<usize> {
        let (head, _) = read_head(bytes, device)?;
        let fits = head.block == block && head.count <= layout.records_max();
        fits.then(|| SUMMARY_HEAD_BYTES + head.count as usize * ENTRY_BYTES)
    }
}

fn read_head(bytes: &[u8], device: u128) -> Option<(SummaryHead, u64)> {
    let mut reader = Reader(bytes);
    reader.is(MAGIC)?;
    if reader.u32()? != super::FORMAT_VERSION {
        return None;
    }
    let block = reader.u32()?;
    if reader.u128()? != device {
        return None;
    }
    let filling = reader.u64()?;
    let sequence = reader.u64()?;
    let owner = reader.u64()?;
    let sealed_s = reader.u64()?;
    let count = reader.u32()?;
    reader.u32()?;
    let head = SummaryHead {
        block,
        count,
        filling,
        sequence,
        owner,
        sealed_s,
    };
    Some((head, reader.u64()?))
}

impl Summary {
    /// Its bytes, without padding.
    pub fn encode(&self, device: u128) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SUMMARY_HEAD_BYTES + self.entries.len() * ENTRY_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.u32(super::FORMAT_VERSION);
        bytes.u32(self.head.block);
        bytes.u128(device);
        bytes.u64(self.head.filling);
        bytes.u64(self.head.sequence);
        bytes.u64(self.head.owner);
        bytes.u64(self.head.sealed_s);
        bytes.u32(self.entries.len() as u32);
        bytes.u32(0);
        bytes.u64(0);
        for entry in &self.entries {
            bytes.u128(entry.piece.file.0);
            bytes.u32(entry.piece.piece);
            bytes.u32(entry.offset);
            bytes.u32(entry.length);
            bytes.u32(0);
        }
        let (head, entries) = bytes.split_at(SUMMARY_HEAD_BYTES);
        let sum = checksum(&[&head[..SUMMARY_HEAD_BYTES - 8], entries]);
        bytes[SUMMARY_HEAD_BYTES - 8..SUMMARY_HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The summary at the front of `bytes`, whatever block of the SSD it is of, and how long it is.
    /// `None` if it is damaged, of another SSD, or says what cannot be.
    pub fn decode(bytes: &[u8], device: u128, layout: &Layout) -> Option<(Self, usize)> {
        let (head, sum) = read_head(bytes, device)?;
        if head.count > layout.records_max() || head.block >= layout.block_count() {
            return None;
        }
        let length = SUMMARY_HEAD_BYTES + head.count as usize * ENTRY_BYTES;
        let entries = bytes.get(SUMMARY_HEAD_BYTES..length)?;
        if checksum(&[&bytes[..SUMMARY_HEAD_BYTES - 8], entries]) != sum {
            return None;
        }
        let mut end = u64::from(layout.summary_bytes());
        let mut read = Vec::with_capacity(head.count as usize);
        for entry in entries.chunks_exact(ENTRY_BYTES) {
            let mut reader = Reader(entry);
            let entry = RecordEntry {
                piece: PieceId {
                    file: FileKey(reader.u128()?),
                    piece: reader.u32()?,
                },
                offset: reader.u32()?,
                length: reader.u32()?,
            };
            let fits = entry.offset.is_multiple_of(RECORD_ALIGN_BYTES)
                && u64::from(entry.offset) >= end
                && (1..=layout.piece_bytes()).contains(&entry.length);
            end = u64::from(entry.offset) + padded_bytes(entry.length);
            if !fits || end > u64::from(layout.block_bytes()) {
                return None;
            }
            read.push(entry);
        }
        let entries = read;
        Some((Self { head, entries }, length))
    }

    /// The same at the start of a block.
    pub fn of_block(bytes: &[u8], device: u128, block: u32, layout: &Layout) -> Option<Self> {
        let (summary, _) = Self::decode(bytes, device, layout)?;
        (summary.head.block == block).then_some(summary)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn layout() -> Layout {
        Layout::new(40 << 20, 256 << 10, 64 << 10).expect("fits")
    }

    /// A summary of `count` records of a page each.
    pub(crate) fn summary(block: u32, count: u32) -> Summary {
        let entry = |index| RecordEntry {
            piece: PieceId {
                file: FileKey(u128::from(index % 3)),
                piece: index + block,
            },
            offset: layout().summary_bytes() + index * 8192,
            length: 4096 - index % 100,
        };
        Summary {
            head: SummaryHead {
                block,
                count,
                filling: u64::from(block) + 10,
                sequence: u64::from(block) + 20,
                owner: 5,
                sealed_s: 6,
            },
            entries: (0..count).map(entry).collect(),
        }
    }

    #[test]
    fn a_summary_is_read_as_written_at_its_block_of_its_ssd_only() {
        let layout = layout();
        for count in [0, 1, layout.records_max()] {
            let written = summary(3, count);
            let bytes = written.encode(9);
            assert!(bytes.len() <= layout.summary_bytes() as usize);
            assert_eq!(SummaryHead::peek(&bytes, 9, 3, &layout), Some(bytes.len()));
            assert_eq!(Summary::of_block(&bytes, 9, 3, &layout), Some(written));
            assert_eq!(Summary::of_block(&bytes, 8, 3, &layout), None);
            assert_eq!(Summary::of_block(&bytes, 9, 4, &layout), None);
        }
    }

    #[test]
    fn one_bit_that_flips_is_found() {
        let bytes = summary(3, 4).encode(9);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = Summary::of_block(&bytes, 9, 3, &layout());
            assert_eq!(read, None, "bit {bit}");
        }
    }

    #[test]
    fn records_that_overlap_or_end_behind_the_block_are_none() {
        let layout = layout();
        let wrong = |change: fn(&mut RecordEntry)| {
            let mut summary = summary(3, 3);
            change(&mut summary.entries[1]);
            Summary::of_block(&summary.encode(9), 9, 3, &layout)
        };
        assert!(wrong(|_| ()).is_some());
        assert!(
            wrong(|entry| entry.offset -= 4096).is_none(),
            "overlaps the first"
        );
        assert!(wrong(|entry| entry.offset += 1).is_none(), "not aligned");
        assert!(
            wrong(|entry| entry.length = 4097).is_none(),
            "overlaps the third"
        );
        assert!(wrong(|entry| entry.length = 0).is_none());
        assert!(wrong(|entry| entry.length = u32::MAX).is_none());
        assert!(wrong(|entry| entry.offset = u32::MAX - 4095).is_none());
    }
}
