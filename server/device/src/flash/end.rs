//! The ends of what was asked of flash.

use alloc::vec;
use alloc::vec::Vec;

use headlong_engine::{FlashOutcome, FlashReadId};
use headlong_flash::{BlockId, FlashSpec, Probed, RecoveredBlock, SsdId};
use headlong_units::Duration;

/// A block that was there at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundBlock {
    /// Which filling of it is there.
    pub filling: u64,
    /// What it holds.
    pub block: RecoveredBlock,
}

/// Something that was asked of flash has ended, or is found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlashEnd {
    /// What this device has of the SSDs, with what is known of their content.
    Attach(FlashSpec, Vec<FoundBlock>),
    /// Blocks that were there at the start.
    Found(Vec<FoundBlock>),
    /// Those were all.
    RecoveryEnded {
        /// Bytes written within the last day.
        written_bytes: u64,
        /// SSDs that were never filled.
        fresh: Vec<SsdId>,
    },
    /// Records of a block were written.
    Written {
        /// The block.
        block: BlockId,
        /// One past the last byte.
        to: u32,
        /// Whether all of them are there.
        ok: bool,
    },
    /// A block was sealed.
    Sealed {
        /// The block.
        block: BlockId,
        /// Whether it is durable.
        ok: bool,
    },
    /// Records were read.
    Read {
        /// Which read.
        id: FlashReadId,
        /// How each came back.
        outcomes: Vec<FlashOutcome>,
        /// How long the SSD took, if that is measured.
        took: Option<Duration>,
    },
    /// An SSD was probed.
    Probed {
        /// Which.
        ssd: SsdId,
        /// What was seen.
        probed: Probed,
    },
}

impl FlashEnd {
    /// A read of so many records that failed.
    pub(crate) fn failed_read(id: FlashReadId, records: usize) -> Self {
        Self::Read {
            id,
            outcomes: vec![FlashOutcome::Error; records],
            took: None,
        }
    }
}
