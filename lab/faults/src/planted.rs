//! What planted bugs do in the place of the real code, where that takes more than a line.

use std::ops::Range;

use headlong_flash::format::{
    Found, Layout, RecordName, SUMMARY_HEAD_BYTES, Summary, SummaryHead, checkpoint_bytes,
    decode_record, padded_bytes, recover, scan,
};
use headlong_flash::{FileKey, PieceId, RecordEntry};

use crate::drive::Drive;
use crate::medium::PAGE;
use crate::plant::Plant;

/// Bytes of a checkpoint before its summaries.
const CHECKPOINT_HEAD_BYTES: usize = 48;

/// A recovery that believes summaries, or checkpoints, without looking at their checksums.
pub(crate) fn recover_unchecked(drive: &Drive, groups: Range<u32>, plant: Option<Plant>) -> Found {
    let mut found = Found::default();
    for group in groups {
        let mut of_group = recover(&drive.tier, group..group + 1, drive.medium.reader());
        let is_void = !of_group.void.is_empty();
        let blocks = drive.tier.layout.group_blocks(group);
        if is_void && plant == Some(Plant::TornSummaryTaken) {
            of_group.summaries = scan_unchecked(drive, blocks);
        } else if is_void && plant == Some(Plant::FrontUnchecked) {
            of_group.summaries = blocks.filter_map(|block| whole(drive, block)).collect();
        } else if is_void && let Some(summaries) = checkpoint_unchecked(drive, group) {
            (of_group.summaries, of_group.void) = (summaries, Vec::new());
            of_group.bare.clear();
        }
        let summaries = &of_group.summaries;
        (of_group.bare).retain(|block| !summaries.iter().any(|of| of.head.block == *block));
        found.summaries.extend(of_group.summaries);
        found.void.extend(of_group.void);
        found.bare.extend(of_group.bare);
    }
    found
}

fn checkpoint_unchecked(drive: &Drive, group: u32) -> Option<Vec<Summary>> {
    let (device, layout) = (drive.tier.device, &drive.tier.layout);
    let (at, room) = layout.checkpoint_place(group)?;
    let mut bytes = vec![0; room as usize];
    drive.medium.read(at, &mut bytes);
    let length = checkpoint_bytes(&bytes, group, device, layout)?;
    let mut rest = &bytes[CHECKPOINT_HEAD_BYTES..length as usize];
    let mut summaries = Vec::new();
    while let Some((summary, length)) = Summary::decode(rest, device, layout) {
        summaries.push(summary);
        rest = &rest[length..];
    }
    Some(summaries)
}

/// A search that takes records of whatever filling for those of one.
pub(crate) fn search_any(drive: &Drive, block: u32) -> Option<(u64, Vec<RecordEntry>)> {
    let layout = &drive.tier.layout;
    let start = layout.block_start(block)?;
    let mut found: Option<(u64, Vec<RecordEntry>)> = None;
    let mut offset = 0;
    while offset + 2 * PAGE as u32 <= layout.records_end() {
        let mut header = [0; PAGE];
        drive.medium.read(start + u64::from(offset), &mut header);
        let Some(name) = RecordName::of_header(&header).filter(|of| of.offset == offset) else {
            break;
        };
        let mut bytes = vec![0; padded_bytes(name.length) as usize];
        drive.medium.read(start + u64::from(offset), &mut bytes);
        if name.block != block || !decode_record(&name, &header, &bytes[PAGE..]) {
            break;
        }
        let (_, records) = found.get_or_insert((name.filling, Vec::new()));
        records.push(RecordEntry {
            offset,
            piece: name.piece,
            length: name.length,
        });
        offset += padded_bytes(name.length) as u32;
    }
    found
}

/// The summary at the end of a block, whatever lies in front.
fn whole(drive: &Drive, block: u32) -> Option<Summary> {
    let layout = &drive.tier.layout;
    let mut bytes = vec![0; layout.summary_bytes() as usize];
    drive.medium.read(layout.summary_start(block)?, &mut bytes);
    Summary::of_block(&bytes, drive.tier.device, block, layout)
}

fn scan_unchecked(drive: &Drive, blocks: Range<u32>) -> Vec<Summary> {
    let look = |block| {
        let start = drive.tier.layout.summary_start(block)?;
        let mut bytes = [0; PAGE];
        drive.medium.read(start, &mut bytes);
        // One that is longer than a page is read as it should be.
        let right = || scan(&drive.tier, block..block + 1, drive.medium.reader());
        summary(&bytes, drive.tier.device, block, &drive.tier.layout)
            .filter(|of| filling_in_front(drive, block) == Some(of.head.filling))
            .or_else(|| right().summaries.pop())
    };
    blocks.filter_map(look).collect()
}

fn filling_in_front(drive: &Drive, block: u32) -> Option<u64> {
    let mut front = [0; PAGE];
    let start = drive.tier.layout.block_start(block)?;
    drive.medium.read(start, &mut front);
    Some(RecordName::of_header(&front)?.filling)
}

fn number(bytes: &[u8], at: usize, length: usize) -> u128 {
    let bytes = bytes[at..at + length].iter().rev();
    bytes.fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

fn summary(bytes: &[u8; PAGE], device: u128, block: u32, layout: &Layout) -> Option<Summary> {
    let length = SummaryHead::peek(bytes, device, block, layout)?;
    let runs = bytes.get(SUMMARY_HEAD_BYTES..length)?;
    let head = SummaryHead {
        block,
        filling: number(bytes, 32, 8) as u64,
        sequence: number(bytes, 40, 8) as u64,
        owner: number(bytes, 48, 8) as u64,
        sealed_s: number(bytes, 56, 8) as u64,
        count: number(bytes, 64, 4) as u32,
    };
    let run = |bytes: &[u8]| {
        let file = FileKey(number(bytes, 0, 16));
        let [piece, offset, length, count] = [16, 20, 24, 28].map(|at| number(bytes, at, 4) as u32);
        let count = count.min(layout.records_max());
        let padded = padded_bytes(length) as u32;
        let entry = move |index: u32| RecordEntry {
            piece: PieceId {
                file,
                piece: piece.wrapping_add(index),
            },
            offset: offset.wrapping_add(index.wrapping_mul(padded)),
            length,
        };
        (0..count).map(entry)
    };
    Some(Summary {
        head,
        entries: runs.chunks_exact(32).flat_map(run).collect(),
    })
}
