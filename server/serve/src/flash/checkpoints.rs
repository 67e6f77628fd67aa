//! The checkpoints of one SSD, while its blocks are filled anew.
//!
//! Only the thread that writes to the SSD changes them, in the order of its jobs, but for
//! [`Checkpoints::save_found`] and [`Checkpoints::doubt`] before anything is written.
//!
//! Invariant: no checkpoint is written of a group with a block that could not be read. It may be
//! whole, and the checkpoint would say for ever that it is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use headlong_flash::RECORD_ALIGN_BYTES;
use headlong_flash::format::{
    GROUP_BLOCKS, Summary, Super, encode_checkpoint, recover, search_block,
};

use super::aligned::Aligned;
use super::medium::{Medium, SsdCounters};

/// Groups whose checkpoints are void.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
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

/// Where checkpoints are written.
pub(super) struct Place<'a> {
    pub(super) medium: &'a Medium,
    pub(super) tier: &'a Super,
    pub(super) counters: &'a SsdCounters,
}

impl Place<'_> {
    fn write(&self, at: u64, bytes: &Aligned) -> io::Result<()> {
        self.medium.write_counted(self.counters, at, bytes)
    }

    fn void(&self, group: u32) -> io::Result<()> {
        let place = self.tier.layout.checkpoint_place(group);
        let nothing = Aligned::new(RECORD_ALIGN_BYTES as usize);
        place.map_or(Ok(()), |(at, _)| self.write(at, &nothing))
    }

    /// Answers how many bytes were written.
    fn save<'s>(
        &self,
        group: u32,
        summaries: impl Iterator<Item = &'s Summary>,
    ) -> io::Result<u64> {
        let layout = &self.tier.layout;
        let bytes = encode_checkpoint(group, summaries, self.tier.device, layout);
        let Some((bytes, (at, _))) = bytes.zip(layout.checkpoint_place(group)) else {
            return Ok(0);
        };
        let bytes = Aligned::of(&bytes);
        self.write(at, &bytes)?;
        Ok(bytes.as_ref().len() as u64)
    }
}

impl Checkpoints {
    /// Whether a block of a group could not be read.
    fn is_doubted(&self, group: u32) -> bool {
        let first = group * GROUP_BLOCKS;
        let mut doubted = self.doubted.range(first..first + GROUP_BLOCKS);
        doubted.next().is_some()
    }

    /// These blocks could not be read.
    pub(super) fn doubt(&mut self, blocks: impl IntoIterator<Item = u32>) {
        self.doubted.extend(blocks);
    }

    /// A group as it is on the SSD.
    fn open(&mut self, place: &Place<'_>, group: u32) {
        if self.open.contains_key(&group) {
            return;
        }
        let found = recover(place.tier, group..group + 1, place.medium.reader());
        // It may have been for a moment only. One that has records still is not filled anew.
        let mut reader = place.medium.reader();
        self.doubted.retain(|block| {
            let has_summary = found.summaries.iter().any(|of| of.head.block == *block);
            let is_empty = found.bare.contains(block)
                && search_block(place.tier, *block, &mut reader) == Ok(None);
            !has_summary && !is_empty
        });
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
    pub(super) fn begin(&mut self, place: &Place<'_>, block: u32) -> io::Result<()> {
        let group = block / GROUP_BLOCKS;
        self.save_closed(place, Some(group));
        self.open(place, group);
        self.doubted.remove(&block);
        if let Some(open) = self.open.get_mut(&group) {
            open.summaries.remove(&block);
            open.filling.insert(block);
        }
        self.void(place, block)
    }

    /// The checkpoint that knows nothing of what a block will hold is void. To be made sure of before
    /// its summary is written.
    pub(super) fn void(&mut self, place: &Place<'_>, block: u32) -> io::Result<()> {
        let group = block / GROUP_BLOCKS;
        let open = self.open.get_mut(&group).filter(|open| !open.is_void);
        let Some(open) = open else {
            return Ok(());
        };
        place.void(group)?;
        open.is_void = true;
        Ok(())
    }

    /// A block is sealed, or was given up.
    pub(super) fn end(&mut self, block: u32, summary: Option<Summary>) {
        if let Some(open) = self.open.get_mut(&(block / GROUP_BLOCKS)) {
            open.filling.remove(&block);
            open.summaries
                .extend(summary.map(|summary| (block, summary)));
        }
    }

    /// Writes the checkpoints of groups of which no block is being filled.
    fn save_closed(&mut self, place: &Place<'_>, except: Option<u32>) {
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
                let _ = place.save(group, open.summaries.values());
            }
        }
    }

    /// Nothing will be written any more: all are saved.
    pub(super) fn finish(&mut self, place: &Place<'_>) -> io::Result<()> {
        for open in self.open.values_mut() {
            open.filling.clear();
        }
        self.save_closed(place, None);
        place.medium.file().sync_data()
    }

    /// What was found in a group whose checkpoint was void. Answers how many bytes were written.
    pub(super) fn save_found<'s>(
        &mut self,
        place: &Place<'_>,
        group: u32,
        summaries: impl Iterator<Item = &'s Summary>,
    ) -> u64 {
        match self.open.contains_key(&group) || self.is_doubted(group) {
            true => 0,
            false => place.save(group, summaries).unwrap_or(0),
        }
    }
}
