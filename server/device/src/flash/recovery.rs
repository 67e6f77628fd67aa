//! Recovery of the content of an SSD at start-up, from checkpoints, block summaries and records.
//!
//! Several threads may search groups of blocks in parallel ([`RecoverySearch::search_groups`]). One
//! thread collects the results ([`Recovery`]) and finally writes the missing summaries.

use alloc::vec::Vec;
use core::ops::Range;

use headlong_flash::format::{
    GROUP_BLOCKS, ReadFailed, Summary, SummaryHead, recover, search_block,
};
use headlong_flash::{CheckpointDevice, Checkpoints, RECORD_ALIGN_BYTES, RecordEntry};

use super::medium::FlashMedium;

/// Seconds of a day, the window of the wear budget.
const DAY_S: u64 = 24 * 3600;

/// A block that holds records but no summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BareBlock {
    /// The block, numbered within the SSD.
    pub block: u32,
    /// Generation of its records.
    pub filling: u64,
    /// The records.
    pub entries: Vec<RecordEntry>,
}

/// The scope of a recovery: the block range of one disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoverySearch {
    /// The disk's blocks, numbered within the SSD.
    pub blocks: Range<u32>,
    /// Persistent name of the disk.
    pub owner: u64,
}

/// Content of some groups of blocks.
#[derive(Debug, Default)]
pub struct GroupSearchResult {
    /// Summaries from checkpoints or blocks, of any disk.
    pub summaries: Vec<Summary>,
    /// Blocks of this disk that have records but no summary.
    pub bare: Vec<BareBlock>,
    /// Groups whose checkpoint was void.
    pub void: Vec<u32>,
    unreadable: Vec<u32>,
    group_count: u32,
    saved_bytes: u64,
}

/// Result of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryResult {
    /// Upper bound of the bytes written within the last 24 hours.
    pub written_bytes: u64,
    /// Whether all blocks were readable and empty, for all disks. Only then the SSD has never been
    /// filled.
    pub is_fresh: bool,
}

impl RecoverySearch {
    /// The groups that contain the disk's blocks.
    pub fn groups(&self) -> Range<u32> {
        self.blocks.start / GROUP_BLOCKS..self.blocks.end.div_ceil(GROUP_BLOCKS)
    }

    /// Reads some groups. The caller must call [`RecoverySearch::save`] afterwards.
    pub fn search_groups(
        &self,
        groups: Range<u32>,
        ground: &mut impl CheckpointDevice,
    ) -> GroupSearchResult {
        let tier = ground.tier();
        let group_count = groups.end.saturating_sub(groups.start);
        let found = recover(&tier, groups, ground.reader());
        let mut unreadable = found.unreadable;
        let mut bare = Vec::new();
        let mut read = ground.reader();
        for block in found.bare.into_iter().filter(|of| self.blocks.contains(of)) {
            match search_block(&tier, block, &mut read) {
                Ok(None) => {}
                Ok(Some((filling, entries))) => bare.push(BareBlock {
                    block,
                    filling,
                    entries,
                }),
                Err(ReadFailed) => unreadable.push(block),
            }
        }
        GroupSearchResult {
            summaries: found.summaries,
            bare,
            void: found.void,
            unreadable,
            group_count,
            saved_bytes: 0,
        }
    }

    /// Rewrites void checkpoints, except in groups that are about to change.
    pub fn save(
        &self,
        found: &mut GroupSearchResult,
        checkpoints: &mut Checkpoints,
        ground: &mut impl CheckpointDevice,
    ) {
        checkpoints.doubt(found.unreadable.iter().copied());
        let layout = ground.tier().layout;
        for group in found.void.iter().copied() {
            let blocks = layout.group_blocks(group);
            let is_own = self.blocks.start <= blocks.start && blocks.end <= self.blocks.end;
            if is_own && !found.bare.iter().any(|of| blocks.contains(&of.block)) {
                let summaries = found.summaries.iter();
                let of_group = summaries.filter(|of| blocks.contains(&of.head.block));
                found.saved_bytes += checkpoints.save_found(ground, group, of_group);
            }
        }
    }
}

/// Recovery state of a disk's blocks on one SSD.
#[derive(Debug)]
pub struct Recovery {
    search: RecoverySearch,
    sequence: u64,
    bare: Vec<BareBlock>,
    group_count: u32,
    blocks_of_today: u64,
    unreadable_count: u64,
    saved_bytes: u64,
    is_used: bool,
}

impl Recovery {
    /// Creates the state of a recovery that has not started.
    pub fn new(search: RecoverySearch) -> Self {
        Self {
            search,
            sequence: 0,
            bare: Vec::new(),
            group_count: 0,
            blocks_of_today: 0,
            unreadable_count: 0,
            saved_bytes: 0,
            is_used: false,
        }
    }

    /// The scope of the recovery.
    pub fn search(&self) -> &RecoverySearch {
        &self.search
    }

    /// Adds the result for some groups at wall-clock time `wall_s`. Returns the summaries of the
    /// disk's blocks.
    pub fn take(&mut self, found: GroupSearchResult, wall_s: u64) -> Vec<Summary> {
        let GroupSearchResult {
            mut summaries,
            bare,
            unreadable,
            group_count,
            saved_bytes,
            ..
        } = found;
        summaries.retain(|of| {
            self.sequence = self.sequence.max(of.head.sequence);
            let is_here = self.search.blocks.contains(&of.head.block);
            self.is_used |= is_here;
            // A seal time in the future also counts.
            let is_of_today = of.head.sealed_s >= wall_s.saturating_sub(DAY_S);
            self.blocks_of_today += u64::from(is_here && is_of_today);
            is_here && of.head.owner == self.search.owner
        });
        let own = unreadable.iter();
        let own = own.filter(|block| self.search.blocks.contains(block));
        self.unreadable_count += own.count() as u64;
        self.is_used |= !bare.is_empty();
        self.blocks_of_today += bare.len() as u64;
        self.bare.extend(bare);
        self.group_count += group_count;
        self.saved_bytes += saved_bytes;
        summaries
    }

    /// After all groups were read: the next missing summary. The caller writes it
    /// ([`write_summary`]) and reports the result ([`Recovery::sealed`]).
    pub fn next_unsealed(&mut self, wall_s: u64) -> Option<Summary> {
        let first = (0..self.bare.len()).min_by_key(|index| self.bare[*index].block)?;
        let bare = self.bare.swap_remove(first);
        self.sequence += 1;
        let head = SummaryHead {
            block: bare.block,
            count: bare.entries.len() as u32,
            filling: bare.filling,
            sequence: self.sequence,
            owner: self.search.owner,
            sealed_s: wall_s,
        };
        let entries = bare.entries;
        Some(Summary { head, entries })
    }

    /// Reports that `bytes` of a summary were written and whether they are durable. Returns the
    /// summary if the block is sealed now.
    pub fn sealed(
        &mut self,
        checkpoints: &mut Checkpoints,
        summary: Summary,
        (bytes, is_durable): (u64, bool),
    ) -> Option<Summary> {
        self.saved_bytes += bytes;
        if !is_durable {
            checkpoints.doubt([summary.head.block]);
            return None;
        }
        // Another disk may be filling a block of the group and will write the checkpoint.
        checkpoints.end(summary.head.block, Some(summary.clone()));
        Some(summary)
    }

    /// The final result.
    pub fn end(&self, block_bytes: u32) -> RecoveryResult {
        // Unread blocks may have been written today.
        let is_all = self.group_count >= self.search.groups().len() as u32;
        let unread = match is_all {
            true => self.unreadable_count,
            false => self.search.blocks.len() as u64,
        };
        RecoveryResult {
            written_bytes: (self.blocks_of_today + unread) * u64::from(block_bytes)
                + self.saved_bytes,
            is_fresh: !self.is_used && unread == 0,
        }
    }
}

/// Writes a block's summary. Returns its size in bytes and whether it is durable.
pub fn write_summary(medium: &mut impl FlashMedium, summary: &Summary) -> (u64, bool) {
    let tier = medium.tier();
    let Some(start) = tier.layout.summary_start(summary.head.block) else {
        return (0, false);
    };
    let bytes = summary.encode(tier.device);
    let padded = bytes.len().next_multiple_of(RECORD_ALIGN_BYTES as usize) as u64;
    let is_durable =
        medium.flush().is_ok() && medium.write(start, &bytes).is_ok() && medium.flush().is_ok();
    (padded, is_durable)
}
