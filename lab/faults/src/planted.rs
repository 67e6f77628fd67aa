//! What planted bugs do in the place of the real code, where that takes more than a line.

use std::ops::Range;

use headlong_flash::format::{Entry, Layout, SUMMARY_HEAD_BYTES, Summary, SummaryHead, Super};
use headlong_flash::{FileKey, PieceId};

use crate::medium::{Medium, PAGE};

/// A scan that believes a summary without looking at its checksum.
pub(crate) fn scan_unchecked(tier: &Super, blocks: Range<u32>, medium: &Medium) -> Vec<Summary> {
    let look = |block| {
        let start = tier.layout.block_start(block)?;
        let mut bytes = [0; PAGE];
        medium.read(start, &mut bytes);
        summary(&bytes, tier.device, block, &tier.layout)
    };
    blocks.filter_map(look).collect()
}

fn number(bytes: &[u8], at: usize, length: usize) -> u128 {
    let bytes = bytes[at..at + length].iter().rev();
    bytes.fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

fn summary(bytes: &[u8; PAGE], device: u128, block: u32, layout: &Layout) -> Option<Summary> {
    let length = SummaryHead::peek(bytes, device, block, layout)?.min(PAGE);
    let head = SummaryHead {
        block,
        filling: number(bytes, 32, 8) as u64,
        sequence: number(bytes, 40, 8) as u64,
        owner: number(bytes, 48, 8) as u64,
        sealed_s: number(bytes, 56, 8) as u64,
        count: number(bytes, 64, 4) as u32,
    };
    let entry = |bytes: &[u8]| Entry {
        piece: PieceId {
            file: FileKey(number(bytes, 0, 16)),
            piece: number(bytes, 16, 4) as u32,
        },
        offset: number(bytes, 20, 4) as u32,
        length: number(bytes, 24, 4) as u32,
    };
    let entries = bytes[SUMMARY_HEAD_BYTES..length]
        .chunks_exact(32)
        .map(entry);
    Some(Summary {
        head,
        entries: entries.collect(),
    })
}
