//! Activity of one disk of a server, for comparisons between disks.

use headlong_engine::Stats;

use crate::device::DriveUse;
use crate::flash_use::FlashCounts;

/// Counters of a disk: since the start, or within the window.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskUse {
    /// Counters of its shard.
    pub stats: Stats,
    /// Activity of its drive.
    pub drive: DriveUse,
    /// Counters of its partition of the flash tier.
    pub flash: FlashCounts,
}

impl DiskUse {
    /// Difference to an earlier snapshot.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            stats: self.stats - earlier.stats,
            drive: self.drive.since(&earlier.drive),
            flash: self.flash - earlier.flash,
        }
    }
}
