//! Interface of a server that answers requests: the engine's server, or a page-cache server.
//!
//! Both receive requests, hand pieces of replies to sockets and are notified when sockets have free
//! space; the world and its viewers do not know which server it is. Ids of replies and pieces,
//! counters and memory classes are the engine's for both.

use std::fmt::Debug;

use headlong_engine::{ControlView, MemoryUse, QueueUse, RequestId, Slot, Stats};
use headlong_player::{CallId, ObjectId};
use headlong_units::{BitRate, ByteRange, Duration, Instant};

use crate::device::{AccessPattern, DriveUse};
use crate::fleet::FleetUse;
use crate::histogram::Histogram;
use crate::layout::FileLocation;
use crate::link::Link;
use crate::usage::{DiskUse, FlashUse, SsdUse};

/// Result of a request: bytes for a viewer, or a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OriginEvent {
    /// The next bytes of a reply, to be handed to the viewer's socket.
    Piece(ReplyPiece),
    /// The reply will not be completed.
    Failed(Requester),
}

/// Some bytes of a reply, ready for a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyPiece {
    pub(crate) asker: Requester,
    pub(crate) request: RequestId,
    pub(crate) slot: Slot,
    pub(crate) bytes: u64,
    /// Length of the reply, on its first piece.
    pub(crate) head: Option<u64>,
    pub(crate) is_last: bool,
}

/// The client of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requester {
    pub(crate) session: u32,
    pub(crate) call: CallId,
    /// Whether it requested the whole file rather than a range.
    pub(crate) is_whole: bool,
}

impl Requester {
    /// HTTP status of a successful reply.
    pub(crate) fn status(self) -> u16 {
        if self.is_whole { 200 } else { 206 }
    }
}

/// The state that is sampled regularly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerState {
    pub(crate) memory: MemoryUse,
    pub(crate) queue: QueueUse,
    pub(crate) chains: usize,
    pub(crate) stats: Stats,
    /// The prefetch size in use; for a page-cache server the readahead size of its kernel.
    pub(crate) control: ControlView,
}

impl ServerState {
    /// The combined state of several disks. Sizes of the controllers are averaged; the rest of
    /// their state is dropped.
    pub(crate) fn of_all(mut states: impl ExactSizeIterator<Item = Self>) -> Option<Self> {
        let count = states.len() as u64;
        let mut all = states.next()?;
        if count == 1 {
            return Some(all);
        }
        all.control = ControlView {
            score: None,
            reason: None,
            drive: None,
            ..all.control
        };
        for of in states {
            all.add(&of);
        }
        all.control.bytes /= count;
        all.control.target_bytes /= count;
        Some(all)
    }

    fn add(&mut self, of: &Self) {
        let (memory, more) = (&mut self.memory, &of.memory);
        memory.free_bytes += more.free_bytes;
        memory.filling_bytes += more.filling_bytes;
        memory.sending_bytes += more.sending_bytes;
        memory.unread_bytes += more.unread_bytes;
        memory.read_bytes += more.read_bytes;
        let (queue, more) = (&mut self.queue, &of.queue);
        queue.jobs += more.jobs;
        queue.jobs_demanded += more.jobs_demanded;
        queue.jobs_overdue += more.jobs_overdue;
        queue.outstanding_reads += more.outstanding_reads;
        self.chains += of.chains;
        self.stats = self.stats + of.stats;
        self.control.bytes += of.control.bytes;
        self.control.target_bytes += of.control.target_bytes;
    }
}

/// A kernel's page cache at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheUse {
    /// Bytes in the cache.
    pub bytes: u64,
    /// Bytes on the active list, which is evicted last.
    pub active_bytes: u64,
}

/// A server that answers requests.
pub(crate) trait Origin: Debug {
    /// Send-buffer size of a socket for a link of this kind.
    fn socket_bytes(&self, bandwidth: Option<BitRate>, delay: Duration) -> u64;

    /// A request arrives.
    ///
    /// # Errors
    /// The HTTP status of the refusal.
    fn ask(
        &mut self,
        now: Instant,
        asker: Requester,
        object: ObjectId,
        range: Option<ByteRange>,
    ) -> Result<RequestId, u16>;

    /// A viewer with an accepted request announces its next request. Called for Headlong only.
    fn expect(&mut self, _: Instant, _: Requester, _: ObjectId, _: Option<ByteRange>) {}

    /// Earliest time at which a piece may go to its socket; called once for each piece, in order.
    fn leaves_at(&mut self, now: Instant, _piece: &ReplyPiece) -> Instant {
        now
    }

    /// A piece was handed to its socket, which will have accepted all of it at `taken`. Returns
    /// when [`Self::taken`] must be called.
    fn handed(&mut self, now: Instant, piece: &ReplyPiece, link: &Link, taken: Instant) -> Instant;

    /// The time returned by [`Self::handed`] has come.
    fn taken(&mut self, now: Instant, request: RequestId, slot: Slot);

    /// The viewer has closed the connection of a reply.
    fn gone(&mut self, now: Instant, request: RequestId);

    /// Handles the timeout.
    fn handle_timeout(&mut self, now: Instant);

    /// When to call [`Self::handle_timeout`].
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next outcome.
    fn poll_outcome(&mut self) -> Option<OriginEvent>;

    /// Saves the learned state. This and the next two are called for Headlong only.
    fn write_state(&mut self, _: Instant) {}

    /// The process ends with all its state: replies whose bytes are not all in their sockets fail.
    /// [`Self::ask`] is not called until the next process has started.
    fn kill(&mut self, _: Instant) {}

    /// The next process starts from the saved state.
    fn start_again(&mut self, _: Instant) {}

    /// Replies in progress.
    fn reply_count(&self) -> usize;

    /// Activity of all drives so far.
    fn drive_use(&self) -> DriveUse;

    /// Read pattern of the first drive since [`Self::begin_window`].
    fn pattern(&self) -> Option<&AccessPattern>;

    /// The measured window opens.
    fn begin_window(&mut self, now: Instant);

    /// The disk of a file.
    fn disk_of(&self, _: ObjectId) -> u32 {
        0
    }

    /// Activity of each disk so far. This and the next are called for Headlong only.
    fn disks(&self) -> Vec<DiskUse> {
        Vec::new()
    }

    /// Activity of each SSD since [`Self::begin_window`].
    fn ssds(&self, _: Instant) -> Vec<SsdUse> {
        Vec::new()
    }

    /// Times from request to first piece since the last call.
    fn take_waits(&mut self) -> Histogram;

    /// Adds a file of a title before its first request.
    fn know(&mut self, object: ObjectId, title: u32, place: FileLocation);

    /// Objects that are kept while requests wait for them.
    fn live(&self) -> usize;

    /// The state at this moment.
    fn state(&self) -> ServerState;

    /// The page cache, if the server has one.
    fn cache(&self) -> Option<CacheUse>;

    /// The flash tier, if the server has one.
    fn flash(&self) -> Option<FlashUse> {
        None
    }

    /// Activity of each box since [`Self::begin_window`], if it is a fleet.
    fn fleet(&self) -> Option<FleetUse> {
        None
    }
}
