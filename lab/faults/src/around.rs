//! What a device's shell works with while it is called.

use headlong_engine::{FlashOutcome, FlashReadId};
use headlong_flash::{BlockId, Probed, SsdId};
use headlong_units::Instant;

use crate::disk::Disk;
use crate::oracle::Oracle;
use crate::plant::Plant;
use crate::ssd::Ssd;
use crate::trace::Trace;

/// Something asked of flash has ended.
#[derive(Debug)]
pub(crate) enum FlashTold {
    Written(BlockId, u32, bool),
    Sealed(BlockId, bool),
    Read(FlashReadId, Vec<FlashOutcome>),
    Probed(SsdId, Probed),
}

/// The world around one device.
pub(crate) struct Around<'a> {
    pub(crate) now: Instant,
    pub(crate) wall_ns: i64,
    pub(crate) number: usize,
    pub(crate) disk: &'a mut Disk,
    pub(crate) ssds: &'a mut [Ssd],
    pub(crate) oracle: &'a mut Oracle,
    pub(crate) trace: &'a mut Trace,
    pub(crate) plant: Option<Plant>,
    /// What failed at once, to be told when the engine has nothing more to say.
    pub(crate) told: Vec<FlashTold>,
}

impl Around<'_> {
    /// Seconds since 1970, by the wall clock.
    pub(crate) fn wall_s(&self) -> u64 {
        u64::try_from(self.wall_ns / 1_000_000_000).unwrap_or(0)
    }

    pub(crate) fn tell_written(&mut self, block: BlockId, to: u32, ok: bool) {
        self.told.push(FlashTold::Written(block, to, ok));
    }

    pub(crate) fn tell_sealed(&mut self, block: BlockId, ok: bool) {
        self.told.push(FlashTold::Sealed(block, ok));
    }

    /// A read that could not be tried.
    pub(crate) fn tell_read(&mut self, id: FlashReadId, records: usize) {
        let outcomes = vec![FlashOutcome::Error; records];
        self.told.push(FlashTold::Read(id, outcomes));
    }

    pub(crate) fn note(&mut self, what: &'static str, of: [u64; 3]) {
        self.trace.add(self.now, Some(self.number), what, of);
    }
}
