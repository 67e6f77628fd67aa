//! Completions of flash operations.

use alloc::vec;
use alloc::vec::Vec;

use headlong_engine::{FlashOutcome, FlashReadId};
use headlong_flash::{BlockId, FlashSpec, ProbeResult, RecoveredBlock, SsdId};
use headlong_units::Duration;

/// A block that recovery found at start-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredFlashBlock {
    /// Generation of the block's content.
    pub filling: u64,
    /// Content of the block.
    pub block: RecoveredBlock,
}

/// A flash operation has completed, or recovery has found something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlashResult {
    /// The device's share of the SSDs, with the blocks that are known so far.
    Attach(FlashSpec, Vec<RecoveredFlashBlock>),
    /// Blocks that recovery found.
    Found(Vec<RecoveredFlashBlock>),
    /// Recovery has ended.
    RecoveryEnded {
        /// Bytes written within the last 24 hours.
        written_bytes: u64,
        /// SSDs that were never filled.
        fresh: Vec<SsdId>,
    },
    /// Records of a block were written.
    Written {
        /// The block.
        block: BlockId,
        /// End of the written range, exclusive.
        to: u32,
        /// Whether all records were written.
        ok: bool,
    },
    /// A block was sealed.
    Sealed {
        /// The block.
        block: BlockId,
        /// Whether the seal is durable.
        ok: bool,
    },
    /// Records were read.
    Read {
        /// The read.
        id: FlashReadId,
        /// The outcome of each record.
        outcomes: Vec<FlashOutcome>,
        /// Latency of the SSD, if it was measured.
        took: Option<Duration>,
    },
    /// An SSD was probed.
    Probed {
        /// The SSD.
        ssd: SsdId,
        /// The result.
        probed: ProbeResult,
    },
}

impl FlashResult {
    /// A failed read of `records` records.
    pub(crate) fn failed_read(id: FlashReadId, records: usize) -> Self {
        Self::Read {
            id,
            outcomes: vec![FlashOutcome::Error; records],
            took: None,
        }
    }
}
