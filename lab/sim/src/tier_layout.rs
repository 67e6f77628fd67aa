//! Layout of a tier on a modelled SSD, and the checkpoint writes that accompany its blocks.
//!
//! As in the server: checkpoints first, then blocks. Starting to fill a block voids its group's
//! checkpoint and writes the checkpoints of all groups that have no open block.

use std::collections::{BTreeMap, BTreeSet};

use headlong_flash::format::{GROUP_BLOCKS, Layout};
use headlong_flash::{RECORD_ALIGN_BYTES, SpecError};

/// Layout of a tier.
#[derive(Debug, Clone)]
pub struct TierLayout {
    layout: Layout,
    blocks_start: u64,
    /// Groups with a void checkpoint, with their blocks that are being filled.
    open: BTreeMap<u32, BTreeSet<u32>>,
}

impl TierLayout {
    /// Lays out `bytes`. Accepts smaller tiers than the server does.
    ///
    /// # Errors
    /// If the block size is invalid, or not even one block fits.
    pub fn new(bytes: u64, block_bytes: u32, piece_bytes: u64) -> Result<(Self, u32), SpecError> {
        let block = u64::from(block_bytes);
        // Block and checkpoint sizes do not depend on the number of blocks.
        let layout = Layout::new(block.saturating_mul(200), block, piece_bytes);
        let layout = layout.map_err(|_| SpecError::BlockSize)?;
        let groups = (bytes / block).div_ceil(GROUP_BLOCKS.into());
        let blocks_start = (groups * layout.checkpoint_bytes()).next_multiple_of(block);
        let count = bytes.saturating_sub(blocks_start) / block;
        let places = Self {
            layout,
            blocks_start,
            open: BTreeMap::new(),
        };
        let count = u32::try_from(count).ok().filter(|count| *count > 0);
        Ok((places, count.ok_or(SpecError::Blocks)?))
    }

    /// Layout within a block.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Start address of a block.
    pub fn block_start(&self, block: u32) -> u64 {
        self.blocks_start + u64::from(block) * u64::from(self.layout.block_bytes())
    }

    /// Most bytes written outside a block to fill it.
    pub fn seal_bytes(&self) -> u32 {
        self.layout.checkpoint_bytes() as u32 + RECORD_ALIGN_BYTES
    }

    /// Starts to fill a block. Returns the writes that come before it: address and bytes.
    pub fn begin(&mut self, block: u32) -> Vec<(u64, u64)> {
        let group = block / GROUP_BLOCKS;
        let bytes = self.layout.checkpoint_bytes();
        let place = |group: u32| u64::from(group) * bytes;
        let is_through = |of: &u32, filling: &mut BTreeSet<u32>| *of != group && filling.is_empty();
        let through = self.open.extract_if(.., is_through);
        let mut written: Vec<(u64, u64)> = through.map(|(of, _)| (place(of), bytes)).collect();
        if !self.open.contains_key(&group) {
            written.push((place(group), u64::from(RECORD_ALIGN_BYTES)));
        }
        self.open.entry(group).or_default().insert(block);
        written
    }

    /// A block was sealed or abandoned.
    pub fn end(&mut self, block: u32) {
        if let Some(filling) = self.open.get_mut(&(block / GROUP_BLOCKS)) {
            filling.remove(&block);
        }
    }

    /// The process ended; no block is being filled.
    pub(crate) fn end_all(&mut self) {
        self.open.values_mut().for_each(BTreeSet::clear);
    }
}
