//! One disk of the server: its shard, the replies that the shard is working on, and the drive below.
//!
//! It calls the shard as the thread of a real device does: streams are registered when they are
//! first asked for, commands and events are drained after every call, and a slot comes back when
//! the viewer's socket has taken its bytes.
//!
//! Invariant: nothing of one disk is known to another; they meet in the SSDs of [`Shared`] alone.

use std::collections::BTreeMap;

use headlong_engine::{
    Command, Event, Expected, Failure, PartSpec, ReadOutcome, Refusal, Request, RequestId, Shard,
    Slot, Stats, StreamId, StreamSpec,
};
use headlong_http::Pacer;
use headlong_units::Instant;

use crate::asking::{Asking, Shared, parts_of};
use crate::disk::Disk;
use crate::flash_use::{FlashCounts, FlashUse};
use crate::layout::Place;
use crate::origin::{Asker, Outcome, Piece, State};
use crate::restart::Kept;
use crate::slab::Slab;

#[derive(Debug)]
struct Reply {
    asker: Asker,
    asked_at: Instant,
    bytes: u64,
    bytes_left: u64,
    /// Handed to the socket and not yet taken by it.
    sending: Vec<Slot>,
    pacer: Option<Pacer>,
}

/// One disk of the server in virtual time.
#[derive(Debug)]
pub(crate) struct DiskServer {
    /// Its number.
    number: u32,
    shard: Shard,
    disk: Disk,
    /// Streams that the shard knows, and where each of their files begins.
    registered: BTreeMap<StreamId, Vec<u64>>,
    /// By the number of the request as the shard knows it.
    replies: Slab<Reply>,
    kept: Kept,
    /// Counted by the processes before this one.
    stats_before: Stats,
    flash_before: FlashCounts,
}

/// Where the number of the disk begins in that of a request.
const DISK_BITS: u32 = 48;

/// The number of a disk's request among those of all.
fn of_all(disk: u32, request: RequestId) -> RequestId {
    RequestId(u64::from(disk) << DISK_BITS | request.0)
}

/// Which disk a request is of, and its number there.
pub(crate) fn of_disk(request: RequestId) -> (u32, RequestId) {
    let own = request.0 & ((1 << DISK_BITS) - 1);
    ((request.0 >> DISK_BITS) as u32, RequestId(own))
}

impl DiskServer {
    pub(crate) fn new(number: u32, shard: Shard, disk: Disk) -> Self {
        Self {
            number,
            shard,
            disk,
            registered: BTreeMap::new(),
            replies: Slab::default(),
            kept: Kept::default(),
            stats_before: Stats::default(),
            flash_before: FlashCounts::default(),
        }
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    pub(crate) fn disk_mut(&mut self) -> &mut Disk {
        &mut self.disk
    }

    pub(crate) fn reply_count(&self) -> usize {
        self.replies.len()
    }

    pub(crate) fn live(&self) -> usize {
        self.replies.len() + self.disk.live()
    }

    /// From when on a piece may be handed to its socket.
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
    /// The status of the reply that says no.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        asker: Asker,
        asking: &Asking<'_>,
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
            holder: None,
            hints: shared.hints(asking.place),
        };
        let reply = Reply {
            asker,
            asked_at: now,
            bytes: wanted.len(),
            bytes_left: wanted.len(),
            sending: Vec::new(),
            pacer: shared.pace.pacer(now, asking.place.bit_rate),
        };
        let id = RequestId(self.replies.add(reply));
        let result = self.shard.handle_request(now, id, request);
        if result.is_err() {
            self.replies.remove(id.0);
        }
        self.settle(now, shared);
        result.map(|()| of_all(self.number, id)).map_err(status_of)
    }

    /// A viewer whose request was taken on says what it will ask for next.
    pub(crate) fn expect(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        asker: Asker,
        asking: &Asking<'_>,
    ) {
        let (stream, part) = asking.stream();
        let wanted = asking.wanted();
        let expected = Expected {
            viewer: shared.who(asker),
            stream,
            part,
            offset: wanted.start,
            length: wanted.len(),
        };
        let told = self.shard.handle_expected(now, expected);
        let is_unknown = told == Err(Refusal::UnknownStream);
        if is_unknown && self.register(now, shared, stream, asking.place).is_ok() {
            // What lies beyond the end of a file is nothing.
            let _ = self.shard.handle_expected(now, expected);
        }
        self.settle(now, shared);
    }

    /// A socket has taken a piece.
    pub(crate) fn taken(
        &mut self,
        now: Instant,
        shared: &mut Shared,
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
        self.shard.handle_sent(now, request, slot);
        self.settle(now, shared);
    }

    /// The viewer has closed the connection that a reply was sent on.
    pub(crate) fn gone(&mut self, now: Instant, shared: &mut Shared, request: RequestId) {
        let Some(reply) = self.replies.remove(request.0) else {
            return;
        };
        if reply.bytes_left > 0 {
            self.shard.handle_cancel(now, request);
        }
        for slot in reply.sending {
            self.shard.handle_sent(now, request, slot);
        }
        self.settle(now, shared);
    }

    /// Time passed for the drive, if it was to.
    pub(crate) fn handle_disk_timeout(&mut self, now: Instant, shared: &mut Shared) {
        if self.disk.poll_timeout().is_some_and(|at| at <= now) {
            self.disk.handle_timeout(now);
            self.settle(now, shared);
        }
    }

    /// Time passed for the shard, if it was to.
    pub(crate) fn handle_shard_timeout(&mut self, now: Instant, shared: &mut Shared) {
        if self.shard.poll_timeout().is_some_and(|at| at <= now) {
            self.shard.handle_timeout(now);
            self.settle(now, shared);
        }
    }

    /// When time is to pass next.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let timeouts = [self.disk.poll_timeout(), self.shard.poll_timeout()];
        timeouts.into_iter().flatten().min()
    }

    /// What was learned is written down.
    pub(crate) fn write_state(&mut self, now: Instant) {
        self.kept.write(now, &self.shard);
    }

    /// The process ends. Answers how many bytes this disk wrote to flash within the last day.
    pub(crate) fn kill(&mut self, shared: &mut Shared) -> u64 {
        self.stats_before = self.stats_before + self.shard.stats();
        let view = self.shard.flash_view();
        if let Some(view) = &view {
            self.flash_before += FlashCounts::of(view);
        }
        self.disk.forget_reads();
        self.registered.clear();
        for (_, reply) in self.replies.take_all() {
            if reply.bytes_left > 0 {
                shared.outcomes.push_back(Outcome::Failed(reply.asker));
            }
        }
        // What was sound once is so again.
        if let Ok(shard) = Shard::new(*self.shard.config()) {
            self.shard = shard;
        }
        view.map_or(0, |view| view.budget_bytes - view.budget_left_bytes)
    }

    /// The next process is there, and knows what was written down.
    pub(crate) fn start_again(&mut self, now: Instant, shared: &mut Shared) {
        self.kept.tell(now, &mut self.shard);
        if let Some(tier) = &shared.tier {
            tier.attach_again(now, self.number, &mut self.shard);
        }
        self.settle(now, shared);
    }

    /// Its part of the tier.
    pub(crate) fn flash(&self) -> FlashUse {
        let view = self.shard.flash_view().unwrap_or_default();
        let mut counts = self.flash_before;
        counts += FlashCounts::of(&view);
        FlashUse::of(&view, counts)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.stats_before + self.shard.stats()
    }

    pub(crate) fn state(&self) -> State {
        State {
            memory: self.shard.memory_use(),
            queue: self.shard.queue_use(),
            chains: self.shard.chain_count(),
            stats: self.stats(),
            control: self.shard.control_view(),
        }
    }

    /// Has the shard know a stream.
    ///
    /// # Errors
    /// The status of the reply that says no.
    fn register(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        stream: StreamId,
        place: &Place,
    ) -> Result<(), u16> {
        if self.registered.contains_key(&stream) {
            return Ok(());
        }
        let parts = parts_of(place);
        let first = |part: &PartSpec| part.extents.first().map_or(0, |extent| extent.physical);
        let starts = parts.iter().map(first).collect();
        let spec = StreamSpec {
            id: stream,
            parts,
            bit_rate: shared.bit_rate_told(place.bit_rate),
        };
        self.shard.handle_stream(now, spec).map_err(|_| 503_u16)?;
        self.registered.insert(stream, starts);
        self.kept.welcome(now, &mut self.shard, stream);
        self.settle(now, shared);
        Ok(())
    }

    /// Does what the shard says until it has nothing to say.
    pub(crate) fn settle(&mut self, now: Instant, shared: &mut Shared) {
        loop {
            if let Some(command) = self.shard.poll_command() {
                self.obey(now, shared, command);
            } else if let Some(event) = self.shard.poll_event() {
                self.pass_on(now, shared, event);
            } else if let Some(read) = self.disk.poll_begun() {
                self.shard.handle_read_begun(now, read);
            } else if let Some(read) = self.disk.poll_done() {
                self.shard.handle_read_done(now, read, ReadOutcome::Done);
            } else if !self.tell_of_flash(now, shared) {
                break;
            }
        }
        if shared.checked {
            self.shard.check_invariants();
        }
    }

    fn tell_of_flash(&mut self, now: Instant, shared: &mut Shared) -> bool {
        let (number, shard) = (self.number, &mut self.shard);
        (shared.tier.as_mut()).is_some_and(|tier| tier.tell(now, number, shard))
    }

    fn obey(&mut self, now: Instant, shared: &mut Shared, command: Command) {
        match command {
            Command::Read(read) => {
                let starts = self.registered.get(&read.stream);
                let start = starts.and_then(|starts| starts.get(read.part as usize));
                let start = start.copied().unwrap_or(0);
                self.disk
                    .submit(now, read.id, start + read.offset, read.length, read.opening);
            }
            Command::Forget(stream) => {
                self.registered.remove(&stream);
            }
            Command::Flash(command) => {
                if let Some(tier) = &mut shared.tier {
                    tier.obey(now, self.number, command);
                }
            }
            // A simulated server is never told to give memory up.
            Command::Vacate(_) => {}
        }
    }

    fn pass_on(&mut self, now: Instant, shared: &mut Shared, event: Event) {
        match event {
            Event::Ready {
                request,
                slot,
                start,
                end,
                ..
            } => {
                let Some(reply) = self.replies.get_mut(request.0) else {
                    return self.shard.handle_sent(now, request, slot);
                };
                let is_first = reply.bytes_left == reply.bytes;
                if is_first {
                    shared.waits.add(now.since(reply.asked_at));
                }
                let bytes = u64::from(end - start);
                reply.bytes_left -= bytes;
                reply.sending.push(slot);
                shared.outcomes.push_back(Outcome::Piece(Piece {
                    asker: reply.asker,
                    request: of_all(self.number, request),
                    slot,
                    bytes,
                    head: is_first.then_some(reply.bytes),
                    is_last: reply.bytes_left == 0,
                }));
            }
            Event::Failed { request, failure } => {
                debug_assert!(failure != Failure::Device, "no device here returns errors");
                if let Some(reply) = self.replies.get(request.0) {
                    shared.outcomes.push_back(Outcome::Failed(reply.asker));
                }
            }
        }
    }
}

/// What the server's front says to a refusal.
fn status_of(refusal: Refusal) -> u16 {
    match refusal {
        Refusal::Overloaded { .. } | Refusal::Full | Refusal::Offline { .. } => 503,
        Refusal::UnknownStream => 404,
        Refusal::OutOfBounds => 416,
    }
}
