//! A device's share of the flash tier: the shard's flash commands become SSD jobs, and their
//! completions go back to the shard.
//!
//! [`FlashPort`] assigns jobs to SSDs and generations to blocks. The jobs order writes and flushes
//! and verify the data read. [`Recovery`] finds the content of an SSD at start-up.

mod completion;
mod jobs;
mod medium;
mod port;
mod probe;
mod record_read;
mod recovery;
mod share;

use alloc::vec::Vec;

use headlong_flash::RecoveredBlock;
use headlong_units::Instant;

use crate::device_core::DeviceCore;
use crate::host::{Host, Notice};
use crate::resources::Resources;

pub use completion::{FlashResult, RecoveredFlashBlock};
pub use jobs::{BlockJob, RecordsJob, SealJob, SsdJob, WriteJob};
pub use medium::{EachRecord, FlashMedium, ProbedMedium};
pub use port::FlashPort;
pub use probe::{PROBE_FAILED, probe};
pub use record_read::RecordRead;
pub use recovery::{
    BareBlock, GroupSearchResult, Recovery, RecoveryResult, RecoverySearch, write_summary,
};
pub use share::{SsdShare, TierShare};

impl<R: Resources> DeviceCore<R> {
    /// Sets the port to the tier. The shard uses the tier after [`FlashResult::Attach`].
    pub fn set_flash(&mut self, port: FlashPort<R>) {
        self.flash = Some(port);
    }

    /// Whether a port to the tier is set.
    pub fn has_flash(&self) -> bool {
        self.flash.is_some()
    }

    /// The port to the tier, for inspection.
    pub fn flash(&self) -> Option<&FlashPort<R>> {
        self.flash.as_ref()
    }

    /// Detaches the tier.
    pub fn leave_flash(&mut self, now: Instant, host: &mut impl Host<R>) {
        let port = self.flash.take();
        for ssd in port.iter().flat_map(FlashPort::ssds) {
            self.shard.detach_flash(now, ssd);
        }
        self.drain_queues(now, host);
    }

    /// A flash operation has completed.
    pub fn handle_flash(&mut self, now: Instant, host: &mut impl Host<R>, end: FlashResult) {
        self.flash_end(now, host, end);
        self.drain_queues(now, host);
    }

    pub(crate) fn flash_end(&mut self, now: Instant, host: &mut impl Host<R>, end: FlashResult) {
        let shard = &mut self.shard;
        match end {
            // The tier was detached during recovery.
            FlashResult::Attach(..) | FlashResult::Found(_) | FlashResult::RecoveryEnded { .. }
                if self.flash.is_none() => {}
            FlashResult::Attach(spec, found) => {
                let blocks = self.register_found(found);
                if let Err(error) = self.shard.attach_flash(now, &spec, blocks) {
                    host.announce(Notice::FlashRefused(error));
                }
            }
            FlashResult::Found(found) => {
                let blocks = self.register_found(found);
                self.shard.handle_flash_recovered(now, blocks);
            }
            FlashResult::RecoveryEnded {
                written_bytes,
                fresh,
            } => {
                shard.handle_flash_recovery_ended(now, written_bytes, &fresh);
                let records = shard.flash_view().map_or(0, |view| view.records);
                host.announce(Notice::FlashReady(records));
            }
            FlashResult::Written { block, to, ok } => {
                shard.handle_flash_written(now, block, to, ok)
            }
            FlashResult::Sealed { block, ok } => shard.handle_flash_sealed(now, block, ok),
            FlashResult::Read { id, outcomes, took } => {
                shard.handle_flash_read_done(now, id, &outcomes, took);
            }
            FlashResult::Probed { ssd, probed } => shard.handle_flash_probed(now, ssd, probed),
        }
    }

    fn register_found(&mut self, found: Vec<RecoveredFlashBlock>) -> Vec<RecoveredBlock> {
        if let Some(flash) = &mut self.flash {
            flash.register_found(&found);
        }
        found.into_iter().map(|found| found.block).collect()
    }
}
