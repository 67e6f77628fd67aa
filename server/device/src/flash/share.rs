//! A device's share of the tier's SSDs. The blocks of each SSD are divided into equal ranges, one
//! per disk.

use alloc::vec::Vec;
use core::ops::Range;

use headlong_flash::format::SuperRecord;
use headlong_flash::{BlockId, FlashSpec, RECORD_ALIGN_BYTES, SsdId, SsdSpec};

/// A device's share of one SSD.
#[derive(Debug, Clone)]
pub struct SsdShare {
    /// Super record of the SSD.
    pub tier: SuperRecord,
    /// Number of the SSD's first block in the numbering across the tier.
    pub first: u32,
    /// The device's blocks, numbered within the SSD.
    pub own: Range<u32>,
}

/// A device's share of all SSDs.
#[derive(Debug, Clone)]
pub struct TierShare {
    ssds: Vec<SsdShare>,
    /// Persistent name of the disk.
    owner: u64,
}

impl SsdShare {
    /// The range of disk `index` among `count` disks on an SSD with `blocks` blocks.
    pub fn cut(blocks: u32, index: u32, count: u32) -> Range<u32> {
        let cut =
            |index: u32| (u64::from(blocks) * u64::from(index) / u64::from(count.max(1))) as u32;
        cut(index)..cut(index + 1)
    }
}

impl TierShare {
    /// Creates the shares, ordered by SSD number, of the disk named `owner`.
    pub fn new(ssds: Vec<SsdShare>, owner: u64) -> Self {
        Self { ssds, owner }
    }

    /// Persistent name of the disk.
    pub fn owner(&self) -> u64 {
        self.owner
    }

    /// The shares, ordered by SSD number.
    pub fn ssds(&self) -> &[SsdShare] {
        &self.ssds
    }

    /// Locates a block: its SSD and its number within that SSD.
    pub fn locate(&self, block: BlockId) -> Option<(SsdId, u32)> {
        let mut shares = (0..).zip(&self.ssds);
        shares.find_map(|(ssd, share)| {
            let local = block.0.checked_sub(share.first)?;
            share.own.contains(&local).then_some((SsdId(ssd), local))
        })
    }

    /// The share of one SSD.
    pub(crate) fn get(&self, ssd: SsdId) -> Option<&SsdShare> {
        self.ssds.get(usize::from(ssd.0))
    }

    /// The specification passed to the shard before recovery; `None` without an SSD.
    pub fn spec(&self) -> Option<FlashSpec> {
        let layout = self.ssds.first()?.tier.layout;
        // A checkpoint, and the page that voids the previous one.
        let seal_bytes = layout.checkpoint_bytes() + u64::from(RECORD_ALIGN_BYTES);
        let ssd = |(number, share): (u16, &SsdShare)| SsdSpec {
            ssd: SsdId(number),
            blocks: BlockId(share.first + share.own.start)..BlockId(share.first + share.own.end),
            // Unknown until recovery has ended.
            is_fresh: false,
        };
        Some(FlashSpec {
            block_bytes: layout.block_bytes(),
            summary_bytes: layout.summary_bytes(),
            records_max: layout.records_max(),
            seal_bytes: u32::try_from(seal_bytes).unwrap_or(u32::MAX),
            written_bytes: 0,
            is_recovering: true,
            ssds: (0..).zip(&self.ssds).map(ssd).collect(),
        })
    }
}
