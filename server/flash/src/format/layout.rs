//! Where what lies, by the sizes of an SSD, a block and a piece.

use core::ops::Range;

use thiserror::Error;

use crate::names::RECORD_ALIGN_BYTES;

/// Fewer blocks than this make no tier: too much would go with each.
pub const BLOCKS_MIN: u32 = 100;

/// Where the two copies of the super record begin.
pub const SUPER_COPIES: [u64; 2] = [0, 32 << 10];

/// A page that holds nothing: to see whether the SSD keeps what is written.
pub const PROBE_PLACE: u64 = 48 << 10;

/// Bytes of a summary before its runs.
pub const SUMMARY_HEAD_BYTES: usize = 80;
/// Bytes of a run of records in a summary.
pub(super) const RUN_BYTES: usize = 32;

/// Blocks that have one checkpoint.
pub const GROUP_BLOCKS: u32 = 16;
/// Bytes of a checkpoint before its summaries.
pub(super) const CHECKPOINT_HEAD_BYTES: usize = 48;

/// Where the checkpoints begin.
const CHECKPOINTS_START: u64 = 64 << 10;

const ALIGN: u64 = RECORD_ALIGN_BYTES as u64;

/// A tier of this form. Made only by [`Layout::new`], so that all of it fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    tier_bytes: u64,
    block_bytes: u32,
    piece_bytes: u32,
    summary_bytes: u32,
    checkpoint_bytes: u64,
    blocks_start: u64,
    block_count: u32,
}

/// Why an SSD cannot be divided so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// No power of two, or too small or too large.
    #[error("blocks of {0} bytes cannot be; a block is a power of two from 256 KiB to 256 MiB")]
    BlockBytes(u64),
    /// No multiple of the alignment, or more than a block has room for.
    #[error("pieces of {piece} bytes do not fit into blocks of {block}; take larger blocks")]
    PieceBytes {
        /// Of a piece.
        piece: u64,
        /// Of a block.
        block: u64,
    },
    /// Too small.
    #[error(
        "{bytes} bytes are only {count} blocks of {block}; a tier has at least {BLOCKS_MIN}: take \
         smaller blocks or a larger SSD"
    )]
    TooSmall {
        /// Of the SSD.
        bytes: u64,
        /// Of a block.
        block: u64,
        /// How many blocks that are.
        count: u64,
    },
    /// More blocks than have a number.
    #[error("{bytes} bytes are too many blocks of {block}; take larger blocks")]
    TooLarge {
        /// Of the SSD.
        bytes: u64,
        /// Of a block.
        block: u64,
    },
}

impl Layout {
    /// Divides `tier_bytes` into blocks of `block_bytes` for pieces of `piece_bytes`.
    ///
    /// # Errors
    /// If that cannot be.
    pub fn new(tier_bytes: u64, block_bytes: u64, piece_bytes: u64) -> Result<Self, LayoutError> {
        let narrow = |bytes: u64| u32::try_from(bytes).ok();
        let block = narrow(block_bytes)
            .filter(|bytes| bytes.is_power_of_two() && (256 << 10..=256 << 20).contains(bytes))
            .ok_or(LayoutError::BlockBytes(block_bytes))?;
        // The shortest record is a header and one page.
        let entries_max = u64::from(block) / (2 * ALIGN);
        let summary_bytes = SUMMARY_HEAD_BYTES as u64 + entries_max * RUN_BYTES as u64;
        let summary_bytes = narrow(summary_bytes.next_multiple_of(ALIGN))
            .ok_or(LayoutError::BlockBytes(block_bytes))?;
        let piece = narrow(piece_bytes)
            .filter(|bytes| *bytes > 0 && u64::from(*bytes).is_multiple_of(ALIGN))
            .filter(|bytes| u64::from(*bytes) + ALIGN <= u64::from(block - summary_bytes))
            .ok_or(LayoutError::PieceBytes {
                piece: piece_bytes,
                block: block_bytes,
            })?;
        // Room for blocks full of whole pieces of which no two are a run, and half as many again.
        let entries = (block_bytes / piece_bytes * 3).div_ceil(2);
        let of_block = SUMMARY_HEAD_BYTES as u64 + entries * RUN_BYTES as u64;
        let checkpoint_bytes = (CHECKPOINT_HEAD_BYTES as u64 + u64::from(GROUP_BLOCKS) * of_block)
            .next_multiple_of(ALIGN);
        let groups = (tier_bytes / block_bytes).div_ceil(u64::from(GROUP_BLOCKS));
        let blocks_start = CHECKPOINTS_START
            .saturating_add(groups.saturating_mul(checkpoint_bytes))
            .checked_next_multiple_of(block_bytes)
            .unwrap_or(u64::MAX);
        let count = tier_bytes.saturating_sub(blocks_start) / block_bytes;
        if count < u64::from(BLOCKS_MIN) {
            return Err(LayoutError::TooSmall {
                bytes: tier_bytes,
                block: block_bytes,
                count,
            });
        }
        let block_count = narrow(count).ok_or(LayoutError::TooLarge {
            bytes: tier_bytes,
            block: block_bytes,
        })?;
        Ok(Self {
            tier_bytes,
            block_bytes: block,
            piece_bytes: piece,
            summary_bytes,
            checkpoint_bytes,
            blocks_start,
            block_count,
        })
    }

    /// Bytes of the SSD.
    pub fn tier_bytes(&self) -> u64 {
        self.tier_bytes
    }

    /// Bytes of a block with its summary.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Bytes of a whole piece.
    pub fn piece_bytes(&self) -> u32 {
        self.piece_bytes
    }

    /// Bytes at the end of a block that are kept for its summary.
    pub fn summary_bytes(&self) -> u32 {
        self.summary_bytes
    }

    /// Where in a block its records end at the latest, and its summary begins.
    pub fn records_end(&self) -> u32 {
        self.block_bytes - self.summary_bytes
    }

    /// How many blocks there are.
    pub fn block_count(&self) -> u32 {
        self.block_count
    }

    /// Most records of a block.
    pub fn records_max(&self) -> u32 {
        self.records_end() / (2 * RECORD_ALIGN_BYTES)
    }

    /// Where a block begins, with its first record; `None` if there is no such block.
    pub fn block_start(&self, block: u32) -> Option<u64> {
        let start = u64::from(block) * u64::from(self.block_bytes);
        (block < self.block_count).then(|| self.blocks_start + start)
    }

    /// Where a block's summary begins; `None` if there is no such block.
    pub fn summary_start(&self, block: u32) -> Option<u64> {
        Some(self.block_start(block)? + u64::from(self.records_end()))
    }

    /// Groups of blocks that have a checkpoint.
    pub fn group_count(&self) -> u32 {
        self.block_count.div_ceil(GROUP_BLOCKS)
    }

    /// The blocks of a group.
    pub fn group_blocks(&self, group: u32) -> Range<u32> {
        let first = group.saturating_mul(GROUP_BLOCKS);
        first.min(self.block_count)..first.saturating_add(GROUP_BLOCKS).min(self.block_count)
    }

    /// Most bytes of a checkpoint.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_bytes
    }

    /// Where a group's checkpoint begins, and most bytes of it; `None` if there is no such group.
    pub fn checkpoint_place(&self, group: u32) -> Option<(u64, u64)> {
        let start = CHECKPOINTS_START + u64::from(group) * self.checkpoint_bytes;
        (group < self.group_count()).then_some((start, self.checkpoint_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_tier_lies_in_another_or_behind_its_end() {
        for (tier, block, piece) in [
            (40_u64 << 20, 256_u64 << 10, 64_u64 << 10),
            (2 << 30, 16 << 20, 256 << 10),
            (4 << 40, 16 << 20, 2 << 20),
        ] {
            let layout = Layout::new(tier, block, piece).expect("fits");
            let (first, bytes) = layout.checkpoint_place(0).expect("a place");
            assert!(SUPER_COPIES[1] + ALIGN <= PROBE_PLACE && PROBE_PLACE + ALIGN <= first);
            let last = layout.group_count() - 1;
            let (last, _) = layout.checkpoint_place(last).expect("a place");
            assert!(last.is_multiple_of(ALIGN) && bytes.is_multiple_of(ALIGN));
            assert!(Some(last + bytes) <= layout.block_start(0));
            let groups = 0..layout.group_count();
            let blocks = groups.flat_map(|group| layout.group_blocks(group));
            assert!(blocks.eq(0..layout.block_count()));
            let last = layout.block_count() - 1;
            let end = layout.block_start(last).expect("a place") + block;
            assert!(end <= tier);
            assert!(end + block > tier, "nothing is left over");
            assert_eq!(layout.block_start(last + 1), None);
            let most = layout.records_max() as usize * RUN_BYTES + SUMMARY_HEAD_BYTES;
            assert!(most <= layout.summary_bytes() as usize);
        }
    }

    #[test]
    fn what_cannot_be_divided_is_refused_with_a_reason() {
        let new = |tier, block, piece| Layout::new(tier, block, piece).expect_err("refused");
        let gib = 1 << 30;
        assert_eq!(new(gib, 3 << 20, 4096), LayoutError::BlockBytes(3 << 20));
        assert!(matches!(
            new(gib, 1 << 20, 1 << 20),
            LayoutError::PieceBytes { .. }
        ));
        assert!(matches!(
            new(gib, 1 << 20, 100),
            LayoutError::PieceBytes { .. }
        ));
        assert!(matches!(
            new(gib, 16 << 20, 4096),
            LayoutError::TooSmall { .. }
        ));
        assert!(matches!(
            new(0, 16 << 20, 4096),
            LayoutError::TooSmall { .. }
        ));
        assert!(matches!(
            new(u64::MAX, 1 << 20, 4096),
            LayoutError::TooLarge { .. } | LayoutError::TooSmall { .. }
        ));
    }
}
