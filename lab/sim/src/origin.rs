//! What answers requests: the engine's server, or a vanilla one above a kernel's page cache.
//!
//! The one idea: both get requests, hand pieces of replies to sockets and hear when sockets have
//! room again; the world and its viewers do not know which of them it is. Names of replies and
//! pieces, counters and classes of memory are the engine's for both.

use std::fmt::Debug;

use headlong_engine::{ControlView, MemoryUse, QueueUse, RequestId, Slot, Stats};
use headlong_player::{CallId, ObjectId};
use headlong_units::{BitRate, ByteRange, Duration, Instant};

use crate::device::{DriveUse, Pattern};
use crate::disk_use::DiskUse;
use crate::flash_use::FlashUse;
use crate::histogram::Histogram;
use crate::layout::Place;
use crate::link::Link;
use crate::ssd_use::SsdUse;

/// Bytes for a viewer, or the end of hope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The next bytes of a reply, to be handed to the viewer's socket.
    Piece(Piece),
    /// The reply will not be completed.
    Failed(Asker),
}

/// Some bytes of a reply, on their way to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) asker: Asker,
    pub(crate) request: RequestId,
    pub(crate) slot: Slot,
    pub(crate) bytes: u64,
    /// Length of the reply, with its first piece.
    pub(crate) head: Option<u64>,
    pub(crate) is_last: bool,
}

/// Who waits for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) session: u32,
    pub(crate) call: CallId,
    /// Whether it asked for a file and not for a range of it.
    pub(crate) is_whole: bool,
}

impl Asker {
    /// What a server says that has it.
    pub(crate) fn status(self) -> u16 {
        if self.is_whole { 200 } else { 206 }
    }
}

/// Everything that is looked at regularly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct State {
    pub(crate) memory: MemoryUse,
    pub(crate) queue: QueueUse,
    pub(crate) chains: usize,
    pub(crate) stats: Stats,
    /// The prefetch size in use; of a vanilla server its kernel's read-ahead.
    pub(crate) control: ControlView,
}

impl State {
    /// The state of several disks together. What their controllers say is theirs alone, but for the
    /// mean size.
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
    /// All of it.
    pub bytes: u64,
    /// Of it, what the kernel would rather keep: its active list.
    pub active_bytes: u64,
}

/// What answers requests.
pub(crate) trait Origin: Debug {
    /// Bytes that a socket takes beyond those that have left, for a line of that kind.
    fn socket_bytes(&self, bandwidth: Option<BitRate>, delay: Duration) -> u64;

    /// A request arrives.
    ///
    /// # Errors
    /// The status of the reply that says no.
    fn ask(
        &mut self,
        now: Instant,
        asker: Asker,
        object: ObjectId,
        range: Option<ByteRange>,
    ) -> Result<RequestId, u16>;

    /// A viewer whose request was taken on says what it will ask for next. Asked of headlong only.
    fn expect(&mut self, _: Instant, _: Asker, _: ObjectId, _: Option<ByteRange>) {}

    /// From when on a piece may be handed to its socket; asked once for each, in order.
    fn leaves_at(&mut self, now: Instant, _piece: &Piece) -> Instant {
        now
    }

    /// A piece was handed to its socket, which will have taken all of it at `taken`; answers when
    /// [`Self::taken`] is to be called.
    fn handed(&mut self, now: Instant, piece: &Piece, link: &Link, taken: Instant) -> Instant;

    /// The time that was asked for has come.
    fn taken(&mut self, now: Instant, request: RequestId, slot: Slot);

    /// The viewer has closed the connection that a reply was sent on.
    fn gone(&mut self, now: Instant, request: RequestId);

    /// Time passed.
    fn handle_timeout(&mut self, now: Instant);

    /// When to call [`Self::handle_timeout`].
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next thing that came of a call.
    fn poll_outcome(&mut self) -> Option<Outcome>;

    /// What was learned is written down. This and the next two are asked of headlong only.
    fn write_state(&mut self, _: Instant) {}

    /// The process ends, with all that it holds: replies whose bytes are not all in their sockets
    /// fail. Nobody calls [`Self::ask`] until the next one is there.
    fn kill(&mut self, _: Instant) {}

    /// The next process is there, and knows what was written down.
    fn start_again(&mut self, _: Instant) {}

    /// Replies in progress.
    fn reply_count(&self) -> usize;

    /// What all drives did so far.
    fn drive_use(&self) -> DriveUse;

    /// In what order the first drive was read since [`Self::begin_window`].
    fn pattern(&self) -> Option<&Pattern>;

    /// From now on things are looked at.
    fn begin_window(&mut self, now: Instant);

    /// The disk that a file lies on.
    fn disk_of(&self, _: ObjectId) -> u32 {
        0
    }

    /// What each disk did so far. This and the next are asked of headlong only.
    fn disks(&self) -> Vec<DiskUse> {
        Vec::new()
    }

    /// What each SSD did since [`Self::begin_window`].
    fn ssds(&self, _: Instant) -> Vec<SsdUse> {
        Vec::new()
    }

    /// Times from asking until the first piece was there, since this was last asked.
    fn take_waits(&mut self) -> Histogram;

    /// A file that will be asked for.
    fn know(&mut self, object: ObjectId, place: Place);

    /// Things that are kept while somebody waits for them.
    fn live(&self) -> usize;

    /// How things are.
    fn state(&self) -> State;

    /// The page cache, if it has one.
    fn cache(&self) -> Option<CacheUse>;

    /// The flash tier, if it has one.
    fn flash(&self) -> Option<FlashUse> {
        None
    }
}
