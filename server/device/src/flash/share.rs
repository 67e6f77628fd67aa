//! What a device has of the tier's SSDs.
//!
//! Each SSD serves every disk: its blocks are cut into as many equal ranges as there are disks.

use alloc::vec::Vec;
use core::ops::Range;

use headlong_flash::format::Super;
use headlong_flash::{BlockId, FlashSpec, RECORD_ALIGN_BYTES, SsdId, SsdSpec};

/// A device's part of one SSD.
#[derive(Debug, Clone)]
pub struct SsdShare {
    /// What is on the SSD.
    pub tier: Super,
    /// Number of the SSD's first block in the row of all blocks of all SSDs.
    pub first: u32,
    /// The device's blocks, as the SSD counts.
    pub own: Range<u32>,
}

/// A device's part of all SSDs.
#[derive(Debug, Clone)]
pub struct TierShare {
    ssds: Vec<SsdShare>,
    /// The disk's lasting name.
    owner: u64,
}

impl SsdShare {
    /// The part of one of `count` disks, of so many blocks.
    pub fn cut(blocks: u32, index: u32, count: u32) -> Range<u32> {
        let cut =
            |index: u32| (u64::from(blocks) * u64::from(index) / u64::from(count.max(1))) as u32;
        cut(index)..cut(index + 1)
    }
}

impl TierShare {
    /// The parts of all SSDs, by their numbers, of the disk with this lasting name.
    pub fn new(ssds: Vec<SsdShare>, owner: u64) -> Self {
        Self { ssds, owner }
    }

    /// The disk's lasting name.
    pub fn owner(&self) -> u64 {
        self.owner
    }

    /// The parts of all SSDs, by their numbers.
    pub fn ssds(&self) -> &[SsdShare] {
        &self.ssds
    }

    /// Where a block is: the SSD and its own number for it.
    pub fn locate(&self, block: BlockId) -> Option<(SsdId, u32)> {
        let mut shares = (0..).zip(&self.ssds);
        shares.find_map(|(ssd, share)| {
            let local = block.0.checked_sub(share.first)?;
            share.own.contains(&local).then_some((SsdId(ssd), local))
        })
    }

    /// The part of one SSD.
    pub(crate) fn get(&self, ssd: SsdId) -> Option<&SsdShare> {
        self.ssds.get(usize::from(ssd.0))
    }

    /// What the shard is told before anything is known of what is there; `None` if there is no SSD.
    pub fn spec(&self) -> Option<FlashSpec> {
        let layout = self.ssds.first()?.tier.layout;
        // A checkpoint, and the page that makes the one before void.
        let seal_bytes = layout.checkpoint_bytes() + u64::from(RECORD_ALIGN_BYTES);
        let ssd = |(number, share): (u16, &SsdShare)| SsdSpec {
            ssd: SsdId(number),
            blocks: BlockId(share.first + share.own.start)..BlockId(share.first + share.own.end),
            // It is not known before all of it was looked at.
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
