//! The checkpoints of one SSD, while its blocks are filled anew.
//!
//! Only who writes to the SSD changes them, in the order of what is written, but for
//! [`Checkpoints::save_found`] and [`Checkpoints::doubt`] before anything is written.
//!
//! Invariant: no checkpoint is written of a group with a block that could not be read. It may be
//! whole, and the checkpoint would say for ever that it is not there.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::RECORD_ALIGN_BYTES;
use crate::format::{
    Found, GROUP_BLOCKS, ReadFailed, Summary, Super, encode_checkpoint, recover, search_block,
};

/// An SSD that checkpoints lie on.
pub trait Ground {
    /// Why it was not written to.
    type Error;

    /// What is on it.
    fn tier(&self) -> Super;

    /// Reads as the format asks for it.
    fn reader(&mut self) -> impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed> + '_;

    /// Writes bytes, and zeros behind them up to the alignment.
    ///
    /// # Errors
    /// If it may not be there as a whole.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Self::Error>;

    /// What a group holds.
    fn found(&mut self, group: u32) -> Found {
        recover(&self.tier(), group..group + 1, self.reader())
    }

    /// Takes the checkpoint of a group away.
    ///
    /// # Errors
    /// As [`Ground::write`].
    fn void(&mut self, group: u32) -> Result<(), Self::Error> {
        let place = self.tier().layout.checkpoint_place(group);
        place.map_or(Ok(()), |(at, _)| {
            self.write(at, &[0; RECORD_ALIGN_BYTES as usize])
        })
    }
}

/// Groups whose checkpoints are void.
#[derive(Debug, Default)]
pub struct Checkpoints {
    open: BTreeMap<u32, Open>,
    /// Blocks that could not be read and were not filled anew since.
    doubted: BTreeSet<u32>,
}

#[derive(Debug)]
struct Open {
    summaries: BTreeMap<u32, Summary>,
    filling: BTreeSet<u32>,
    /// Whether the checkpoint on the SSD is void for sure.
    is_void: bool,
}

impl Checkpoints {
    /// Whether a block of a group could not be read.
    fn is_doubted(&self, group: u32) -> bool {
        let first = group * GROUP_BLOCKS;
        let mut doubted = self.doubted.range(first..first + GROUP_BLOCKS);
        doubted.next().is_some()
    }

    /// These blocks could not be read.
    pub fn doubt(&mut self, blocks: impl IntoIterator<Item = u32>) {
        self.doubted.extend(blocks);
    }

    /// A group as it is on the SSD.
    fn open(&mut self, ground: &mut impl Ground, group: u32) {
        if self.open.contains_key(&group) {
            return;
        }
        let mut found = ground.found(group);
        if mutated!(UnreadableForgotten) {
            found.unreadable.clear();
        }
        // It may have been for a moment only. One that has records still is not filled anew.
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
        let open = Open {
            summaries: summaries.map(|of| (of.head.block, of)).collect(),
            // One that could not be read may be there and say what was.
            is_void: false,
            filling: BTreeSet::new(),
        };
        self.open.insert(group, open);
    }

    /// A block is to hold something else: its group's checkpoint is void from now on. Its summary is
    /// when its first record is written. Groups that are through are saved.
    ///
    /// # Errors
    /// As [`Checkpoints::void`].
    pub fn begin<G: Ground>(&mut self, ground: &mut G, block: u32) -> Result<(), G::Error> {
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

    /// The checkpoint that knows nothing of what a block will hold is void. To be made sure of before
    /// its summary is written.
    ///
    /// # Errors
    /// If it may still be there.
    pub fn void<G: Ground>(&mut self, ground: &mut G, block: u32) -> Result<(), G::Error> {
        let group = block / GROUP_BLOCKS;
        if let Some(open) = self.open.get_mut(&group).filter(|open| !open.is_void) {
            if !mutated!(CheckpointNotVoided) {
                ground.void(group)?;
            }
            open.is_void = true;
        }
        Ok(())
    }

    /// A block is sealed, or was given up.
    pub fn end(&mut self, block: u32, summary: Option<Summary>) {
        if let Some(open) = self.open.get_mut(&(block / GROUP_BLOCKS)) {
            open.filling.remove(&block);
            open.summaries
                .extend(summary.map(|summary| (block, summary)));
        }
    }

    /// Writes the checkpoints of groups of which no block is being filled.
    fn save_closed(&mut self, ground: &mut impl Ground, except: Option<u32>) {
        let is_closed =
            |(group, open): &(&u32, &Open)| open.filling.is_empty() && Some(**group) != except;
        let closed: Vec<u32> = (self.open.iter().filter(is_closed))
            .map(|(group, _)| *group)
            .collect();
        for group in closed {
            // One that is not there costs a look at its blocks at the next start.
            if let Some(open) = self.open.remove(&group)
                && !self.is_doubted(group)
            {
                let _ = save(ground, group, open.summaries.values());
            }
        }
    }

    /// Nothing will be written any more: all are saved.
    pub fn finish(&mut self, ground: &mut impl Ground) {
        for open in self.open.values_mut() {
            open.filling.clear();
        }
        self.save_closed(ground, None);
    }

    /// What was found in a group whose checkpoint was void. Answers how many bytes were written.
    pub fn save_found<'s>(
        &mut self,
        ground: &mut impl Ground,
        group: u32,
        summaries: impl Iterator<Item = &'s Summary>,
    ) -> u64 {
        match self.open.contains_key(&group) || self.is_doubted(group) {
            true => 0,
            false => save(ground, group, summaries).unwrap_or(0),
        }
    }
}

/// Answers how many bytes were written.
fn save<'s, G: Ground>(
    ground: &mut G,
    group: u32,
    summaries: impl Iterator<Item = &'s Summary>,
) -> Result<u64, G::Error> {
    let Super { device, layout } = ground.tier();
    let bytes = encode_checkpoint(group, summaries, device, &layout);
    let Some((bytes, (at, _))) = bytes.zip(layout.checkpoint_place(group)) else {
        return Ok(0);
    };
    ground.write(at, &bytes)?;
    let padded = bytes.len().next_multiple_of(RECORD_ALIGN_BYTES as usize);
    Ok(padded as u64)
}
