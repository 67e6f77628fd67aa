//! Block summary: the records of a block, with one checksum.
//!
//! Records usually arrive as they were read: many consecutive pieces of one title. A summary
//! therefore stores runs: consecutive pieces of one file, of the same length, without a gap.
//! Recovery of a tier of terabytes reads a twentieth of the bytes that single entries would take,
//! and a run of one record takes no more space than a single entry.

use alloc::vec::Vec;

use super::bytes::{ByteReader, ByteWriter, checksum};
use super::layout::{Layout, RUN_BYTES, SUMMARY_HEAD_BYTES};
use super::record::padded_bytes;
use crate::names::{FileKey, PieceId, RECORD_ALIGN_BYTES};
use crate::spec::RecordEntry;

const MAGIC: &[u8; 8] = b"HLBLOCK\0";
/// Offset of the number of runs in the head.
const RUNS_AT: usize = 68;

/// Head of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryHead {
    /// The block, numbered within the SSD.
    pub block: u32,
    /// Number of entries.
    pub count: u32,
    /// Generation of the block, new for each fill, so that records of an earlier fill are never
    /// mistaken for records of this one.
    pub filling: u64,
    /// Sequence number of the engine; grows with every block it seals.
    pub sequence: u64,
    /// Persistent name of the disk that the bytes belong to.
    pub owner: u64,
    /// Seal time in seconds since 1970, used to count recent writes.
    pub sealed_s: u64,
}

/// A block's summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The head.
    pub head: SummaryHead,
    /// Records in ascending order of offset.
    pub entries: Vec<RecordEntry>,
}

impl SummaryHead {
    /// Checks whether bytes at the place of a summary look like one of this block, and returns its
    /// length, which tells how much more to read. Not verified yet.
    pub fn peek(bytes: &[u8], device: u128, block: u32, layout: &Layout) -> Option<usize> {
        let (head, runs, _) = read_head(bytes, device)?;
        let fits = head.block == block && head.count <= layout.records_max();
        fits.then(|| SUMMARY_HEAD_BYTES + runs as usize * RUN_BYTES)
    }
}

/// Decodes the head, the number of runs (no more than records), and the checksum.
fn read_head(bytes: &[u8], device: u128) -> Option<(SummaryHead, u32, u64)> {
    let mut reader = ByteReader(bytes);
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
    let runs = reader.u32()?;
    let head = SummaryHead {
        block,
        count,
        filling,
        sequence,
        owner,
        sealed_s,
    };
    (runs <= count).then_some((head, runs, reader.u64()?))
}

/// Number of leading records that form one run.
fn run_length(entries: &[RecordEntry]) -> usize {
    let follows = |pair: &[RecordEntry]| {
        let [one, next] = pair else {
            return false;
        };
        next.piece.file == one.piece.file
            && Some(next.piece.piece) == one.piece.piece.checked_add(1)
            && next.length == one.length
            && u64::from(next.offset) == u64::from(one.offset) + padded_bytes(one.length)
    };
    let followers = entries.windows(2).take_while(|pair| follows(pair));
    (1 + followers.count()).min(entries.len())
}

impl Summary {
    /// Encodes the summary, without padding.
    pub fn encode(&self, device: u128) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SUMMARY_HEAD_BYTES + 8 * RUN_BYTES);
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
        let (mut rest, mut runs) = (&self.entries[..], 0_u32);
        while let Some(first) = rest.first() {
            let count = run_length(rest);
            bytes.u128(first.piece.file.0);
            bytes.u32(first.piece.piece);
            bytes.u32(first.offset);
            bytes.u32(first.length);
            bytes.u32(count as u32);
            rest = &rest[count..];
            runs += 1;
        }
        bytes[RUNS_AT..RUNS_AT + 4].copy_from_slice(&runs.to_le_bytes());
        let (head, runs) = bytes.split_at(SUMMARY_HEAD_BYTES);
        let sum = checksum(&[&head[..SUMMARY_HEAD_BYTES - 8], runs]);
        bytes[SUMMARY_HEAD_BYTES - 8..SUMMARY_HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes the summary at the start of `bytes`, of any block of the SSD; also returns its
    /// length. `None` if it is damaged, of another SSD, or impossible.
    pub fn decode(bytes: &[u8], device: u128, layout: &Layout) -> Option<(Self, usize)> {
        let (head, runs, sum) = read_head(bytes, device)?;
        if head.count > layout.records_max() || head.block >= layout.block_count() {
            return None;
        }
        let length = SUMMARY_HEAD_BYTES + runs as usize * RUN_BYTES;
        let runs = bytes.get(SUMMARY_HEAD_BYTES..length)?;
        let is_right = checksum(&[&bytes[..SUMMARY_HEAD_BYTES - 8], runs]) == sum;
        if !is_right && !mutated!(TornSummaryTaken) {
            return None;
        }
        let mut end = 0;
        let mut entries = Vec::with_capacity(head.count as usize);
        for run in runs.chunks_exact(RUN_BYTES) {
            end = read_run(run, layout, end, head.count, &mut entries)?;
        }
        let is_whole = entries.len() == head.count as usize;
        is_whole.then_some((Self { head, entries }, length))
    }

    /// Encodes everything after a block's records up to its end, so that all of the block is
    /// written in order: zeros, the summary at its place, and zeros. Also returns the offset in the
    /// block at which that begins.
    pub fn encode_tail(&self, device: u128, layout: &Layout) -> (u32, Vec<u8>) {
        let last = self.entries.last();
        let from = last.map_or(0, |last| {
            let end = u64::from(last.offset) + padded_bytes(last.length);
            u64::min(end, layout.records_end().into()) as u32
        });
        let mut bytes = alloc::vec![0; (layout.records_end() - from) as usize];
        bytes.extend(self.encode(device));
        bytes.resize((layout.block_bytes() - from) as usize, 0);
        (from, bytes)
    }

    /// Decodes a summary and checks that it belongs to this block.
    pub fn of_block(bytes: &[u8], device: u128, block: u32, layout: &Layout) -> Option<Self> {
        let (summary, _) = Self::decode(bytes, device, layout)?;
        (summary.head.block == block).then_some(summary)
    }
}

/// Decodes the records of a run that must not start before `from`, up to `most` entries in total.
/// Returns where the last record ends; `None` if the run is impossible.
fn read_run(
    bytes: &[u8],
    layout: &Layout,
    from: u64,
    most: u32,
    entries: &mut Vec<RecordEntry>,
) -> Option<u64> {
    let mut reader = ByteReader(bytes);
    let (file, piece) = (FileKey(reader.u128()?), reader.u32()?);
    let (offset, length, count) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let padded = padded_bytes(length);
    let end = u64::from(offset) + u64::from(count).checked_mul(padded)?;
    let fits = offset.is_multiple_of(RECORD_ALIGN_BYTES)
        && u64::from(offset) >= from
        && (1..=layout.piece_bytes()).contains(&length)
        && end <= u64::from(layout.records_end())
        && (1..=most.saturating_sub(entries.len() as u32)).contains(&count);
    piece.checked_add(count)?;
    fits.then_some(())?;
    entries.extend((0..count).map(|index| RecordEntry {
        piece: PieceId {
            file,
            piece: piece + index,
        },
        offset: offset + index * padded as u32,
        length,
    }));
    Some(end)
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
            offset: index * 8192,
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
    fn summary_round_trips_only_for_its_block_and_ssd() {
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
    fn contiguous_records_take_the_space_of_one_run() {
        let layout = layout();
        let entry = |index: u32| RecordEntry {
            piece: PieceId {
                file: FileKey(7),
                piece: 30 + index,
            },
            offset: index * 8192,
            length: if index == 9 { 100 } else { 4096 },
        };
        let mut summary = summary(3, 10);
        summary.entries = (0..10).map(entry).collect();
        let bytes = summary.encode(9);
        let runs = 2;
        assert_eq!(bytes.len(), SUMMARY_HEAD_BYTES + runs * RUN_BYTES);
        assert_eq!(SummaryHead::peek(&bytes, 9, 3, &layout), Some(bytes.len()));
        assert_eq!(Summary::of_block(&bytes, 9, 3, &layout), Some(summary));
    }

    #[test]
    fn bit_flip_is_detected() {
        let bytes = summary(3, 4).encode(9);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = Summary::of_block(&bytes, 9, 3, &layout());
            assert_eq!(read, None, "bit {bit}");
        }
    }

    #[test]
    fn overlapping_or_oversized_records_are_rejected() {
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
        let mut last = summary(3, 1);
        last.entries[0].offset = layout.records_end() - 8192;
        assert!(Summary::of_block(&last.encode(9), 9, 3, &layout).is_some());
        last.entries[0].offset += 4096;
        assert!(Summary::of_block(&last.encode(9), 9, 3, &layout).is_none());
    }

    #[test]
    fn tail_ends_with_block_and_has_summary_at_its_place() {
        let layout = layout();
        for count in [0, 1, layout.records_max()] {
            let summary = summary(3, count);
            let (from, tail) = summary.encode_tail(9, &layout);
            let last = summary.entries.last();
            let end = last.map_or(0, |last| u64::from(last.offset) + padded_bytes(last.length));
            assert_eq!(u64::from(from), end);
            assert_eq!(from as usize + tail.len(), layout.block_bytes() as usize);
            let at = (layout.records_end() - from) as usize;
            assert!(tail[..at].iter().all(|byte| *byte == 0));
            assert_eq!(Summary::of_block(&tail[at..], 9, 3, &layout), Some(summary));
        }
    }
}
