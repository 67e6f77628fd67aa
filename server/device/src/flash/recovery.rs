//! What is on an SSD at the start: by its checkpoints, by the summaries of blocks, by records.
//!
//! Groups of blocks may be looked at by several threads ([`RecoverySearch::look`]); one of them
//! collects what they find ([`Recovery`]), and at the end writes the summaries that blocks lack.

use alloc::vec::Vec;
use core::ops::Range;

use headlong_flash::format::{
    GROUP_BLOCKS, ReadFailed, Summary, SummaryHead, recover, search_block,
};
use headlong_flash::{Checkpoints, Ground, RECORD_ALIGN_BYTES, RecordEntry};

use super::medium::FlashMedium;

/// Seconds of a day, in which the budget of writes has lost what was written.
const DAY_S: u64 = 24 * 3600;

/// A block without a summary that holds records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BareBlock {
    /// As the SSD counts.
    pub block: u32,
    /// Of which filling its records are.
    pub filling: u64,
    /// The records.
    pub entries: Vec<RecordEntry>,
}

/// What is looked at, and for which disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoverySearch {
    /// The disk's blocks, as the SSD counts.
    pub blocks: Range<u32>,
    /// The disk's lasting name.
    pub owner: u64,
}

/// What some groups of blocks hold.
#[derive(Debug, Default)]
pub struct GroupsFound {
    /// By checkpoint or summary; of any disk.
    pub summaries: Vec<Summary>,
    /// The disk's blocks that have records and no summary.
    pub bare: Vec<BareBlock>,
    /// Groups whose checkpoint was void.
    pub void: Vec<u32>,
    unreadable: Vec<u32>,
    group_count: u32,
    saved_bytes: u64,
}

/// What came of a look at all blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// Bytes that were, or may have been, written within the last day.
    pub written_bytes: u64,
    /// Whether every block could be read and holds nothing, of whatever disk: only then the SSD has
    /// not been filled before.
    pub is_fresh: bool,
}

impl RecoverySearch {
    /// The groups that its blocks are in.
    pub fn groups(&self) -> Range<u32> {
        self.blocks.start / GROUP_BLOCKS..self.blocks.end.div_ceil(GROUP_BLOCKS)
    }

    /// Looks at some groups; [`RecoverySearch::save`] is to follow.
    pub fn look(&self, groups: Range<u32>, ground: &mut impl Ground) -> GroupsFound {
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
        GroupsFound {
            summaries: found.summaries,
            bare,
            void: found.void,
            unreadable,
            group_count,
            saved_bytes: 0,
        }
    }

    /// Writes checkpoints that were void, if nothing else will change in their groups first.
    pub fn save(
        &self,
        found: &mut GroupsFound,
        checkpoints: &mut Checkpoints,
        ground: &mut impl Ground,
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

/// What is known of a disk's blocks of one SSD so far.
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
    /// Nothing is known yet.
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

    /// What is looked at.
    pub fn search(&self) -> &RecoverySearch {
        &self.search
    }

    /// Takes in what was found, at this time of the wall clock. Answers the disk's blocks.
    pub fn take(&mut self, found: GroupsFound, wall_s: u64) -> Vec<Summary> {
        let GroupsFound {
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
            // One that says that it was sealed in the future counts too.
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

    /// Once all groups were looked at: a summary that a block lacks, to be written
    /// ([`write_summary`]) and told of ([`Recovery::sealed`]).
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

    /// So many bytes were to be written for a summary; whether they are durable. Answers the block if
    /// it is sealed now.
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
        // Another disk may be filling a block of the group, and will write its checkpoint.
        checkpoints.end(summary.head.block, Some(summary.clone()));
        Some(summary)
    }

    /// What is known at the end.
    pub fn end(&self, block_bytes: u32) -> Recovered {
        // What could not be read may have been written today.
        let is_all = self.group_count >= self.search.groups().len() as u32;
        let unread = match is_all {
            true => self.unreadable_count,
            false => self.search.blocks.len() as u64,
        };
        Recovered {
            written_bytes: (self.blocks_of_today + unread) * u64::from(block_bytes)
                + self.saved_bytes,
            is_fresh: !self.is_used && unread == 0,
        }
    }
}

/// Writes a block's summary; answers how many bytes that takes, and whether they are durable.
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
