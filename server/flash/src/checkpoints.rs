//! The checkpoints of one SSD while its blocks are refilled.
//!
//! Only the writer of the SSD changes them, in write order, except for [`Checkpoints::save_found`]
//! and [`Checkpoints::doubt`] before the first write.
//!
//! Invariant: no checkpoint is written for a group with an unreadable block. The block may be
//! intact, and the checkpoint would hide it permanently.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::RECORD_ALIGN_BYTES;
use crate::format::{
    GROUP_BLOCKS, ReadFailed, ScanResult, Summary, SuperRecord, encode_checkpoint, recover,
    search_block,
};

/// An SSD that holds checkpoints.
pub trait CheckpointDevice {
    /// Error of a write.
    type Error;

    /// The super record of the SSD.
    fn tier(&self) -> SuperRecord;

    /// A reader in the form the format needs.
    fn reader(&mut self) -> impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed> + '_;

    /// Writes bytes, padded with zeros to the alignment.
    ///
    /// # Errors
    /// If the write may be incomplete.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Reads the content of a group.
    fn scan_group(&mut self, group: u32) -> ScanResult {
        recover(&self.tier(), group..group + 1, self.reader())
    }

    /// Voids the checkpoint of a group.
    ///
    /// # Errors
    /// As [`CheckpointDevice::write`].
    fn void(&mut self, group: u32) -> Result<(), Self::Error> {
        let place = self.tier().layout.checkpoint_place(group);
        place.map_or(Ok(()), |(at, _)| {
            self.write(at, &[0; RECORD_ALIGN_BYTES as usize])
        })
    }
}

/// Groups whose checkpoints are void, and blocks that could not be read.
#[derive(Debug, Default)]
pub struct Checkpoints {
    open: BTreeMap<u32, OpenGroup>,
    /// Blocks that could not be read and have not been refilled since.
    doubted: BTreeSet<u32>,
}

#[derive(Debug)]
struct OpenGroup {
    summaries: BTreeMap<u32, Summary>,
    filling: BTreeSet<u32>,
    /// Whether the checkpoint on the SSD is certainly void.
    is_void: bool,
}

impl Checkpoints {
    /// Whether a block of the group could not be read.
    fn is_doubted(&self, group: u32) -> bool {
        let first = group * GROUP_BLOCKS;
        let mut doubted = self.doubted.range(first..first + GROUP_BLOCKS);
        doubted.next().is_some()
    }

    /// Marks blocks as unreadable.
    pub fn doubt(&mut self, blocks: impl IntoIterator<Item = u32>) {
        self.doubted.extend(blocks);
    }

    /// Loads a group from the SSD.
    fn open(&mut self, ground: &mut impl CheckpointDevice, group: u32) {
        if self.open.contains_key(&group) {
            return;
        }
        let mut found = ground.scan_group(group);
        if mutated!(UnreadableForgotten) {
            found.unreadable.clear();
        }
        // A read error may have been temporary. A block that still has records has not been
        // refilled.
        let tier = ground.tier();
        let mut reader = ground.reader();
        self.doubted.retain(|block| {
            let has_summary = found.summaries.iter().any(|of| of.head.block == *block);
            let is_empty =
                found.bare.contains(block) && search_block(&tier, *block, &mut reader) == Ok(None);
            !has_summary && !is_empty
        });
        drop(reader);
        self.doubt(found.unreadable);
        let summaries = found.summaries.into_iter();
        let open = OpenGroup {
            summaries: summaries.map(|of| (of.head.block, of)).collect(),
            // A checkpoint that could not be read may exist and be stale.
            is_void: false,
            filling: BTreeSet::new(),
        };
        self.open.insert(group, open);
    }

    /// Starts the refill of a block and voids the checkpoint of its group. Its summary becomes
    /// invalid when the first new record is written. Checkpoints of completed groups are saved.
    ///
    /// # Errors
    /// As [`Checkpoints::void`].
    pub fn begin<G: CheckpointDevice>(
        &mut self,
        ground: &mut G,
        block: u32,
    ) -> Result<(), G::Error> {
        let group = block / GROUP_BLOCKS;
        self.save_closed(ground, Some(group));
        self.open(ground, group);
        self.doubted.remove(&block);
        if let Some(open) = self.open.get_mut(&group) {
            open.summaries.remove(&block);
            open.filling.insert(block);
        }
        self.void(ground, block)
    }

    /// Voids the stale checkpoint of a block's group. Must succeed before the block's summary is
    /// written.
    ///
    /// # Errors
    /// If the stale checkpoint may still be there.
    pub fn void<G: CheckpointDevice>(
        &mut self,
        ground: &mut G,
        block: u32,
    ) -> Result<(), G::Error> {
        let group = block / GROUP_BLOCKS;
        if let Some(open) = self.open.get_mut(&group).filter(|open| !open.is_void) {
            if !mutated!(CheckpointNotVoided) {
                ground.void(group)?;
            }
            open.is_void = true;
        }
        Ok(())
    }

    /// A block was sealed or abandoned.
    pub fn end(&mut self, block: u32, summary: Option<Summary>) {
        if let Some(open) = self.open.get_mut(&(block / GROUP_BLOCKS)) {
            open.filling.remove(&block);
            open.summaries
                .extend(summary.map(|summary| (block, summary)));
        }
    }

    /// Writes the checkpoints of groups without a block being filled.
    fn save_closed(&mut self, ground: &mut impl CheckpointDevice, except: Option<u32>) {
        let is_closed =
            |(group, open): &(&u32, &OpenGroup)| open.filling.is_empty() && Some(**group) != except;
        let closed: Vec<u32> = (self.open.iter().filter(is_closed))
            .map(|(group, _)| *group)
            .collect();
        for group in closed {
            // A missing checkpoint only costs reading the blocks at the next start.
            if let Some(open) = self.open.remove(&group)
                && !self.is_doubted(group)
            {
                let _ = save(ground, group, open.summaries.values());
            }
        }
    }

    /// Saves all checkpoints; nothing is written afterwards.
    pub fn finish(&mut self, ground: &mut impl CheckpointDevice) {
        for open in self.open.values_mut() {
            open.filling.clear();
        }
        self.save_closed(ground, None);
    }

    /// Saves the recovered content of a group whose checkpoint was void. Returns the bytes written.
    pub fn save_found<'s>(
        &mut self,
        ground: &mut impl CheckpointDevice,
        group: u32,
        summaries: impl Iterator<Item = &'s Summary>,
    ) -> u64 {
        match self.open.contains_key(&group) || self.is_doubted(group) {
            true => 0,
            false => save(ground, group, summaries).unwrap_or(0),
        }
    }
}

/// Returns the bytes written.
fn save<'s, G: CheckpointDevice>(
    ground: &mut G,
    group: u32,
    summaries: impl Iterator<Item = &'s Summary>,
) -> Result<u64, G::Error> {
    let SuperRecord { device, layout } = ground.tier();
    let bytes = encode_checkpoint(group, summaries, device, &layout);
    let Some((bytes, (at, _))) = bytes.zip(layout.checkpoint_place(group)) else {
        return Ok(0);
    };
    ground.write(at, &bytes)?;
    let padded = bytes.len().next_multiple_of(RECORD_ALIGN_BYTES as usize);
    Ok(padded as u64)
}
