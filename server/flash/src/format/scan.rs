//! What is found on an SSD whose index was not saved: the summaries of its blocks.
//!
//! One page of each block is read, and more of those that say so. What is damaged or cannot be read
//! counts as empty. Blocks may be looked at in any order and by several at once: what is found in
//! one says nothing of another.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::record::{RecordName, decode_record, padded_bytes};
use super::summary::{Summary, SummaryHead};
use super::super_record::Super;
use crate::names::RECORD_ALIGN_BYTES;

/// The SSD did not give what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadFailed;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Of the blocks that are whole.
    pub summaries: Vec<Summary>,
    /// Blocks that could not be read.
    pub unreadable: u32,
}

/// Looks at `blocks`; `read` fills what it is given from that byte of the SSD on.
pub fn scan(
    tier: &Super,
    blocks: Range<u32>,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed>,
) -> Found {
    let mut found = Found::default();
    let mut buffer = vec![0; tier.layout.summary_bytes() as usize];
    for block in blocks {
        let Some(start) = tier.layout.block_start(block) else {
            break;
        };
        match look(tier, block, start, &mut buffer, &mut read) {
            Ok(summary) => found.summaries.extend(summary),
            Err(ReadFailed) => found.unreadable += 1,
        }
    }
    found
}

fn look(
    tier: &Super,
    block: u32,
    start: u64,
    buffer: &mut [u8],
    read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed>,
) -> Result<Option<Summary>, ReadFailed> {
    let page = RECORD_ALIGN_BYTES as usize;
    read(start, &mut buffer[..page])?;
    let length = SummaryHead::peek(&buffer[..page], tier.device, block, &tier.layout);
    let Some(length) = length.map(|length| length.next_multiple_of(page)) else {
        return Ok(None);
    };
    if length > page {
        read(start + page as u64, &mut buffer[page..length])?;
    }
    Ok(Summary::of_block(
        &buffer[..length],
        tier.device,
        block,
        &tier.layout,
    ))
}

/// How many of a block's records are what its summary says, and how many are not.
pub fn verify_block(
    tier: &Super,
    summary: &Summary,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed>,
) -> (u32, u32) {
    let (mut right, mut wrong) = (0, 0);
    let start = tier.layout.block_start(summary.head.block);
    for entry in &summary.entries {
        let name = RecordName {
            device: tier.device,
            block: summary.head.block,
            filling: summary.head.filling,
            offset: entry.offset,
            piece: entry.piece,
            length: entry.length,
        };
        let mut bytes = vec![0; padded_bytes(entry.length) as usize];
        let is_read =
            start.is_some_and(|start| read(start + u64::from(entry.offset), &mut bytes).is_ok());
        let (header, payload) = bytes.split_at(RECORD_ALIGN_BYTES as usize);
        match is_read && decode_record(&name, header, payload) {
            true => right += 1,
            false => wrong += 1,
        }
    }
    (right, wrong)
}
