//! Accounting of one request: collects its log record and metrics, and reports them when it ends.

use std::sync::Arc;
use std::time::Instant as Clock;

use headlong_kernel::time_scale::TimeScale;
use headlong_net::{AddressShare, ConnectionInfo};
use headlong_storage::{Piece, PieceInfo};
use headlong_telemetry::{RequestRecord, Stage};
use headlong_units::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

use super::gzip::GzipSlot;
use super::stages::StageTiming;
use super::state::MediaState;

/// The accounting state of a request, reported on drop.
pub(super) struct Account {
    pub(super) state: Arc<MediaState>,
    pub(super) record: RequestRecord,
    /// Present if slow replies are logged.
    pub(super) trace: Option<Box<StageTiming>>,
    pub(super) connection: Option<Arc<ConnectionInfo>>,
    /// Counts the request against its address's limit.
    pub(super) held: Option<AddressShare>,
    /// Slot of a gzip reply.
    pub(super) gzip_turn: Option<GzipSlot>,
    /// Memory of a large listing.
    pub(super) listing_units: Option<OwnedSemaphorePermit>,
    /// Whether the reply is made from MP4 files.
    pub(super) is_packaged: bool,
    /// Bytes handed to the connection and not sent yet.
    pub(super) unsent_bytes: u64,
    pub(super) started: Clock,
    pub(super) time_scale: TimeScale,
}

impl Account {
    pub(super) fn elapsed(&self) -> Duration {
        self.time_scale.model(self.started.elapsed())
    }

    /// Enters the next stage.
    pub(super) fn turn(&mut self, next: Stage) {
        if let Some(trace) = &mut self.trace {
            trace.turn(self.connection.as_deref(), next);
        }
    }

    /// A piece arrived; enters the next stage.
    pub(super) fn got(&mut self, piece: &Piece, next: Stage) {
        if let Some(trace) = &mut self.trace {
            trace.got(self.connection.as_deref(), piece.info(), next);
        }
    }

    /// Failure reason of a reply that was cut off without an error of the server.
    pub(super) fn why_cut_off(&self) -> &'static str {
        let connection = self.connection.as_ref();
        let is_drained = connection.is_some_and(|connection| connection.is_drain_aborted());
        if is_drained { "drained" } else { "client-gone" }
    }

    /// Time on the clock that paced replies share.
    pub(super) fn now(&self) -> Instant {
        self.state.now(self.time_scale)
    }

    pub(super) fn note_piece(&mut self, piece: &Piece) {
        let (info, bytes) = (piece.info(), piece.as_ref().len() as u64);
        self.record.queue_time += info.queue_time;
        self.record.disk_time += info.disk_time;
        if info.from_ram {
            self.record.bytes_from_ram += bytes;
        } else if info.from_flash {
            self.record.bytes_from_flash += bytes;
        } else {
            self.record.bytes_from_disk += bytes;
        }
    }

    /// Takes back the count of bytes of a piece that were not sent.
    pub(super) fn forget_piece(&mut self, info: PieceInfo, bytes: u64) {
        let record = &mut self.record;
        let counted = match info {
            PieceInfo { from_ram: true, .. } => &mut record.bytes_from_ram,
            PieceInfo {
                from_flash: true, ..
            } => &mut record.bytes_from_flash,
            _ => &mut record.bytes_from_disk,
        };
        *counted = counted.saturating_sub(bytes);
    }

    pub(super) fn note_left(&mut self, bytes: u64) {
        self.unsent_bytes = self.unsent_bytes.saturating_sub(bytes);
        self.record.bytes_sent += bytes;
        self.state.metrics.add_bytes_sent(bytes, self.is_packaged);
        if self.record.first_byte_time.is_none() {
            self.record.first_byte_time = Some(self.elapsed());
        }
    }
}

/// nginx's status for a client that closed its connection before the reply began.
const STATUS_LEFT: u16 = 499;

impl Drop for Account {
    fn drop(&mut self) {
        let now = Clock::now();
        let elapsed = self.time_scale.model(now.duration_since(self.started));
        if self.record.status == 0 {
            self.record.status = STATUS_LEFT;
            self.record.failure = Some(self.why_cut_off());
        }
        let record = &mut self.record;
        record.service_time = elapsed;
        if let Some(trace) = self.trace.take() {
            record.stages = trace.end(now, self.connection.as_deref());
        }
        let state = &self.state;
        let is_slow = record.stages.is_some();
        let first_byte = record.first_byte_time;
        state.metrics.observe(record.status, elapsed, first_byte);
        // An exemplar without a log line would be useless.
        if state.log.has_access() || is_slow {
            let end = record.start_unix_ms.saturating_add(elapsed.as_millis());
            state.metrics.name(&record.id, (elapsed, first_byte), end);
        }
        if state.log.is_on() || is_slow {
            state.log.record(record.clone());
        }
    }
}
