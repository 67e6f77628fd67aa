//! Layout of an SSD: offsets derived from the sizes of SSD, block and piece.

use core::ops::Range;

use headlong_units::Bytes;
use thiserror::Error;

use crate::names::RECORD_ALIGN_BYTES;

/// Minimum number of blocks of a tier: with fewer, each eviction would lose too much.
pub const BLOCKS_MIN: u32 = 100;

/// Offsets of the two copies of the super record.
pub const SUPER_COPIES: [u64; 2] = [0, 32 << 10];

/// Offset of an unused page, for probes of writes.
pub const PROBE_PLACE: u64 = 48 << 10;

/// Size of a summary before its runs.
pub const SUMMARY_HEAD_BYTES: usize = 80;
/// Size of a run of records in a summary.
pub(super) const RUN_BYTES: usize = 32;

/// Blocks per checkpoint.
pub const GROUP_BLOCKS: u32 = 16;
/// Size of a checkpoint before its summaries.
pub(super) const CHECKPOINT_HEAD_BYTES: usize = 48;

/// Offset of the first checkpoint.
const CHECKPOINTS_START: u64 = 64 << 10;

const ALIGN: u64 = RECORD_ALIGN_BYTES as u64;

/// A valid layout, created only by [`Layout::new`].
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

/// An SSD cannot be divided this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The block size is not a power of two, too small or too large.
    #[error(
        "blocks of {0} bytes are not possible; a block is a power of two from 256 KiB to 256 MiB"
    )]
    BlockBytes(u64),
    /// The piece size is not a multiple of the alignment, or does not fit into a block.
    #[error("pieces of {piece} bytes do not fit into blocks of {block}; use larger blocks")]
    PieceBytes {
        /// Piece size.
        piece: u64,
        /// Block size.
        block: u64,
    },
    /// Too few blocks.
    #[error(
        "{} are only {count} blocks of {}; a tier has at least {BLOCKS_MIN}: use smaller blocks or \
         a larger SSD",
        Bytes(*.bytes).rounded(), Bytes(*.block)
    )]
    TooSmall {
        /// Size of the SSD.
        bytes: u64,
        /// Block size.
        block: u64,
        /// Number of blocks.
        count: u64,
    },
    /// More blocks than block numbers.
    #[error("{bytes} bytes are too many blocks of {block}; use larger blocks")]
    TooLarge {
        /// Size of the SSD.
        bytes: u64,
        /// Block size.
        block: u64,
    },
}

impl Layout {
    /// Divides `tier_bytes` into blocks of `block_bytes` for pieces of `piece_bytes`.
    ///
    /// # Errors
    /// If the sizes do not fit.
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
        // Room for blocks full of whole pieces without runs, plus half as many again.
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

    /// Size of the SSD in bytes.
    pub fn tier_bytes(&self) -> u64 {
        self.tier_bytes
    }

    /// Size of a block in bytes, including its summary.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Size of a whole piece in bytes.
    pub fn piece_bytes(&self) -> u32 {
        self.piece_bytes
    }

    /// Bytes reserved for the summary at the end of a block.
    pub fn summary_bytes(&self) -> u32 {
        self.summary_bytes
    }

    /// Offset within a block at which records end at the latest and the summary begins.
    pub fn records_end(&self) -> u32 {
        self.block_bytes - self.summary_bytes
    }

    /// Number of blocks.
    pub fn block_count(&self) -> u32 {
        self.block_count
    }

    /// Upper limit of records in a block.
    pub fn records_max(&self) -> u32 {
        self.records_end() / (2 * RECORD_ALIGN_BYTES)
    }

    /// Offset of a block, which starts with its first record; `None` if there is no such block.
    pub fn block_start(&self, block: u32) -> Option<u64> {
        let start = u64::from(block) * u64::from(self.block_bytes);
        (block < self.block_count).then(|| self.blocks_start + start)
    }

    /// Offset of a block's summary; `None` if there is no such block.
    pub fn summary_start(&self, block: u32) -> Option<u64> {
        Some(self.block_start(block)? + u64::from(self.records_end()))
    }

    /// Number of groups, each with a checkpoint.
    pub fn group_count(&self) -> u32 {
        self.block_count.div_ceil(GROUP_BLOCKS)
    }

    /// The blocks of a group.
    pub fn group_blocks(&self, group: u32) -> Range<u32> {
        let first = group.saturating_mul(GROUP_BLOCKS);
        first.min(self.block_count)..first.saturating_add(GROUP_BLOCKS).min(self.block_count)
    }

    /// Upper limit of the size of a checkpoint.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_bytes
    }

    /// Offset and maximum size of a group's checkpoint; `None` if there is no such group.
    pub fn checkpoint_place(&self, group: u32) -> Option<(u64, u64)> {
        let start = CHECKPOINTS_START + u64::from(group) * self.checkpoint_bytes;
        (group < self.group_count()).then_some((start, self.checkpoint_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_tier_neither_overlap_nor_exceed_it() {
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
            assert!(end + block > tier, "no space is wasted");
            assert_eq!(layout.block_start(last + 1), None);
            let most = layout.records_max() as usize * RUN_BYTES + SUMMARY_HEAD_BYTES;
            assert!(most <= layout.summary_bytes() as usize);
        }
    }

    #[test]
    fn invalid_sizes_are_refused_with_a_reason() {
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
