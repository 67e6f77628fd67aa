//! What one disk of a server did, as far as disks are compared by it.

use headlong_engine::Stats;

use crate::device::DriveUse;
use crate::flash_use::FlashCounts;

/// What a disk counted: from the beginning, or within the window.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskUse {
    /// Its shard.
    pub stats: Stats,
    /// Its drive.
    pub drive: DriveUse,
    /// Its part of the flash tier.
    pub flash: FlashCounts,
}

impl DiskUse {
    /// What came on top of an earlier state.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            stats: self.stats - earlier.stats,
            drive: self.drive.since(&earlier.drive),
            flash: self.flash - earlier.flash,
        }
    }
}
