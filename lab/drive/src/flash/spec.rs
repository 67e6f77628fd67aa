//! What an SSD is, as people write it down.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// How flash is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashReadSpec {
    /// Pages that can be read at the same time: dies over all channels.
    pub lanes: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Time of one page, microseconds.
    pub page_us: u32,
    /// What all lanes together bring to the interface, bytes per second.
    pub bytes_per_s: u64,
    /// What a read waits longer while the flash is being written, microseconds.
    pub behind_write_us: u32,
}

/// A faster part of the flash that takes writes first: cells written with one bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteTier {
    /// How much it takes.
    pub bytes: u64,
    /// How fast, bytes per second.
    pub bytes_per_s: u64,
}

/// How flash is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashWriteSpec {
    /// Without any cache, bytes per second.
    pub bytes_per_s: u64,
    /// Faster parts, used up one after the other.
    pub tiers: Vec<WriteTier>,
    /// How fast the tiers are emptied while nobody writes, bytes per second.
    pub tiers_emptied_bytes_per_s: u64,
    /// Writes end when they are in this much memory, bytes.
    pub buffer_bytes: u64,
    /// Moving valid data out of the way, read and written, bytes per second.
    pub copy_bytes_per_s: u64,
    /// Erasing a superblock or a block, microseconds.
    pub erase_us: u32,
}

/// How addresses lead to flash.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Mapping {
    /// Small units lie anywhere; superblocks are emptied when room runs out, the one with the least
    /// valid data first.
    Pages {
        /// Bytes of a unit. A large drive is accounted in larger ones, see [`super::SolidState`].
        unit_bytes: u64,
        /// What is erased at once: a block on every lane, bytes.
        superblock_bytes: u64,
        /// Flash beyond the capacity, as a part of the capacity.
        over_provisioning: f64,
        /// Whether the emptying is spread evenly over the writes, or stops them while it lasts.
        is_spread: bool,
    },
    /// Large blocks keep their order inside. A few are open for writing; when one more is wanted, all
    /// are closed, what was not written anew copied from the old blocks.
    Blocks {
        /// Bytes of a block.
        block_bytes: u64,
        /// How many are open at most.
        open_blocks: u32,
    },
}

/// Flash behind a controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SolidStateSpec {
    /// What it is called.
    pub name: String,
    /// Where each figure is from, and which are made up.
    pub sources: String,
    /// Bytes of the drive.
    pub capacity_bytes: u64,
    /// Most requests in the drive.
    pub queue_depth: u32,
    /// Command processing, microseconds.
    pub command_overhead_us: u32,
    /// Speed of the cable, bytes per second.
    pub interface_bytes_per_s: u64,
    /// Reading.
    pub read: FlashReadSpec,
    /// Writing.
    pub write: FlashWriteSpec,
    /// Addresses.
    pub mapping: Mapping,
}

impl SolidStateSpec {
    /// The same drive with other bytes: its tiers stay the same part of it, so that the same part of
    /// the drive is written before it slows down. Blocks keep their size; superblocks too, but a
    /// drive is always divided into a thousand of them or more (see [`super::SolidState`]).
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
