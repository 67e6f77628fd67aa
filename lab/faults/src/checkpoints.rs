//! The checkpoints of one SSD while its blocks are filled anew, as `serve::flash::checkpoints`.

use std::collections::{BTreeMap, BTreeSet};

use headlong_flash::RECORD_ALIGN_BYTES;
use headlong_flash::format::{GROUP_BLOCKS, Summary, encode_checkpoint, recover};

use crate::drive::{Drive, Failed};
use crate::plant::Plant;

const NOTHING: [u8; RECORD_ALIGN_BYTES as usize] = [0; RECORD_ALIGN_BYTES as usize];

/// Groups whose checkpoints are void.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    open: BTreeMap<u32, Open>,
}

#[derive(Debug)]
struct Open {
    summaries: BTreeMap<u32, Summary>,
    filling: BTreeSet<u32>,
    is_known: bool,
    is_void: bool,
}

impl Open {
    fn of(drive: &mut Drive, group: u32, plant: Option<Plant>) -> Self {
        let tier = drive.tier;
        let found = recover(&tier, group..group + 1, |at, into| drive.read(at, into));
        let summaries = found.summaries.into_iter();
        Self {
            summaries: summaries.map(|of| (of.head.block, of)).collect(),
            is_known: found.unreadable == 0,
            is_void: plant == Some(Plant::CheckpointNotVoided),
            filling: BTreeSet::new(),
        }
    }
}

impl Checkpoints {
    /// A block is to hold something else.
    pub(crate) fn begin(
        &mut self,
        drive: &mut Drive,
        block: u32,
        plant: Option<Plant>,
    ) -> Result<(), Failed> {
        let group = block / GROUP_BLOCKS;
        self.save_closed(drive, Some(group));
        let open = self
            .open
            .entry(group)
            .or_insert_with(|| Open::of(drive, group, plant));
        open.summaries.remove(&block);
        open.filling.insert(block);
        self.void(drive, block)?;
        let Some(start) = drive.tier.layout.block_start(block) else {
            return Ok(());
        };
        // The model is told all the same.
        if plant != Some(Plant::EraseLeftOut) {
            drive.put(start, &NOTHING)?;
        }
        drive.ledger.erase(block);
        Ok(())
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
        self.open.retain(|group, open| {
            if !open.filling.is_empty() || Some(*group) == except {
                return true;
            }
            if open.is_known {
                let _ = save(drive, *group, open.summaries.values());
            }
            false
        });
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
        match self.open.contains_key(&group) {
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
