//! What a tier is told of its SSDs, and what it tells of itself.

use alloc::vec::Vec;
use core::ops::Range;

use headlong_units::Duration;

use crate::names::{BlockId, PieceId};

/// One SSD of a tier, by the number that the shell gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SsdId(pub u16);

/// SSDs that take part in a tier from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlashSpec {
    /// Bytes of a block: as the SSD writes well. The same for all SSDs of one tier.
    pub block_bytes: u32,
    /// Bytes at the end of a block that hold its summary: records end before it. A multiple of
    /// [`crate::RECORD_ALIGN_BYTES`].
    pub summary_bytes: u32,
    /// Most records that a summary has room for.
    pub records_max: u32,
    /// Most bytes that are written elsewhere when a block is filled: a checkpoint, and what makes the
    /// one before void.
    pub seal_bytes: u32,
    /// Bytes written within the last day, as far as is known: a restart does not give them back.
    pub written_bytes: u64,
    /// Whether blocks will still be found on them: then nothing is written before
    /// [`crate::Room::end_recovery`].
    pub is_recovering: bool,
    /// The SSDs.
    pub ssds: Vec<SsdSpec>,
}

/// One SSD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SsdSpec {
    /// Its name in [`FlashView`] and for taking it out again.
    pub ssd: SsdId,
    /// Its blocks that are this tier's: `start..end`.
    pub blocks: Range<BlockId>,
    /// Whether it was formatted and never filled since: its first filling comes on top of the budget
    /// of bytes a day. Of one that is still to be looked at that is not known yet:
    /// [`crate::Room::end_recovery`] is told.
    pub is_fresh: bool,
}

/// A sealed block that was found on an SSD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredBlock {
    /// The block.
    pub block: BlockId,
    /// With which it was sealed.
    pub sequence: u64,
    /// What it holds, by its summary.
    pub records: Vec<RecordEntry>,
}

/// One record, as a summary lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordEntry {
    /// Byte within the block at which its header begins.
    pub offset: u32,
    /// Whose bytes it holds.
    pub piece: PieceId,
    /// How many.
    pub length: u32,
}

/// Why SSDs cannot take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecError {
    /// A block does not hold its summary and one piece, or is not a multiple of the alignment, or
    /// is larger than 256 MiB.
    BlockSize,
    /// Blocks or names that are there already, or no blocks.
    Blocks,
    /// Another block size than that of the SSDs that are there.
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
    /// Which records are written, and which block goes for others.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum FlashPolicy {
        /// All that leaves memory is written; the block goes that was read least recently (FlashStream
        /// 3.2.3).
        Lru => "lru",
        /// The same, but the block with the lowest mean number of reads of its records goes.
        LfuMean => "lfu-mean",
        /// The same, but the one with the lowest median goes.
        LfuMedian => "lfu-median",
        /// What is read most for each byte written is; blocks go by age, those still read are spared.
        Adaptive => "adaptive",
    }
}

/// What an operator may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomConfig {
    /// What is kept.
    pub policy: FlashPolicy,
    /// Most bytes that are written in any day; `None`: three tenths of what the tier holds, which
    /// is what cheap SSDs are sold for (0.3 drive writes a day for five years).
    pub write_per_day_bytes: Option<u64>,
    /// After this time a read counts for half in what is taken to be popular.
    pub horizon: Duration,
}

impl Default for RoomConfig {
    fn default() -> Self {
        Self {
            policy: FlashPolicy::Adaptive,
            write_per_day_bytes: None,
            horizon: Duration::from_secs(12 * 3600),
        }
    }
}

/// Records that were offered and not taken, in bytes, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refused {
    /// Too little would be saved for each byte written.
    pub not_worth_bytes: u64,
    /// The budget of bytes a day is used up.
    pub budget_bytes: u64,
    /// Memory that collects blocks is full, for writes wait for reads or for the SSD.
    pub busy_bytes: u64,
    /// No SSD is in service.
    pub out_of_service_bytes: u64,
    /// What is on the SSDs is not all known yet, and nothing is written before.
    pub recovering_bytes: u64,
    /// The record is larger than a block.
    pub too_large_bytes: u64,
}

impl Refused {
    /// Each reason by its label, with its bytes.
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

/// What a tier tells of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlashView {
    /// Whether not all is known yet of what is on its SSDs.
    pub is_recovering: bool,
    /// Bytes of all blocks.
    pub capacity_bytes: u64,
    /// Bytes of records in them that can be read.
    pub filled_bytes: u64,
    /// Those records.
    pub records: u64,
    /// Records read and right, since the tier was attached.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Records that were something else, or damaged.
    pub reads_wrong: u64,
    /// Records that the SSD failed to give, or gave too late.
    pub reads_failed: u64,
    /// Bytes of records taken.
    pub admitted_bytes: u64,
    /// Bytes written: records, what is between them, and summaries.
    pub written_bytes: u64,
    /// Blocks that went for others.
    pub blocks_dropped: u64,
    /// Most bytes written in any day.
    pub budget_bytes: u64,
    /// Of those, bytes that may still be written now.
    pub budget_left_bytes: u64,
    /// Bytes offered and not taken.
    pub refused: Refused,
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
        /// Read; writes fail, or do not end.
        ReadOnly => "read-only",
        /// Neither: it answers too late.
        Slow => "slow",
        /// Neither: it gives errors, is gone, or holds something else.
        Offline => "offline",
    }
}

impl SsdState {
    /// Whether it is read.
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Online | Self::ReadOnly)
    }
}

/// What came of a probe of an SSD: a read of some of its content and a small write that was read
/// back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probed {
    /// It is the SSD that it was, and can be read.
    pub reads: bool,
    /// What was written was there.
    pub writes: bool,
    /// How long the SSD took, if that was seen where it was asked; else all of the time counts.
    pub took: Option<Duration>,
}

/// One SSD of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SsdView {
    /// Which.
    pub ssd: SsdId,
    /// Whether it is read and written; if not it is tried again now and then.
    pub state: SsdState,
    /// How long a read of it takes, lately.
    pub read_time: Duration,
}
