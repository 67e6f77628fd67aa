//! What stands between memory and the disk: the contract that every system keeps.

use std::fmt::Debug;

use headlong_units::Instant;

use super::library::Segment;
use super::memory::Memory;
use super::station::Part;

/// Where the bytes of a segment come from that memory does not have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Found {
    /// On the SSD.
    pub(super) on_ssd: Vec<Part>,
    /// From so many bytes on, the disk is asked for the rest; nothing if all is on the SSD.
    pub(super) disk_from: Option<u32>,
}

impl Found {
    /// Everything from the disk.
    pub(super) fn nothing() -> Self {
        Self {
            on_ssd: Vec::new(),
            disk_from: Some(0),
        }
    }
}

/// A second tier.
pub(super) trait Tier: Debug {
    /// A segment is asked for that memory does not have.
    fn find(&mut self, segment: &Segment) -> Found;

    /// A segment came from the disk: what must be written before it is passed on.
    fn handle_read(&mut self, _: &Segment) -> Vec<Part> {
        Vec::new()
    }

    /// What is read from the SSD is put into memory too.
    fn fills_memory(&self) -> bool {
        true
    }

    /// Once in a second, and more often beside a smaller memory. `busy`: share of the last second
    /// during which the SSD had something to do.
    fn tick(&mut self, _now: Instant, _memory: &Memory, _busy: f64) {}

    /// What is to be written next; asked whenever no write is under way.
    fn poll_write(&mut self) -> Option<Vec<Part>> {
        None
    }

    /// That was written.
    fn handle_written(&mut self) {}

    /// Share of its room that was ever filled.
    fn filled(&self) -> f64 {
        1.0
    }
}

/// No second tier.
#[derive(Debug)]
pub(super) struct NoTier;

impl Tier for NoTier {
    fn find(&mut self, _: &Segment) -> Found {
        Found::nothing()
    }
}
