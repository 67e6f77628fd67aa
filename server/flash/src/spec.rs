//! Specification of a tier's SSDs, and statistics of the tier.

use alloc::vec::Vec;
use core::ops::Range;

use headlong_units::Duration;

use crate::names::{BlockId, PieceId};

/// Number of an SSD in the tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SsdId(pub u16);

/// Specification of SSDs to attach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlashSpec {
    /// Block size in bytes, chosen for the SSD's write performance. The same for all SSDs of a
    /// tier.
    pub block_bytes: u32,
    /// Bytes reserved for the summary at the end of a block. A multiple of
    /// [`crate::RECORD_ALIGN_BYTES`].
    pub summary_bytes: u32,
    /// Upper limit of records in a summary.
    pub records_max: u32,
    /// Upper limit of the bytes written elsewhere for each block: a checkpoint, and the page that
    /// voids the previous one.
    pub seal_bytes: u32,
    /// Bytes written within the last 24 hours, as far as known, which still count against the
    /// budget.
    pub written_bytes: u64,
    /// Whether recovery is in progress: nothing is written before [`crate::FlashStore::end_recovery`].
    pub is_recovering: bool,
    /// The SSDs.
    pub ssds: Vec<SsdSpec>,
}

/// One SSD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SsdSpec {
    /// Its number, used in [`FlashView`] and to detach it.
    pub ssd: SsdId,
    /// The range of its blocks that belong to this tier.
    pub blocks: Range<BlockId>,
    /// Whether it was never filled since it was formatted: its initial fill does not count against
    /// the daily budget. Unknown during recovery; see [`crate::FlashStore::end_recovery`].
    pub is_fresh: bool,
}

/// A sealed block that recovery found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredBlock {
    /// The block.
    pub block: BlockId,
    /// Sequence number of its seal.
    pub sequence: u64,
    /// Its records, from its summary.
    pub records: Vec<RecordEntry>,
}

/// A record as listed in a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordEntry {
    /// Offset of its header within the block.
    pub offset: u32,
    /// The piece it holds.
    pub piece: PieceId,
    /// Its length in bytes.
    pub length: u32,
}

/// SSDs cannot be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecError {
    /// A block cannot hold a summary and one piece, is not a multiple of the alignment, or is
    /// larger than 256 MiB.
    BlockSize,
    /// Blocks or numbers that are in use, or no blocks.
    Blocks,
    /// A different block size than that of the other SSDs.
    OtherBlockSize,
}

impl core::fmt::Display for SpecError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::BlockSize => {
                "the block size does not fit: it must be a multiple of 4KiB, at most 256MiB, and hold a summary and one piece; format the SSD with another"
            }
            Self::Blocks => "the SSD has no blocks, or its blocks or its name are in use",
            Self::OtherBlockSize => {
                "the SSDs of one tier must have one block size; format the SSD with that of the others"
            }
        })
    }
}

impl core::error::Error for SpecError {}

headlong_units::names! {
    /// Which records are admitted, and which block is evicted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum FlashPolicy {
        /// Admits everything that leaves memory; evicts the least recently read block (FlashStream
        /// 3.2.3).
        Lru => "lru",
        /// The same, but evicts the block with the lowest mean number of reads per record.
        LfuMean => "lfu-mean",
        /// The same, but by the median.
        LfuMedian => "lfu-median",
        /// Admits what saves most reads per byte written; evicts by age, but spares blocks still
        /// being read.
        Adaptive => "adaptive",
    }
}

/// Settings of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreConfig {
    /// Admission and eviction policy.
    pub policy: FlashPolicy,
    /// Upper limit of bytes written per day; `None`: three tenths of the capacity, the rating of
    /// cheap SSDs (0.3 drive writes per day for five years).
    pub write_per_day_bytes: Option<u64>,
    /// Half-life of a read in the access frequency.
    pub horizon: Duration,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            policy: FlashPolicy::Adaptive,
            write_per_day_bytes: None,
            horizon: Duration::from_secs(12 * 3600),
        }
    }
}

/// Bytes of records offered but not admitted, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RefusedBytes {
    /// Too little saving per byte written.
    pub not_worth_bytes: u64,
    /// The daily budget is used up.
    pub budget_bytes: u64,
    /// Staging memory is full, because writes wait for reads or for the SSD.
    pub busy_bytes: u64,
    /// No SSD is in service.
    pub out_of_service_bytes: u64,
    /// Recovery is in progress.
    pub recovering_bytes: u64,
    /// The record is larger than a block.
    pub too_large_bytes: u64,
}

impl RefusedBytes {
    /// Each reason with its label and bytes.
    pub fn by_reason(&self) -> [(&'static str, u64); 6] {
        [
            ("not-worth", self.not_worth_bytes),
            ("budget", self.budget_bytes),
            ("busy", self.busy_bytes),
            ("out-of-service", self.out_of_service_bytes),
            ("recovering", self.recovering_bytes),
            ("too-large", self.too_large_bytes),
        ]
    }
}

/// Statistics of a tier.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlashView {
    /// Whether recovery is in progress.
    pub is_recovering: bool,
    /// Bytes of all blocks.
    pub capacity_bytes: u64,
    /// Bytes of readable records.
    pub filled_bytes: u64,
    /// Number of readable records.
    pub records: u64,
    /// Records read successfully since the tier was attached.
    pub reads: u64,
    /// Bytes of those records.
    pub read_bytes: u64,
    /// Records that were damaged or not the expected ones.
    pub reads_wrong: u64,
    /// Records that the SSD failed to return, or returned too late.
    pub reads_failed: u64,
    /// Bytes of admitted records.
    pub admitted_bytes: u64,
    /// Bytes written: records, padding and summaries.
    pub written_bytes: u64,
    /// Number of evicted blocks.
    pub blocks_dropped: u64,
    /// Daily write budget in bytes.
    pub budget_bytes: u64,
    /// Bytes of the budget left now.
    pub budget_left_bytes: u64,
    /// Bytes offered but not admitted.
    pub refused: RefusedBytes,
    /// Each SSD.
    pub ssds: Vec<SsdView>,
}

headlong_units::names! {
    /// Whether an SSD is read and written.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub enum SsdState {
        /// Both.
        #[default]
        Online => "online",
        /// Read only; writes fail or do not complete.
        ReadOnly => "read-only",
        /// Neither, because it is too slow.
        Slow => "slow",
        /// Neither: it returns errors, is missing, or holds something else.
        Offline => "offline",
    }
}

/// Result of a probe: a read of existing content and a small write that is read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeResult {
    /// It is the same SSD, and readable.
    pub reads: bool,
    /// The write was read back correctly.
    pub writes: bool,
    /// Latency measured at the SSD, if available; otherwise the total time counts.
    pub took: Option<Duration>,
}

/// One SSD of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SsdView {
    /// The SSD.
    pub ssd: SsdId,
    /// Its state; an SSD that is not online is probed periodically.
    pub state: SsdState,
    /// Recent latency of a read.
    pub read_time: Duration,
}
