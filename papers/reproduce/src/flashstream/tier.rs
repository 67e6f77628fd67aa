//! Interface of a second tier between memory and disk, implemented by every system.

use std::fmt::Debug;

use headlong_units::Instant;

use super::block_layer::DriveRange;
use super::library::Segment;
use super::memory::SegmentMemory;

/// Sources of the bytes of a segment that is not in memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TierLookup {
    /// On the SSD.
    pub(super) on_ssd: Vec<DriveRange>,
    /// The disk is read from this offset on; `None` if everything is on the SSD.
    pub(super) disk_from: Option<u32>,
}

impl TierLookup {
    /// Everything is on the disk.
    pub(super) fn nothing() -> Self {
        Self {
            on_ssd: Vec::new(),
            disk_from: Some(0),
        }
    }
}

/// A second tier.
pub(super) trait Tier: Debug {
    /// Looks up a segment that is not in memory.
    fn find(&mut self, segment: &Segment) -> TierLookup;

    /// Handles a segment read from the disk; returns the parts to write before delivery.
    fn handle_read(&mut self, _: &Segment) -> Vec<DriveRange> {
        Vec::new()
    }

    /// Whether data read from the SSD is also put into memory.
    fn fills_memory(&self) -> bool {
        true
    }

    /// Periodic work: once a second, more often with a scaled memory. `busy` is the busy share of
    /// the SSD in the last second.
    fn tick(&mut self, _now: Instant, _memory: &SegmentMemory, _busy: f64) {}

    /// The next write; polled whenever no write is in progress.
    fn poll_write(&mut self) -> Option<Vec<DriveRange>> {
        None
    }

    /// The write has completed.
    fn handle_written(&mut self) {}

    /// Share of its capacity that was ever filled.
    fn filled(&self) -> f64 {
        1.0
    }
}

/// No second tier.
#[derive(Debug)]
pub(super) struct NoTier;

impl Tier for NoTier {
    fn find(&mut self, _: &Segment) -> TierLookup {
        TierLookup::nothing()
    }
}
