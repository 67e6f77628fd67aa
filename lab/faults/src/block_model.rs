//! Model of the blocks of an SSD: the content that each must, may and must not have. It records the
//! operations on the SSD, independently of how recovery works.

use std::collections::{BTreeMap, BTreeSet};

use headlong_flash::RecordEntry;
use headlong_flash::format::Summary;

/// A summary of a block: its filling, and the sequence number at sealing. A filling whose summary
/// was lost may be sealed again.
type SealedGeneration = (u64, u64);

/// One block, by its number on the SSD.
#[derive(Debug, Default)]
struct ModelBlock {
    /// Records of each filling, in order.
    staged: BTreeMap<u64, Vec<RecordEntry>>,
    /// Summaries submitted for writing.
    given: Vec<Summary>,
    /// The durable summary, if the block has not been reused since.
    durable: Option<SealedGeneration>,
    /// The summary being sealed, unless the block was abandoned meanwhile.
    wanted: Option<SealedGeneration>,
    /// Summaries whose block was overwritten at the front: not yet flushed, and flushed.
    erased: BTreeSet<SealedGeneration>,
    gone: BTreeSet<SealedGeneration>,
}

/// All blocks of an SSD.
#[derive(Debug, Default)]
pub(crate) struct BlockModel {
    blocks: BTreeMap<u32, ModelBlock>,
    /// Whether the SSD had a fault that may lose or change durable data.
    pub(crate) is_dishonest: bool,
}

/// Why a recovered block is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BlockError {
    Unknown,
    GivenUp,
    Lost(u64),
}

fn sealed(summary: &Summary) -> SealedGeneration {
    (summary.head.filling, summary.head.sequence)
}

impl BlockModel {
    fn block(&mut self, block: u32) -> &mut ModelBlock {
        self.blocks.entry(block).or_default()
    }

    /// The block is reused or abandoned.
    pub(crate) fn give_up(&mut self, block: u32) {
        let block = self.block(block);
        (block.durable, block.wanted) = (None, None);
    }

    /// A record will be written.
    pub(crate) fn stage(&mut self, block: u32, filling: u64, entry: RecordEntry) {
        let staged = self.block(block).staged.entry(filling).or_default();
        staged.push(entry);
    }

    /// Whether a filling begins with these records.
    pub(crate) fn was_staged(&self, block: u32, filling: u64, entries: &[RecordEntry]) -> bool {
        let block = self.blocks.get(&block);
        let staged = block.and_then(|of| of.staged.get(&filling));
        staged.is_some_and(|staged| staged.starts_with(entries))
    }

    /// A summary is submitted for writing. Returns whether its filling is new.
    pub(crate) fn give(&mut self, summary: &Summary) -> bool {
        let block = self.block(summary.head.block);
        let is_new = block
            .given
            .iter()
            .all(|of| of.head.filling != summary.head.filling);
        // A block found by a search may be sealed with the same summary as before.
        block.erased.remove(&sealed(summary));
        block.gone.remove(&sealed(summary));
        block.given.push(summary.clone());
        block.wanted = Some(sealed(summary));
        is_new
    }

    /// The first record of a new filling was written.
    pub(crate) fn overwrite(&mut self, block: u32) {
        let block = self.block(block);
        block.erased.extend(block.given.iter().map(sealed));
    }

    /// All writes are durable.
    pub(crate) fn flush(&mut self) {
        for block in self.blocks.values_mut() {
            let erased = std::mem::take(&mut block.erased);
            block.gone.extend(erased);
        }
    }

    /// Overwritten and unflushed content may come back.
    pub(crate) fn cut_power(&mut self) {
        for block in self.blocks.values_mut() {
            block.erased.clear();
        }
    }

    /// A seal was acknowledged.
    pub(crate) fn seal(&mut self, block: u32, filling: u64) {
        let block = self.block(block);
        block.durable = block.wanted.filter(|wanted| wanted.0 == filling);
    }

    /// Checks the result of recovery for a block.
    pub(crate) fn judge(&self, number: u32, found: Option<&Summary>) -> Option<BlockError> {
        let block = self.blocks.get(&number);
        if let Some(found) = found {
            let is_known = block.is_some_and(|of| of.given.contains(found));
            if !is_known {
                return Some(BlockError::Unknown);
            }
            // Unflushed overwrites still hold, unless the power failed.
            let is_over = |of: &ModelBlock| {
                of.gone.contains(&sealed(found)) || of.erased.contains(&sealed(found))
            };
            let is_gone = block.is_some_and(is_over);
            if is_gone && !self.is_dishonest {
                return Some(BlockError::GivenUp);
            }
        }
        let durable = block
            .and_then(|of| of.durable)
            .filter(|_| !self.is_dishonest)?;
        let is_found = found.is_some_and(|found| sealed(found) == durable);
        (!is_found).then_some(BlockError::Lost(durable.0))
    }

    /// Whether all records of a block must be intact.
    pub(crate) fn must_be_whole(&self, number: u32) -> bool {
        let block = self.blocks.get(&number);
        !self.is_dishonest && block.is_some_and(|of| of.durable.is_some())
    }
}
