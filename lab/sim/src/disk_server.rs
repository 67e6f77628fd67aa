//! One disk of the server: its device core, the replies in progress, and the drive below.
//!
//! The core is the server's own. Its host here has files at fixed places of the drive, whose maps it
//! may have to read first, memory that is counted but not filled, and the sockets of the
//! viewers.
//!
//! Invariant: disks share no state except the SSDs of [`ServerShared`].

use headlong_device::{DeviceCore, ReadCompletion};
use headlong_engine::{
    AnnouncedRequest, ReadOutcome, Refusal, Request, RequestId, Shard, Slot, Stats, StreamId,
    StreamSpec,
};
use headlong_flash::SpecError;
use headlong_units::Instant;

use crate::disk::{OPEN_FILES_MAX, SimulatedDisk, SimulatedResources};
use crate::host::SimulatedHost;
use crate::layout::FileLocation;
use crate::origin::{OriginEvent, Requester, ServerState};
use crate::request::{ActiveReply, FileRequest, ServerShared, of_all, parts_of};
use crate::setup::SavedState;
use crate::slab::Slab;
use crate::usage::{FlashCounts, FlashUse};

/// One disk of the server in virtual time.
pub(crate) struct DiskServer {
    /// Number of the disk.
    number: u32,
    core: DeviceCore<SimulatedResources>,
    disk: SimulatedDisk,
    /// Keyed by the request number in the core.
    replies: Slab<ActiveReply>,
    kept: SavedState,
    /// Counters of the earlier processes.
    stats_before: Stats,
    flash_before: FlashCounts,
    /// Why the shard rejected the flash tier.
    refused: Option<SpecError>,
}

impl std::fmt::Debug for DiskServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = &self.number;
        f.debug_struct("DiskServer")
            .field("number", number)
            .finish_non_exhaustive()
    }
}

impl DiskServer {
    pub(crate) fn new(number: u32, shard: Shard, disk: SimulatedDisk) -> Self {
        Self {
            number,
            core: DeviceCore::new(shard, OPEN_FILES_MAX),
            disk,
            replies: Slab::default(),
            kept: SavedState::default(),
            stats_before: Stats::default(),
            flash_before: FlashCounts::default(),
            refused: None,
        }
    }

    /// The core and its host.
    fn call<'c>(
        &'c mut self,
        now: Instant,
        shared: &'c mut ServerShared,
    ) -> (&'c mut DeviceCore<SimulatedResources>, SimulatedHost<'c>) {
        let machine = SimulatedHost {
            now,
            number: self.number,
            disk: &mut self.disk,
            replies: &mut self.replies,
            shared,
            refused: &mut self.refused,
        };
        (&mut self.core, machine)
    }

    fn shard(&self) -> &Shard {
        self.core.shard()
    }

    /// Attaches this disk's partition of the flash tier, if there is one.
    ///
    /// # Errors
    /// If the engine rejects the partition.
    pub(crate) fn attach_flash(
        &mut self,
        now: Instant,
        shared: &mut ServerShared,
    ) -> Result<(), SpecError> {
        let attached = shared
            .tier
            .as_ref()
            .and_then(|tier| tier.attach(self.number));
        if let Some((port, end)) = attached {
            self.core.set_flash(port);
            let (core, mut machine) = self.call(now, shared);
            core.handle_flash(now, &mut machine, end);
        }
        self.refused.take().map_or(Ok(()), Err)
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn disk(&self) -> &SimulatedDisk {
        &self.disk
    }

    pub(crate) fn disk_mut(&mut self) -> &mut SimulatedDisk {
        &mut self.disk
    }

    pub(crate) fn reply_count(&self) -> usize {
        self.replies.len()
    }

    pub(crate) fn live(&self) -> usize {
        self.replies.len() + self.disk.live()
    }

    /// Earliest time at which a piece may go to its socket.
    pub(crate) fn leaves_at(&mut self, now: Instant, request: RequestId, bytes: u64) -> Instant {
        let reply = self.replies.get_mut(request.0);
        let Some(pacer) = reply.and_then(|reply| reply.pacer.as_mut()) else {
            return now;
        };
        let at = pacer.may_go_at().max(now);
        pacer.go(bytes);
        at
    }

    /// A request arrives.
    ///
    /// # Errors
    /// The HTTP status of the refusal.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        shared: &mut ServerShared,
        asker: Requester,
        asking: &FileRequest<'_>,
    ) -> Result<RequestId, u16> {
        let (stream, part) = asking.stream();
        let wanted = asking.wanted();
        if wanted.is_empty() {
            return Err(416);
        }
        self.register(now, shared, stream, asking.place)?;
        let request = Request {
            viewer: shared.who(asker),
            stream,
            part,
            offset: wanted.start,
            length: wanted.len(),
            open_ended: asking.range.is_none(),
            overlap_bytes: 0,
            holder: None,
            hints: shared.hints(asking.place),
        };
        let reply = ActiveReply {
            asker,
            asked_at: now,
            bytes: wanted.len(),
            bytes_left: wanted.len(),
            sending: Vec::new(),
            pacer: shared.pace.pacer(now, asking.place.bit_rate),
        };
        let id = RequestId(self.replies.add(reply));
        let (core, mut machine) = self.call(now, shared);
        let result = core.request(now, &mut machine, (id, request), ());
        if result.is_err() {
            self.replies.remove(id.0);
        }
        self.settle(now, shared);
        result.map(|_| of_all(self.number, id)).map_err(status_of)
    }

    /// A viewer with an accepted request announces its next request.
    pub(crate) fn expect(
        &mut self,
        now: Instant,
        shared: &mut ServerShared,
        asker: Requester,
        asking: &FileRequest<'_>,
    ) {
        let (stream, part) = asking.stream();
        let wanted = asking.wanted();
        let expected = AnnouncedRequest {
            viewer: shared.who(asker),
            stream,
            part,
            offset: wanted.start,
            length: wanted.len(),
        };
        let told = self.core.shard_mut().handle_expected(now, expected);
        let is_unknown = told == Err(Refusal::UnknownStream);
        if is_unknown && self.register(now, shared, stream, asking.place).is_ok() {
            // A range beyond the end of the file is ignored.
            let _ = self.core.shard_mut().handle_expected(now, expected);
        }
        self.settle(now, shared);
    }

    /// A socket has accepted a piece.
    pub(crate) fn taken(
        &mut self,
        now: Instant,
        shared: &mut ServerShared,
        request: RequestId,
        slot: Slot,
    ) {
        let Some(reply) = self.replies.get_mut(request.0) else {
            return;
        };
        let Some(index) = reply.sending.iter().position(|sent| *sent == slot) else {
            return;
        };
        reply.sending.remove(index);
        if reply.sending.is_empty() && reply.bytes_left == 0 {
            self.replies.remove(request.0);
        }
        let (core, mut machine) = self.call(now, shared);
        core.sent(now, &mut machine, request, slot);
        self.settle(now, shared);
    }

    /// The viewer has closed the connection of a reply.
    pub(crate) fn gone(&mut self, now: Instant, shared: &mut ServerShared, request: RequestId) {
        let Some(reply) = self.replies.remove(request.0) else {
            return;
        };
        let (core, mut machine) = self.call(now, shared);
        core.leave(now, &mut machine, request, &reply.sending);
        self.settle(now, shared);
    }

    /// Writes bytes that the server has fetched.
    pub(crate) fn write(
        &mut self,
        now: Instant,
        shared: &mut ServerShared,
        physical: u64,
        bytes: u64,
    ) {
        self.disk.write(now, physical, bytes);
        self.settle(now, shared);
    }

    /// Whether it refuses new viewers.
    pub(crate) fn is_overloaded(&self) -> bool {
        self.shard().is_overloaded()
    }

    /// Handles the drive's timeout if it is due.
    pub(crate) fn handle_disk_timeout(&mut self, now: Instant, shared: &mut ServerShared) {
        if self.disk.poll_timeout().is_some_and(|at| at <= now) {
            self.disk.handle_timeout(now);
            self.settle(now, shared);
        }
    }

    /// Handles the core's timeout if it is due.
    pub(crate) fn handle_core_timeout(&mut self, now: Instant, shared: &mut ServerShared) {
        if self.core.due().is_some_and(|at| at <= now) {
            let (core, mut machine) = self.call(now, shared);
            core.tick(now, &mut machine);
            self.settle(now, shared);
        }
    }

    /// The next timeout.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let timeouts = [self.disk.poll_timeout(), self.core.due()];
        timeouts.into_iter().flatten().min()
    }

    /// Saves the learned state, as the server does regularly.
    pub(crate) fn write_state(&mut self, now: Instant) {
        self.kept.write(now, self.core.shard());
    }

    /// The process ends. Returns the bytes that this disk wrote to flash within the last day.
    pub(crate) fn kill(&mut self, shared: &mut ServerShared) -> u64 {
        self.stats_before = self.stats_before + self.shard().stats();
        let view = self.shard().flash_view();
        if let Some(view) = &view {
            self.flash_before += FlashCounts::of(view);
        }
        self.disk.forget_reads();
        for (_, reply) in self.replies.take_all() {
            if reply.bytes_left > 0 {
                shared.outcomes.push_back(OriginEvent::Failed(reply.asker));
            }
        }
        // The configuration was valid before.
        if let Ok(shard) = Shard::new(*self.shard().config()) {
            self.core = DeviceCore::new(shard, OPEN_FILES_MAX);
        }
        view.map_or(0, |view| view.budget_bytes - view.budget_left_bytes)
    }

    /// The next process starts from the saved state.
    pub(crate) fn start_again(&mut self, now: Instant, shared: &mut ServerShared) {
        self.kept.restore(now, &mut self.core);
        // The partition could be attached before.
        let attached = self.attach_flash(now, shared);
        debug_assert!(attached.is_ok(), "{attached:?}");
        self.settle(now, shared);
    }

    /// This disk's partition of the tier.
    pub(crate) fn flash(&self) -> FlashUse {
        let view = self.shard().flash_view().unwrap_or_default();
        let mut counts = self.flash_before;
        counts += FlashCounts::of(&view);
        FlashUse::of(&view, counts)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.stats_before + self.shard().stats()
    }

    pub(crate) fn state(&self) -> ServerState {
        ServerState {
            memory: self.shard().memory_use(),
            queue: self.shard().queue_use(),
            chains: self.shard().chain_count(),
            stats: self.stats(),
            control: self.shard().control_view(),
        }
    }

    /// Registers a stream.
    ///
    /// # Errors
    /// The HTTP status of the refusal.
    fn register(
        &mut self,
        now: Instant,
        shared: &mut ServerShared,
        stream: StreamId,
        place: &FileLocation,
    ) -> Result<(), u16> {
        if self.core.sources().contains_key(&stream) {
            return Ok(());
        }
        let parts = parts_of(place, shared.extents_per_file);
        let extents = parts.iter().map(|part| part.extents.clone()).collect();
        let spec = StreamSpec {
            id: stream,
            parts,
            bit_rate: shared.bit_rate_told(place.bit_rate),
        };
        let (core, mut machine) = self.call(now, shared);
        core.register(now, &mut machine, spec, extents)
            .map_err(|_| 503_u16)?;
        self.settle(now, shared);
        Ok(())
    }

    /// Delivers completions to the core until there are none left.
    pub(crate) fn settle(&mut self, now: Instant, shared: &mut ServerShared) {
        let (core, mut machine) = self.call(now, shared);
        core.drain_queues(now, &mut machine);
        loop {
            if let Some(id) = machine.disk.poll_done() {
                let completion = ReadCompletion {
                    id,
                    outcome: ReadOutcome::Done,
                    has_read_direct: true,
                };
                core.handle_read_ended(now, &mut machine, completion);
            } else if let Some(id) = machine.disk.poll_looked_up() {
                core.handle_location(now, &mut machine, id, None);
            } else if let Some(end) = machine.flash_ended() {
                core.handle_flash(now, &mut machine, end);
            } else {
                break;
            }
        }
        if shared.checked {
            self.shard().check_invariants();
        }
    }
}

/// HTTP status of a refusal, as the server's request path sends it.
fn status_of(refusal: Refusal) -> u16 {
    match refusal {
        Refusal::Overloaded { .. } | Refusal::Full | Refusal::Offline { .. } => 503,
        Refusal::UnknownStream => 404,
        Refusal::OutOfBounds => 416,
    }
}
