//! The checkpoints of one SSD while its blocks are filled anew, as `serve::flash::checkpoints`.

use std::collections::{BTreeMap, BTreeSet};

use headlong_flash::RECORD_ALIGN_BYTES;
use headlong_flash::format::{GROUP_BLOCKS, Summary, encode_checkpoint, recover, search_block};

use crate::drive::{Drive, Failed};
use crate::plant::Plant;

const NOTHING: [u8; RECORD_ALIGN_BYTES as usize] = [0; RECORD_ALIGN_BYTES as usize];

/// Groups whose checkpoints are void.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    open: BTreeMap<u32, Open>,
    /// Blocks that could not be read and were not filled anew since.
    doubted: BTreeSet<u32>,
}

#[derive(Debug)]
struct Open {
    summaries: BTreeMap<u32, Summary>,
    filling: BTreeSet<u32>,
    is_void: bool,
}

impl Checkpoints {
    fn is_doubted(&self, group: u32) -> bool {
        let first = group * GROUP_BLOCKS;
        let mut doubted = self.doubted.range(first..first + GROUP_BLOCKS);
        doubted.next().is_some()
    }

    /// These blocks could not be read.
    pub(crate) fn doubt(&mut self, blocks: impl IntoIterator<Item = u32>) {
        self.doubted.extend(blocks);
    }

    fn open(&mut self, drive: &mut Drive, group: u32, plant: Option<Plant>) {
        if self.open.contains_key(&group) {
            return;
        }
        let tier = drive.tier;
        let found = recover(&tier, group..group + 1, |at, into| drive.read(at, into));
        self.doubted.retain(|block| {
            let has_summary = found.summaries.iter().any(|of| of.head.block == *block);
            let is_empty = found.bare.contains(block)
                && search_block(&tier, *block, |at, into| drive.read(at, into)) == Ok(None);
            !has_summary && !is_empty
        });
        if plant != Some(Plant::UnreadableForgotten) {
            self.doubt(found.unreadable);
        }
        let summaries = found.summaries.into_iter();
        let open = Open {
            summaries: summaries.map(|of| (of.head.block, of)).collect(),
            is_void: plant == Some(Plant::CheckpointNotVoided),
            filling: BTreeSet::new(),
        };
        self.open.insert(group, open);
    }

    /// A block is to hold something else.
    pub(crate) fn begin(
        &mut self,
        drive: &mut Drive,
        block: u32,
        plant: Option<Plant>,
    ) -> Result<(), Failed> {
        let group = block / GROUP_BLOCKS;
        self.save_closed(drive, Some(group));
        self.open(drive, group, plant);
        self.doubted.remove(&block);
        if let Some(open) = self.open.get_mut(&group) {
            open.summaries.remove(&block);
            open.filling.insert(block);
        }
        self.void(drive, block)
    }

    /// The checkpoint that knows nothing of what a block will hold is void.
    pub(crate) fn void(&mut self, drive: &mut Drive, block: u32) -> Result<(), Failed> {
        let group = block / GROUP_BLOCKS;
        let open = self.open.get_mut(&group).filter(|open| !open.is_void);
        if let Some(open) = open {
            if let Some((at, _)) = drive.tier.layout.checkpoint_place(group) {
                drive.put(at, &NOTHING)?;
            }
            open.is_void = true;
        }
        Ok(())
    }

    /// A block is sealed, or was given up.
    pub(crate) fn end(&mut self, block: u32, summary: Option<Summary>) {
        if let Some(open) = self.open.get_mut(&(block / GROUP_BLOCKS)) {
            open.filling.remove(&block);
            open.summaries
                .extend(summary.map(|summary| (block, summary)));
        }
    }

    fn save_closed(&mut self, drive: &mut Drive, except: Option<u32>) {
        let is_closed =
            |(group, open): &(&u32, &Open)| open.filling.is_empty() && Some(**group) != except;
        let closed: Vec<u32> = (self.open.iter().filter(is_closed))
            .map(|(group, _)| *group)
            .collect();
        for group in closed {
            if let Some(open) = self.open.remove(&group)
                && !self.is_doubted(group)
            {
                let _ = save(drive, group, open.summaries.values());
            }
        }
    }

    /// Nothing will be written any more: all are saved.
    pub(crate) fn finish(&mut self, drive: &mut Drive) {
        for open in self.open.values_mut() {
            open.filling.clear();
        }
        self.save_closed(drive, None);
        let _ = drive.flush();
    }

    /// What was found in a group whose checkpoint was void. Answers how many bytes were written.
    pub(crate) fn save_found<'s>(
        &mut self,
        drive: &mut Drive,
        group: u32,
        summaries: impl Iterator<Item = &'s Summary>,
    ) -> u64 {
        match self.open.contains_key(&group) || self.is_doubted(group) {
            true => 0,
            false => save(drive, group, summaries).unwrap_or(0),
        }
    }
}

/// Answers how many bytes were written.
fn save<'s>(
    drive: &mut Drive,
    group: u32,
    summaries: impl Iterator<Item = &'s Summary>,
) -> Result<u64, Failed> {
    let layout = drive.tier.layout;
    let bytes = encode_checkpoint(group, summaries, drive.tier.device, &layout);
    let Some((bytes, (at, _))) = bytes.zip(layout.checkpoint_place(group)) else {
        return Ok(0);
    };
    drive.put(at, &bytes)?;
    Ok(bytes.len().next_multiple_of(NOTHING.len()) as u64)
}
