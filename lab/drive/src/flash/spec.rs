//! Specification of an SSD.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// Read performance of the flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashReadSpec {
    /// Pages that can be read concurrently: dies over all channels.
    pub lanes: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Read time of a page, microseconds.
    pub page_us: u32,
    /// Total rate of all lanes, bytes per second.
    pub bytes_per_s: u64,
    /// Additional delay of a read while the flash is being written, microseconds.
    pub behind_write_us: u32,
}

/// A faster part of the flash that takes writes first: single-bit cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteTier {
    /// Capacity in bytes.
    pub bytes: u64,
    /// Write rate, bytes per second.
    pub bytes_per_s: u64,
}

/// Write performance of the flash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashWriteSpec {
    /// Rate without any tier, bytes per second.
    pub bytes_per_s: u64,
    /// Faster tiers, used in order.
    pub tiers: Vec<WriteTier>,
    /// Rate at which idle tiers are emptied, bytes per second.
    pub tiers_emptied_bytes_per_s: u64,
    /// Size of the write buffer: writes complete once they are in it, bytes.
    pub buffer_bytes: u64,
    /// Rate of moving valid data, read and write together, bytes per second.
    pub copy_bytes_per_s: u64,
    /// Erasing a superblock or a block, microseconds.
    pub erase_us: u32,
}

/// Mapping of addresses to flash.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Mapping {
    /// Page mapping: small units at any place; when space runs out, superblocks are emptied, the
    /// one with the least valid data first.
    Pages {
        /// Bytes of a unit. A large drive is modelled with larger ones, see [`super::SolidState`].
        unit_bytes: u64,
        /// Bytes of an erase unit: one block on every lane.
        superblock_bytes: u64,
        /// Flash beyond the capacity, as a fraction of the capacity.
        over_provisioning: f64,
        /// Whether garbage collection is spread evenly over the writes, or stops them while it
        /// runs.
        is_spread: bool,
    },
    /// Block mapping: data keeps its order within large blocks. A few are open for writing; when
    /// one more is needed, all are closed, with the bytes not rewritten copied from the old blocks.
    Blocks {
        /// Bytes of a block.
        block_bytes: u64,
        /// Most open blocks.
        open_blocks: u32,
    },
}

/// Flash with a controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SolidStateSpec {
    /// Name of the drive.
    pub name: String,
    /// Sources of the figures, with the synthetic ones named.
    pub sources: String,
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Most requests in the drive.
    pub queue_depth: u32,
    /// Command processing, microseconds.
    pub command_overhead_us: u32,
    /// Rate of the interface, bytes per second.
    pub interface_bytes_per_s: u64,
    /// Read performance.
    pub read: FlashReadSpec,
    /// Write performance.
    pub write: FlashWriteSpec,
    /// Mapping of addresses.
    pub mapping: Mapping,
}

impl SolidStateSpec {
    /// The same drive with another capacity: tiers are scaled with it, so that the same fraction of
    /// the drive is written before it slows down. Blocks keep their size; superblocks, too, but a
    /// drive is always divided into at least a thousand of them (see [`super::SolidState`]).
    pub fn scaled_to(&self, capacity_bytes: u64) -> Self {
        let scaled = |bytes: u64| {
            let whole = u128::from(self.capacity_bytes.max(1));
            let scaled = u128::from(bytes) * u128::from(capacity_bytes) / whole;
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        let mut spec = self.clone();
        spec.capacity_bytes = capacity_bytes;
        for tier in &mut spec.write.tiers {
            tier.bytes = scaled(tier.bytes);
        }
        spec
    }
}
