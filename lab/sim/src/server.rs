//! The server's part: one shard, the replies it is working on, and the device below it.
//!
//! It calls the shard as the thread of a real device does: streams are registered when they are
//! first asked for, commands and events are drained after every call, and a slot comes back when
//! the viewer's socket has taken its bytes.

use std::collections::{BTreeMap, VecDeque};

use headlong_engine::{
    Command, ConnectionId, Event, Expected, Extent, Failure, Hints, Identity as Who, PartSpec,
    ReadOutcome, Refusal, Request, RequestId, Shard, Slot, Stats, StreamId, StreamSpec, ViewerId,
};
use headlong_http::{Pace, Pacer};
use headlong_player::ObjectId;
use headlong_units::{BitRate, ByteRange, Duration, Instant};
use headlong_workload::Identity;

use crate::device::Device;
use crate::disk::Disk;
use crate::flash::{Tier, key_of};
use crate::flash_use::{FlashCounts, FlashUse};
use crate::histogram::Histogram;
use crate::layout::{Layout, Place};
use crate::link::Link;
use crate::origin::{Asker, CacheUse, Origin, Outcome, Piece, State};
use crate::restart::Kept;
use crate::setup::Setup;
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

/// The server in virtual time.
#[derive(Debug)]
pub(crate) struct Server {
    shard: Shard,
    disk: Disk,
    tier: Option<Tier>,
    layout: Layout,
    socket_bytes: u64,
    pace: Pace,
    identity: Identity,
    playlists_known: bool,
    bit_rates_known: bool,
    bit_rates_told: Vec<(BitRate, BitRate)>,
    /// Streams that the shard knows, and where each of their files begins.
    registered: BTreeMap<StreamId, Vec<u64>>,
    /// By the number of the request.
    replies: Slab<Reply>,
    outcomes: VecDeque<Outcome>,
    /// From asking until the first piece was there.
    waits: Histogram,
    /// When time is to pass next, as of the last call of the shard or the disk.
    next_at: Option<Instant>,
    checked: bool,
    kept: Kept,
    /// Counted by the processes before this one.
    stats_before: Stats,
    flash_before: FlashCounts,
}

/// Streams of titles in several files are numbered from here, others by the object.
const TITLES_FROM: u64 = 1 << 40;

/// The files of a stream: a file alone, or all of the title's, as its playlist says.
fn parts_of(place: &Place) -> Vec<PartSpec> {
    let part = |(physical, size_bytes)| PartSpec {
        size_bytes,
        extents: vec![Extent {
            offset: 0,
            physical,
            length: size_bytes,
        }],
        flash_key: Some(key_of(physical)),
        is_absent: false,
    };
    match &place.part {
        Some(title) => title.all().map(part).collect(),
        None => vec![part((place.physical, place.size_bytes))],
    }
}

impl Server {
    pub(crate) fn new(
        shard: Shard,
        disk: Disk,
        tier: Option<Tier>,
        layout: Layout,
        setup: &Setup,
    ) -> Self {
        let timeouts = [disk.poll_timeout(), shard.poll_timeout()];
        Self {
            next_at: timeouts.into_iter().flatten().min(),
            shard,
            disk,
            tier,
            layout,
            socket_bytes: setup.socket_bytes,
            pace: setup.pace,
            identity: setup.identity,
            playlists_known: setup.playlists_known,
            bit_rates_known: setup.bit_rates_known,
            bit_rates_told: setup.bit_rates_told.clone(),
            registered: BTreeMap::new(),
            replies: Slab::default(),
            outcomes: VecDeque::new(),
            waits: Histogram::default(),
            checked: setup.checked,
            kept: Kept::default(),
            stats_before: Stats::default(),
            flash_before: FlashCounts::default(),
        }
    }
}

impl Origin for Server {
    fn socket_bytes(&self, _: Option<BitRate>, _: Duration) -> u64 {
        self.socket_bytes
    }

    fn leaves_at(&mut self, now: Instant, piece: &Piece) -> Instant {
        let reply = self.replies.get_mut(piece.request.0);
        let Some(pacer) = reply.and_then(|reply| reply.pacer.as_mut()) else {
            return now;
        };
        let at = pacer.may_go_at().max(now);
        pacer.go(piece.bytes);
        at
    }

    fn ask(
        &mut self,
        now: Instant,
        asker: Asker,
        object: ObjectId,
        range: Option<ByteRange>,
    ) -> Result<RequestId, u16> {
        let Some(place) = self.place(object) else {
            return Err(404);
        };
        let (stream, part) = stream_of(object, &place);
        let whole = ByteRange::new(0, place.size_bytes);
        let wanted = range.map_or(whole, |range| range.intersection(whole));
        if wanted.is_empty() {
            return Err(416);
        }
        self.register(now, stream, &place)?;
        let request = Request {
            viewer: self.who(asker),
            stream,
            part,
            offset: wanted.start,
            length: wanted.len(),
            open_ended: range.is_none(),
            hints: self.hints(&place),
        };
        let reply = Reply {
            asker,
            asked_at: now,
            bytes: wanted.len(),
            bytes_left: wanted.len(),
            sending: Vec::new(),
            pacer: self.pace.pacer(now, place.bit_rate),
        };
        let id = RequestId(self.replies.add(reply));
        let result = self.shard.handle_request(now, id, request);
        if result.is_err() {
            self.replies.remove(id.0);
        }
        self.settle(now);
        result.map(|()| id).map_err(status_of)
    }

    fn expect(&mut self, now: Instant, asker: Asker, object: ObjectId, range: Option<ByteRange>) {
        let Some(place) = self.place(object) else {
            return;
        };
        let (stream, part) = stream_of(object, &place);
        let whole = ByteRange::new(0, place.size_bytes);
        let wanted = range.map_or(whole, |range| range.intersection(whole));
        let expected = Expected {
            viewer: self.who(asker),
            stream,
            part,
            offset: wanted.start,
            length: wanted.len(),
        };
        let told = self.shard.handle_expected(now, expected);
        if told == Err(Refusal::UnknownStream) && self.register(now, stream, &place).is_ok() {
            // What lies beyond the end of a file is nothing.
            let _ = self.shard.handle_expected(now, expected);
        }
        self.settle(now);
    }

    fn taken(&mut self, now: Instant, request: RequestId, slot: Slot) {
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
        self.settle(now);
    }

    fn gone(&mut self, now: Instant, request: RequestId) {
        let Some(reply) = self.replies.remove(request.0) else {
            return;
        };
        if reply.bytes_left > 0 {
            self.shard.handle_cancel(now, request);
        }
        for slot in reply.sending {
            self.shard.handle_sent(now, request, slot);
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.disk.poll_timeout().is_some_and(|at| at <= now) {
            self.disk.handle_timeout(now);
            self.settle(now);
        }
        let tier = self.tier.as_mut();
        if let Some(tier) = tier.filter(|tier| tier.poll_timeout().is_some_and(|at| at <= now)) {
            tier.handle_timeout(now);
            self.settle(now);
        }
        if self.shard.poll_timeout().is_some_and(|at| at <= now) {
            self.shard.handle_timeout(now);
            self.settle(now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next_at
    }

    fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    fn handed(&mut self, _: Instant, _: &Piece, _: &Link, taken: Instant) -> Instant {
        taken
    }

    fn write_state(&mut self, now: Instant) {
        self.kept.write(now, &self.shard);
    }

    fn kill(&mut self, now: Instant) {
        self.stats_before = self.stats_before + self.shard.stats();
        if let (Some(tier), Some(view)) = (&mut self.tier, self.shard.flash_view()) {
            self.flash_before += FlashCounts::of(&view);
            tier.kill(view.budget_bytes - view.budget_left_bytes);
        }
        self.disk.forget_reads();
        self.registered.clear();
        for (_, reply) in self.replies.take_all() {
            if reply.bytes_left > 0 {
                self.outcomes.push_back(Outcome::Failed(reply.asker));
            }
        }
        // What was sound once is so again.
        if let Ok(shard) = Shard::new(*self.shard.config()) {
            self.shard = shard;
        }
        self.settle(now);
    }

    fn start_again(&mut self, now: Instant) {
        self.kept.tell(now, &mut self.shard);
        if let Some(tier) = &self.tier {
            tier.attach_again(now, &mut self.shard);
        }
        self.settle(now);
    }

    fn flash(&self) -> Option<FlashUse> {
        self.tier.as_ref()?;
        let view = self.shard.flash_view().unwrap_or_default();
        let mut counts = self.flash_before;
        counts += FlashCounts::of(&view);
        Some(FlashUse::of(&view, counts))
    }

    fn reply_count(&self) -> usize {
        self.replies.len()
    }

    fn device(&self) -> &Device {
        self.disk.device()
    }

    fn device_mut(&mut self) -> &mut Device {
        self.disk.device_mut()
    }

    fn take_waits(&mut self) -> Histogram {
        std::mem::take(&mut self.waits)
    }

    fn know(&mut self, object: ObjectId, place: Place) {
        self.layout.know(object, place);
    }

    fn live(&self) -> usize {
        self.replies.len()
            + self.outcomes.len()
            + self.disk.live()
            + self.tier.as_ref().map_or(0, Tier::live)
    }

    fn state(&self) -> State {
        State {
            memory: self.shard.memory_use(),
            queue: self.shard.queue_use(),
            chains: self.shard.chain_count(),
            stats: self.stats_before + self.shard.stats(),
            control: self.shard.control_view(),
        }
    }

    fn cache(&self) -> Option<CacheUse> {
        None
    }
}

/// The stream of an object, and which of its parts it is.
fn stream_of(object: ObjectId, place: &Place) -> (StreamId, u32) {
    match &place.part {
        Some(part) => (StreamId(TITLES_FROM + u64::from(part.title)), part.number),
        None => (StreamId(u64::from(object.0)), 0),
    }
}

impl Server {
    /// Where an object lies, and of which title it is a part if the server knows playlists.
    fn place(&self, object: ObjectId) -> Option<Place> {
        let place = self.layout.place(object)?;
        let part = place.part.filter(|_| self.playlists_known);
        Some(Place { part, ..place })
    }

    /// Has the shard know a stream.
    ///
    /// # Errors
    /// The status of the reply that says no.
    fn register(&mut self, now: Instant, stream: StreamId, place: &Place) -> Result<(), u16> {
        if self.registered.contains_key(&stream) {
            return Ok(());
        }
        let parts = parts_of(place);
        let first = |part: &PartSpec| part.extents.first().map_or(0, |extent| extent.physical);
        let starts = parts.iter().map(first).collect();
        let spec = StreamSpec {
            id: stream,
            parts,
            bit_rate: self.bit_rate_told(place.bit_rate),
        };
        self.shard.handle_stream(now, spec).map_err(|_| 503_u16)?;
        self.registered.insert(stream, starts);
        self.kept.welcome(now, &mut self.shard, stream);
        self.settle(now);
        Ok(())
    }

    /// Does what the shard says until it has nothing to say.
    fn settle(&mut self, now: Instant) {
        loop {
            if let Some(command) = self.shard.poll_command() {
                self.obey(now, command);
            } else if let Some(event) = self.shard.poll_event() {
                self.pass_on(now, event);
            } else if let Some(read) = self.disk.poll_begun() {
                self.shard.handle_read_begun(now, read);
            } else if let Some(read) = self.disk.poll_done() {
                self.shard.handle_read_done(now, read, ReadOutcome::Done);
            } else if !self.tell_of_flash(now) {
                break;
            }
        }
        let tier = self.tier.as_ref().and_then(Tier::poll_timeout);
        let timeouts = [self.disk.poll_timeout(), tier, self.shard.poll_timeout()];
        self.next_at = timeouts.into_iter().flatten().min();
        if self.checked {
            self.shard.check_invariants();
        }
    }

    fn tell_of_flash(&mut self, now: Instant) -> bool {
        let shard = &mut self.shard;
        (self.tier.as_mut()).is_some_and(|tier| tier.tell(now, shard))
    }

    /// What the shard sees of who asks; without a session id, all come from one address.
    fn who(&self, asker: Asker) -> Who {
        let number = u64::from(asker.session);
        match self.identity {
            Identity::Sid | Identity::Cmcd => Who::Named(ViewerId(number)),
            Identity::Connection | Identity::None => Who::Unnamed {
                origin: ViewerId(0),
                connection: (self.identity == Identity::Connection).then_some(ConnectionId(number)),
            },
        }
    }

    /// What a player says of itself beside its name.
    fn hints(&self, place: &Place) -> Hints {
        let bit_rate = place.bit_rate;
        Hints {
            bit_rate: bit_rate.filter(|_| self.identity == Identity::Cmcd),
            ..Hints::default()
        }
    }

    /// What the shard is told of a title's bit rate.
    fn bit_rate_told(&self, bit_rate: Option<BitRate>) -> Option<BitRate> {
        let bit_rate = bit_rate.filter(|_| self.bit_rates_known)?;
        let mut told = self.bit_rates_told.iter();
        let told = told.find(|(true_rate, _)| *true_rate == bit_rate);
        Some(told.map_or(bit_rate, |(_, told)| *told))
    }

    fn obey(&mut self, now: Instant, command: Command) {
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
                if let Some(tier) = &mut self.tier {
                    tier.obey(now, command);
                }
            }
            // A simulated server is never told to give memory up.
            Command::Vacate(_) => {}
        }
    }

    fn pass_on(&mut self, now: Instant, event: Event) {
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
                    self.waits.add(now.since(reply.asked_at));
                }
                let bytes = u64::from(end - start);
                reply.bytes_left -= bytes;
                reply.sending.push(slot);
                self.outcomes.push_back(Outcome::Piece(Piece {
                    asker: reply.asker,
                    request,
                    slot,
                    bytes,
                    head: is_first.then_some(reply.bytes),
                    is_last: reply.bytes_left == 0,
                }));
            }
            Event::Failed { request, failure } => {
                debug_assert!(failure != Failure::Device, "no device here returns errors");
                if let Some(reply) = self.replies.get(request.0) {
                    self.outcomes.push_back(Outcome::Failed(reply.asker));
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
