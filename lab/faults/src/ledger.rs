//! What each block of an SSD must hold, may hold, and must not hold: a model that knows what was done
//! to the SSD, and nothing of how it is found again.

use std::collections::{BTreeMap, BTreeSet};

use headlong_flash::RecordEntry;
use headlong_flash::format::Summary;

/// A summary of a block: its filling, and the number with which that was sealed. A filling whose
/// summary was lost may be sealed again.
type Sealed = (u64, u64);

/// One block, as the SSD counts.
#[derive(Debug, Default)]
struct Block {
    /// Records of each filling, in order.
    staged: BTreeMap<u64, Vec<RecordEntry>>,
    /// Summaries that were given to be written.
    given: Vec<Summary>,
    /// What was told to be durable, and was not begun anew since.
    durable: Option<Sealed>,
    /// What is being sealed, unless it was given up meanwhile.
    wanted: Option<Sealed>,
    /// Summaries that something was written over the front of: not yet for good, and for good.
    erased: BTreeSet<Sealed>,
    gone: BTreeSet<Sealed>,
}

/// All blocks of an SSD.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    blocks: BTreeMap<u32, Block>,
    /// Whether the SSD did what it said that it did.
    pub(crate) is_dishonest: bool,
}

/// Why what was found is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Unknown,
    GivenUp,
    Lost(u64),
}

fn sealed(summary: &Summary) -> Sealed {
    (summary.head.filling, summary.head.sequence)
}

impl Ledger {
    fn block(&mut self, block: u32) -> &mut Block {
        self.blocks.entry(block).or_default()
    }

    /// A block is filled anew, or nothing of it is wanted.
    pub(crate) fn give_up(&mut self, block: u32) {
        let block = self.block(block);
        (block.durable, block.wanted) = (None, None);
    }

    /// A record is to be written.
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

    /// A summary is given to be written. Answers whether its filling is a new one.
    pub(crate) fn give(&mut self, summary: &Summary) -> bool {
        let block = self.block(summary.head.block);
        let is_new = block
            .given
            .iter()
            .all(|of| of.head.filling != summary.head.filling);
        // What a search found may be sealed as it was before.
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

    /// All that was written is durable.
    pub(crate) fn flush(&mut self) {
        for block in self.blocks.values_mut() {
            let erased = std::mem::take(&mut block.erased);
            block.gone.extend(erased);
        }
    }

    /// What was overwritten and not flushed may come back.
    pub(crate) fn cut_power(&mut self) {
        for block in self.blocks.values_mut() {
            block.erased.clear();
        }
    }

    /// A seal was told to have ended well.
    pub(crate) fn seal(&mut self, block: u32, filling: u64) {
        let block = self.block(block);
        block.durable = block.wanted.filter(|wanted| wanted.0 == filling);
    }

    /// Judges what recovery says of a block: the summary, if it found one.
    pub(crate) fn judge(&self, number: u32, found: Option<&Summary>) -> Option<Wrong> {
        let block = self.blocks.get(&number);
        if let Some(found) = found {
            let is_known = block.is_some_and(|of| of.given.contains(found));
            if !is_known {
                return Some(Wrong::Unknown);
            }
            // What was not flushed is there all the same, unless the power went.
            let is_over =
                |of: &Block| of.gone.contains(&sealed(found)) || of.erased.contains(&sealed(found));
            let is_gone = block.is_some_and(is_over);
            if is_gone && !self.is_dishonest {
                return Some(Wrong::GivenUp);
            }
        }
        let durable = block
            .and_then(|of| of.durable)
            .filter(|_| !self.is_dishonest)?;
        let is_found = found.is_some_and(|found| sealed(found) == durable);
        (!is_found).then_some(Wrong::Lost(durable.0))
    }

    /// Whether all records of a block must be right.
    pub(crate) fn must_be_whole(&self, number: u32) -> bool {
        let block = self.blocks.get(&number);
        !self.is_dishonest && block.is_some_and(|of| of.durable.is_some())
    }
}
