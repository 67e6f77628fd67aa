//! Recovery: reads the content of an SSD from checkpoints; if they are void, from block summaries;
//! if those are missing, from the records themselves.
//!
//! A summary at the end of a block may be stale: it counts only if the record at the front has its
//! generation. That record is the first one written to a block.
//!
//! Damaged structures count as empty. Unreadable ones are distinguished: they may be intact and
//! readable the next time, so nothing may be written that hides them. Groups and blocks may be read
//! in any order and in parallel, because they are independent.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::checkpoint::{checkpoint_bytes, decode_checkpoint};
use super::record::{RecordName, decode_record, padded_bytes};
use super::summary::{Summary, SummaryHead};
use super::super_record::SuperRecord;
use crate::names::RECORD_ALIGN_BYTES;
use crate::spec::RecordEntry;

/// The SSD did not return the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadFailed;

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScanResult {
    /// Summaries of the complete blocks.
    pub summaries: Vec<Summary>,
    /// Groups whose checkpoint was void.
    pub void: Vec<u32>,
    /// Readable blocks of those groups that have no summary.
    pub bare: Vec<u32>,
    /// Blocks that could not be read.
    pub unreadable: Vec<u32>,
}

/// Reads groups of blocks: their checkpoints, and the summaries of groups without one. `read` fills
/// the slice with the bytes from an offset of the SSD.
pub fn recover(
    tier: &SuperRecord,
    groups: Range<u32>,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed>,
) -> ScanResult {
    let mut found = ScanResult::default();
    let mut buffer = vec![0; tier.layout.checkpoint_bytes() as usize];
    for group in groups {
        if let Some(summaries) = read_checkpoint(tier, group, &mut buffer, &mut read) {
            found.summaries.extend(summaries);
            continue;
        }
        let blocks = tier.layout.group_blocks(group);
        let scanned = scan(tier, blocks.clone(), &mut read);
        found.void.push(group);
        let has = |block: &u32| scanned.summaries.iter().any(|of| of.head.block == *block);
        let is_bare = |block: &u32| !has(block) && !scanned.unreadable.contains(block);
        found.bare.extend(blocks.filter(is_bare));
        found.unreadable.extend(scanned.unreadable);
        found.summaries.extend(scanned.summaries);
    }
    found
}

/// Reads a sixth of a checkpoint first, which is enough if runs have about four records.
fn read_checkpoint(
    tier: &SuperRecord,
    group: u32,
    buffer: &mut [u8],
    read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed>,
) -> Option<Vec<Summary>> {
    let page = RECORD_ALIGN_BYTES as usize;
    let (start, _) = tier.layout.checkpoint_place(group)?;
    let first = (buffer.len() / 6).next_multiple_of(page).min(buffer.len());
    read(start, &mut buffer[..first]).ok()?;
    let length = checkpoint_bytes(buffer, group, tier.device, &tier.layout)?;
    let end = (length as usize).next_multiple_of(page).min(buffer.len());
    if end > first {
        read(start + first as u64, &mut buffer[first..end]).ok()?;
    }
    decode_checkpoint(&buffer[..end], group, tier.device, &tier.layout)
}

/// Searches a block without a summary for records: those of one generation from its front, up to
/// the first damaged one. Returns the generation and the records; `None` if there are none.
///
/// # Errors
/// If a read fails: a summary of the records so far would hide the rest.
pub fn search_block(
    tier: &SuperRecord,
    block: u32,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed>,
) -> Result<Option<(u64, Vec<RecordEntry>)>, ReadFailed> {
    let Some(start) = tier.layout.block_start(block) else {
        return Ok(None);
    };
    let mut found: Option<(u64, Vec<RecordEntry>)> = None;
    let mut offset = 0;
    let mut bytes = vec![0; padded_bytes(tier.layout.piece_bytes()) as usize];
    let most = tier.layout.records_max() as usize;
    while offset + 2 * RECORD_ALIGN_BYTES <= tier.layout.records_end()
        && found
            .as_ref()
            .is_none_or(|(_, records)| records.len() < most)
    {
        let (header, payload) = bytes.split_at_mut(RECORD_ALIGN_BYTES as usize);
        let at = start + u64::from(offset);
        read(at, header)?;
        let Some(name) = RecordName::of_header(header) else {
            break;
        };
        let mut filling = found.as_ref().map_or(name.filling, |(filling, _)| *filling);
        if mutated!(SearchMixesFillings) {
            filling = name.filling;
        }
        let end = u64::from(offset) + padded_bytes(name.length);
        let is_next = (name.device, name.block, name.offset, name.filling)
            == (tier.device, block, offset, filling)
            && (1..=tier.layout.piece_bytes()).contains(&name.length)
            && end <= u64::from(tier.layout.records_end());
        if !is_next {
            break;
        }
        let payload = &mut payload[..name.length.next_multiple_of(RECORD_ALIGN_BYTES) as usize];
        let at = at + u64::from(RECORD_ALIGN_BYTES);
        read(at, payload)?;
        if !decode_record(&name, header, payload) {
            break;
        }
        let record = RecordEntry {
            offset,
            piece: name.piece,
            length: name.length,
        };
        let (_, records) = found.get_or_insert((filling, Vec::new()));
        records.push(record);
        offset = end as u32;
    }
    Ok(found)
}

/// Reads the summaries of `blocks`; `read` fills the slice with the bytes from an offset of the
/// SSD.
pub fn scan(
    tier: &SuperRecord,
    blocks: Range<u32>,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed>,
) -> ScanResult {
    let mut found = ScanResult::default();
    let mut buffer = vec![0; tier.layout.summary_bytes() as usize];
    for block in blocks {
        let places = (tier.layout.block_start(block)).zip(tier.layout.summary_start(block));
        let Some(places) = places else {
            break;
        };
        match read_summary(tier, block, places, &mut buffer, &mut read) {
            Ok(summary) => found.summaries.extend(summary),
            Err(ReadFailed) => found.unreadable.push(block),
        }
    }
    found
}

fn read_summary(
    tier: &SuperRecord,
    block: u32,
    (front, start): (u64, u64),
    buffer: &mut [u8],
    read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed>,
) -> Result<Option<Summary>, ReadFailed> {
    let page = RECORD_ALIGN_BYTES as usize;
    read(front, &mut buffer[..page])?;
    let first = RecordName::of_header(&buffer[..page]);
    read(start, &mut buffer[..page])?;
    let length = SummaryHead::peek(&buffer[..page], tier.device, block, &tier.layout);
    let Some(length) = length.map(|length| length.next_multiple_of(page)) else {
        return Ok(None);
    };
    if length > page {
        read(start + page as u64, &mut buffer[page..length])?;
    }
    let summary = Summary::of_block(&buffer[..length], tier.device, block, &tier.layout);
    let is_of = |first: &RecordName, of: &Summary| {
        (first.device, first.block, first.offset, first.filling)
            == (tier.device, block, 0, of.head.filling)
    };
    // A different generation, or none, at the front: the content of the summary is, or will be,
    // overwritten.
    let is_front = |of: &Summary| first.is_some_and(|first| is_of(&first, of));
    Ok(summary.filter(|of| is_front(of) || mutated!(FrontUnchecked)))
}

/// Number of a block's records that are intact, and number that are not.
pub fn verify_block(
    tier: &SuperRecord,
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
