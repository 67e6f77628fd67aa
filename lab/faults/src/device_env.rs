//! The environment of one device during a call.

use headlong_units::Instant;

use crate::checker::Checker;
use crate::disk::SimulatedDisk;
use crate::ssd::SimulatedSsd;
use crate::trace::EventTrace;

/// The environment of one device.
pub(crate) struct DeviceEnv<'a> {
    pub(crate) now: Instant,
    pub(crate) wall_ns: i64,
    pub(crate) number: usize,
    pub(crate) disk: &'a mut SimulatedDisk,
    pub(crate) ssds: &'a mut [SimulatedSsd],
    pub(crate) oracle: &'a mut Checker,
    pub(crate) trace: &'a mut EventTrace,
}

impl DeviceEnv<'_> {
    /// Seconds since 1970, by the wall clock.
    pub(crate) fn wall_s(&self) -> u64 {
        u64::try_from(self.wall_ns / 1_000_000_000).unwrap_or(0)
    }

    pub(crate) fn note(&mut self, what: &'static str, of: [u64; 3]) {
        self.trace.add(self.now, Some(self.number), what, of);
    }
}
