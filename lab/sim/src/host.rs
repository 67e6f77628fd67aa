//! Host of a device core in virtual time: turns the core's actions into requests of modelled drives
//! and pieces for viewers' sockets.

use headlong_device::flash::{FlashResult, SsdJob};
use headlong_device::{
    FileRead, Host, LookupJob, LookupProgress, Notice, OpenJob, OpenProgress, ReadyPiece, SlotBusy,
};
use headlong_engine::{Failure, RequestId, Slot, StreamId};
use headlong_flash::format::RecordName;
use headlong_flash::{SpecError, SsdId};
use headlong_units::Instant;

use crate::disk::{FileExtents, OPENED, SimulatedDisk, SimulatedResources, extents_of_part};
use crate::origin::{OriginEvent, ReplyPiece};
use crate::request::{ActiveReply, ServerShared, of_all};
use crate::slab::Slab;

/// The parts that the simulation imitates, as reports print them.
pub const IMITATED: &str = "the server's request path (requests, pacing), file systems (inodes \
                            are in memory; the map of a file with more than four extents, as set \
                            by `simulation.extents`, costs a read; headers are not read), block layer, io_uring, drives, SSDs, network, sockets";

/// Host of one disk during a call of its core.
pub(crate) struct SimulatedHost<'m> {
    pub(crate) now: Instant,
    pub(crate) number: u32,
    pub(crate) disk: &'m mut SimulatedDisk,
    pub(crate) replies: &'m mut Slab<ActiveReply>,
    pub(crate) shared: &'m mut ServerShared,
    pub(crate) refused: &'m mut Option<SpecError>,
}

impl SimulatedHost<'_> {
    /// The next completion of an SSD for this disk.
    pub(crate) fn flash_ended(&mut self) -> Option<FlashResult> {
        self.shared.tier.as_mut()?.take_ended(self.number)
    }
}

impl Host<SimulatedResources> for SimulatedHost<'_> {
    fn lease(&mut self, _: Option<StreamId>, _: &[Slot], _: u64) -> Option<()> {
        Some(())
    }

    /// Simulated memory is never given back.
    fn vacate(&mut self, _: Slot) {}

    fn open(&mut self, _: OpenJob<FileExtents>) -> OpenProgress<()> {
        OpenProgress::Ended(Ok(OPENED))
    }

    fn look_up(&mut self, job: LookupJob<FileExtents, ()>) -> LookupProgress {
        let extents = extents_of_part(&job.source, job.id.part);
        match self.disk.look_up(self.now, job.id, extents) {
            true => LookupProgress::Ended(None),
            false => LookupProgress::Pending,
        }
    }

    fn close(&mut self, _: Vec<()>) {}

    fn read(&mut self, read: FileRead<SimulatedResources>) {
        let extents = extents_of_part(&read.source, read.job.file.part);
        self.disk.read(self.now, &read.job, extents);
    }

    fn forget(&mut self, _: StreamId) {}

    fn lasting_name(&self, stream: StreamId, _: &FileExtents) -> Option<u64> {
        Some(stream.0)
    }

    fn deliver(&mut self, (): &mut (), piece: &ReadyPiece) -> Result<(), SlotBusy> {
        let Some(reply) = self.replies.get_mut(piece.request.0) else {
            return Ok(());
        };
        let is_first = reply.bytes_left == reply.bytes;
        if is_first {
            self.shared.waits.add(self.now.since(reply.asked_at));
        }
        let bytes = u64::from(piece.end - piece.start);
        reply.bytes_left -= bytes;
        reply.sending.push(piece.slot);
        self.shared
            .outcomes
            .push_back(OriginEvent::Piece(ReplyPiece {
                asker: reply.asker,
                request: of_all(self.number, piece.request),
                slot: piece.slot,
                bytes,
                head: is_first.then_some(reply.bytes),
                is_last: reply.bytes_left == 0,
            }));
        Ok(())
    }

    fn fail(&mut self, (): &mut (), request: RequestId, failure: Failure) {
        debug_assert!(failure != Failure::Device, "no device here returns errors");
        if let Some(reply) = self.replies.get_mut(request.0) {
            let failed = OriginEvent::Failed(reply.asker);
            self.shared.outcomes.push_back(failed);
            // Pieces in the socket are still to be returned; no others follow.
            reply.bytes_left = 0;
            if reply.sending.is_empty() {
                self.replies.remove(request.0);
            }
        }
    }

    fn stage(&mut self, _: &RecordName, _: Slot) -> Option<()> {
        Some(())
    }

    fn submit(&mut self, ssd: SsdId, job: SsdJob<SimulatedResources>) {
        if let Some(tier) = &mut self.shared.tier {
            tier.submit(self.now, self.number, ssd, job);
        }
    }

    fn wall_seconds(&self) -> u64 {
        self.now.0 / 1_000_000_000
    }

    fn announce(&mut self, notice: Notice<'_>) {
        match notice {
            Notice::FlashRefused(error) => *self.refused = Some(error),
            notice => debug_assert!(
                !matches!(notice, Notice::ImpossibleRead(..) | Notice::PieceBusy(..)),
                "{notice:?}"
            ),
        }
    }
}
