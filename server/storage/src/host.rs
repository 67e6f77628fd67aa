//! The server's host of a device core: memory pool, threads that open files, reply channels, log.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use headlong_device::flash::SsdJob;
use headlong_device::{
    FileRead, Host, LookupJob, LookupProgress, Notice, OpenJob, OpenProgress, ReadyPiece, SlotBusy,
};
use headlong_engine::{DeviceState, Failure, RequestId, Slot, StreamId};
use headlong_flash::format::RecordName;
use headlong_flash::{SsdId, SsdState};
use headlong_kernel::raw::{Lease, PieceIdentity, Pool};

use super::StreamSource;
use super::completion::Completion;
use super::device_flags::DeviceFlags;
use super::disk_read::DiskRead;
use super::mailbox::Mailbox;
use super::opener::Opener;
use super::reply::{CompletionReceiver, Piece, PieceInfo};
use super::resources::{DiskResources, ReplyChannel};
use crate::flash::{RecordBuffer, SsdQueue};

/// The host of one device core.
pub(crate) struct DiskHost {
    /// Name of the device, for logs.
    pub(crate) device: String,
    pub(crate) piece_bytes: u64,
    pub(crate) pool: Arc<Pool>,
    pub(crate) opener: Arc<Opener>,
    pub(crate) completions: Arc<Mailbox<Completion>>,
    /// Reads that the device thread has to start.
    pub(crate) submits: Vec<DiskRead>,
    /// Receives the completion of pieces and replies.
    pub(crate) receiver: Arc<dyn CompletionReceiver>,
    /// Pieces for the reply that is being created.
    pub(crate) ready: VecDeque<Result<Piece, Failure>>,
    /// Shared copy of the health, for callers that must not query the disk while it is out of
    /// service.
    pub(crate) flags: Arc<DeviceFlags>,
    /// Queue to the device's share of the flash tier.
    pub(crate) flash: Option<SsdQueue>,
    /// Whether memory was returned to the system since the last check.
    pub(crate) has_vacated: bool,
}

impl DiskHost {
    fn send_piece(&mut self, client: &ReplyChannel, next: Result<Piece, Failure>) {
        match &client.pieces {
            // If the reply was dropped, the piece is dropped here and counts as sent.
            Some(pieces) => drop(pieces.send(next)),
            None => self.ready.push_back(next),
        }
    }

    fn announce_device(&self, before: DeviceState, state: DeviceState, errors: u64) {
        let (device, before) = (&self.device, before.name());
        match state {
            DeviceState::Online => tracing::info!(device, before, "device is online again"),
            DeviceState::Failing => tracing::warn!(device, before, errors, "device is failing"),
            DeviceState::Offline => tracing::error!(
                device,
                before,
                errors,
                "device is offline: requests that need it are refused until it responds"
            ),
        }
        self.flags.set_offline(state == DeviceState::Offline);
    }

    fn announce_ssd(&self, ssd: SsdId, before: SsdState, state: SsdState) {
        let paths = self.flash.as_ref().map(SsdQueue::paths);
        let path = paths.and_then(|paths| paths.into_iter().nth(usize::from(ssd.0)));
        let ssd = path.unwrap_or_default();
        let (device, ssd, before) = (&self.device, ssd.display(), before.name());
        match state {
            SsdState::Online => tracing::info!(device, %ssd, before, "ssd is online again"),
            SsdState::ReadOnly => tracing::warn!(
                device, %ssd, before, "writes to the ssd fail or hang: it is used read-only"
            ),
            SsdState::Slow => tracing::warn!(
                device, %ssd, before, "ssd is too slow: it is bypassed"
            ),
            SsdState::Offline => tracing::error!(
                device, %ssd, before, "ssd fails: it is bypassed; check the kernel log (dmesg)"
            ),
        }
    }
}

impl Host<DiskResources> for DiskHost {
    fn lease(
        &mut self,
        stream: Option<StreamId>,
        slots: &[Slot],
        length: u64,
    ) -> Option<Arc<Lease>> {
        let lease = self.pool.lease(slots);
        let lease = lease.filter(|lease| lease.capacity() >= length)?;
        if let Some(stream) = stream {
            self.pool.note_stream(slots, stream);
        }
        Some(Arc::new(lease))
    }

    fn vacate(&mut self, slot: Slot) {
        self.has_vacated |= self.pool.vacate(slot);
    }

    fn open(&mut self, job: OpenJob<Arc<dyn StreamSource>>) -> OpenProgress<Arc<File>> {
        self.opener.open(job, &self.completions);
        OpenProgress::Pending
    }

    fn look_up(&mut self, job: LookupJob<Arc<dyn StreamSource>, Arc<File>>) -> LookupProgress {
        self.opener.look_up(job, &self.completions);
        LookupProgress::Pending
    }

    fn close(&mut self, files: Vec<Arc<File>>) {
        self.opener.close(files);
    }

    fn read(&mut self, read: FileRead<DiskResources>) {
        self.submits.push(DiskRead::new(read, &self.completions));
    }

    fn forget(&mut self, stream: StreamId) {
        self.pool.set_missing(stream);
    }

    fn lasting_name(&self, _: StreamId, source: &Arc<dyn StreamSource>) -> Option<u64> {
        source.lasting_name()
    }

    fn deliver(&mut self, client: &mut ReplyChannel, piece: &ReadyPiece) -> Result<(), SlotBusy> {
        let ReadyPiece {
            request,
            stream,
            slot,
            start,
            end,
            ..
        } = *piece;
        let view = self.pool.view(slot, start, end).ok_or(SlotBusy)?;
        self.pool.note_stream(&[slot], stream);
        let view = view.of(PieceIdentity {
            stream,
            part: piece.part,
            number: (piece.offset / self.piece_bytes) as u32,
        });
        let info = PieceInfo {
            from_ram: piece.from_ram,
            from_flash: piece.from_flash,
            queue_time: piece.queue_time,
            disk_time: piece.disk_time,
        };
        let device = Arc::clone(&self.receiver);
        let piece = Piece::new(view, info, request, slot, device);
        self.send_piece(client, Ok(piece));
        Ok(())
    }

    fn fail(&mut self, client: &mut ReplyChannel, _: RequestId, failure: Failure) {
        self.send_piece(client, Err(failure));
    }

    fn stage(&mut self, name: &RecordName, slot: Slot) -> Option<RecordBuffer> {
        let view = self.pool.view(slot, 0, name.length)?;
        RecordBuffer::of(name, view.as_ref())
    }

    fn submit(&mut self, ssd: SsdId, job: SsdJob<DiskResources>) {
        if let Some(flash) = &self.flash {
            flash.submit(ssd, job);
        }
    }

    fn wall_seconds(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(0, |now| now.as_secs())
    }

    fn announce(&mut self, notice: Notice<'_>) {
        let device = &self.device;
        match notice {
            Notice::Device {
                before,
                state,
                errors,
            } => self.announce_device(before, state, errors),
            Notice::Ssd { ssd, before, state } => self.announce_ssd(ssd, before, state),
            Notice::Size(change) => {
                tracing::info!(device, reason = change.reason.name(), "{change}");
            }
            Notice::FlashRefused(error) => {
                tracing::error!(device, %error, "flash tier refused");
            }
            Notice::FlashReady(records) => tracing::info!(device, records, "flash tier ready"),
            Notice::ImpossibleRead(id, stream) => tracing::error!(
                device,
                ?id,
                ?stream,
                "read failed: it refers to memory in use or to an unknown stream"
            ),
            Notice::PieceBusy(request, slot) => {
                tracing::error!(
                    device,
                    ?request,
                    ?slot,
                    "reply failed: a read into its piece is still in flight"
                );
            }
            Notice::RecordMissing(slot) => {
                tracing::error!(
                    device,
                    ?slot,
                    "record not staged for flash: its piece is not in memory"
                );
            }
            Notice::ImpossibleFlashRead => {
                tracing::error!(device, "flash read failed: it refers to memory in use");
            }
            Notice::DeviceBuffered => tracing::warn!(
                device,
                "O_DIRECT refused (EINVAL): device is read through the page cache"
            ),
            Notice::FileBuffered => tracing::warn!(
                device,
                "O_DIRECT refused (EINVAL) for a file: such files are read through the page cache"
            ),
            Notice::TooManyFiles(closed) => tracing::warn!(
                device,
                closed,
                "too many open files: raise LimitNOFILE (ulimit -n) or lower the device's open files"
            ),
        }
    }
}
