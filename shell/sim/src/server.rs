//! The server's part: one shard, the replies it is working on, and the device below it.
//!
//! It calls the shard as the thread of a real device does: streams are registered when they are
//! first asked for, commands and events are drained after every call, and a slot comes back when
//! the viewer's socket has taken its bytes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use headlong_engine::{
    Command, Event, Extent, Failure, Hints, PartSpec, ReadOutcome, Refusal, Request, RequestId,
    Shard, Slot, StreamId, StreamSpec, ViewerId,
};
use headlong_player::{CallId, ObjectId};
use headlong_units::{ByteRange, Duration, Instant};

use crate::disk::Disk;
use crate::layout::Layout;

/// Bytes for a viewer, or the end of hope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The next bytes of a reply, to be handed to the viewer's socket.
    Piece(Piece),
    /// The reply will not be completed.
    Failed(Asker),
}

/// Some bytes of a reply, in memory that is lent to a socket.
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
}

#[derive(Debug)]
struct Reply {
    asker: Asker,
    asked_at: Instant,
    bytes: u64,
    bytes_left: u64,
    /// Handed to the socket and not yet taken by it.
    sending: Vec<Slot>,
}

/// The server in virtual time.
#[derive(Debug)]
pub(crate) struct Server {
    shard: Shard,
    disk: Disk,
    layout: Layout,
    bit_rates_known: bool,
    registered: BTreeSet<StreamId>,
    replies: BTreeMap<RequestId, Reply>,
    next_id: u64,
    outcomes: VecDeque<Outcome>,
    /// From asking until the first piece was there, and how many bytes had been asked for.
    waits: Vec<(Instant, Duration)>,
    checked: bool,
}

impl Server {
    pub(crate) fn new(
        shard: Shard,
        disk: Disk,
        layout: Layout,
        bit_rates_known: bool,
        checked: bool,
    ) -> Self {
        Self {
            shard,
            disk,
            layout,
            bit_rates_known,
            registered: BTreeSet::new(),
            replies: BTreeMap::new(),
            next_id: 0,
            outcomes: VecDeque::new(),
            waits: Vec::new(),
            checked,
        }
    }

    pub(crate) fn shard(&self) -> &Shard {
        &self.shard
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Replies in progress.
    pub(crate) fn reply_count(&self) -> usize {
        self.replies.len()
    }

    /// When each first piece was there, and how long it had been waited for.
    pub(crate) fn waits(&self) -> &[(Instant, Duration)] {
        &self.waits
    }

    /// A request arrives.
    ///
    /// # Errors
    /// The status of the reply that says no.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        asker: Asker,
        object: ObjectId,
        range: Option<ByteRange>,
    ) -> Result<RequestId, u16> {
        let Some(place) = self.layout.place(object) else {
            return Err(404);
        };
        let stream = StreamId(u64::from(object.0));
        let whole = ByteRange::new(0, place.size_bytes);
        let wanted = range.map_or(whole, |range| range.intersection(whole));
        if wanted.is_empty() {
            return Err(416);
        }
        if !self.registered.contains(&stream) {
            let extent = Extent {
                offset: 0,
                physical: place.physical,
                length: place.size_bytes,
            };
            let spec = StreamSpec {
                id: stream,
                parts: vec![PartSpec {
                    size_bytes: place.size_bytes,
                    extents: vec![extent],
                }],
                bit_rate: place.bit_rate.filter(|_| self.bit_rates_known),
            };
            self.shard.handle_stream(now, spec).map_err(|_| 503_u16)?;
            self.registered.insert(stream);
            self.settle(now);
        }
        let request = Request {
            viewer: ViewerId(u64::from(asker.session)),
            stream,
            part: 0,
            offset: wanted.start,
            length: wanted.len(),
            open_ended: range.is_none(),
            hints: Hints::default(),
        };
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let reply = Reply {
            asker,
            asked_at: now,
            bytes: wanted.len(),
            bytes_left: wanted.len(),
            sending: Vec::new(),
        };
        self.replies.insert(id, reply);
        let result = self.shard.handle_request(now, id, request);
        if result.is_err() {
            self.replies.remove(&id);
        }
        self.settle(now);
        result.map(|()| id).map_err(status_of)
    }

    /// The socket has taken a piece.
    pub(crate) fn taken(&mut self, now: Instant, request: RequestId, slot: Slot) {
        let Some(reply) = self.replies.get_mut(&request) else {
            return;
        };
        let Some(index) = reply.sending.iter().position(|sent| *sent == slot) else {
            return;
        };
        reply.sending.remove(index);
        if reply.sending.is_empty() && reply.bytes_left == 0 {
            self.replies.remove(&request);
        }
        self.shard.handle_sent(now, request, slot);
        self.settle(now);
    }

    /// The viewer has closed the connection that a reply was sent on.
    pub(crate) fn gone(&mut self, now: Instant, request: RequestId) {
        let Some(reply) = self.replies.remove(&request) else {
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

    /// Time passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.disk.poll_timeout().is_some_and(|at| at <= now) {
            self.disk.handle_timeout(now);
            self.settle(now);
        }
        if self.shard.poll_timeout().is_some_and(|at| at <= now) {
            self.shard.handle_timeout(now);
            self.settle(now);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let timeouts = [self.disk.poll_timeout(), self.shard.poll_timeout()];
        timeouts.into_iter().flatten().min()
    }

    pub(crate) fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// Does what the shard says until it has nothing to say.
    fn settle(&mut self, now: Instant) {
        loop {
            if let Some(command) = self.shard.poll_command() {
                self.obey(now, command);
            } else if let Some(event) = self.shard.poll_event() {
                self.pass_on(now, event);
            } else if let Some(read) = self.disk.poll_done() {
                self.shard.handle_read_done(now, read, ReadOutcome::Done);
            } else {
                break;
            }
        }
        if self.checked {
            self.shard.check_invariants();
        }
    }

    fn obey(&mut self, now: Instant, command: Command) {
        match command {
            Command::Read(read) => {
                let object = ObjectId(read.stream.0 as u32);
                let start = self.layout.place(object).map_or(0, |place| place.physical);
                self.disk
                    .submit(now, read.id, start + read.offset, read.length, read.opening);
            }
            Command::Forget(stream) => {
                self.registered.remove(&stream);
            }
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
                let Some(reply) = self.replies.get_mut(&request) else {
                    return self.shard.handle_sent(now, request, slot);
                };
                let is_first = reply.bytes_left == reply.bytes;
                if is_first {
                    self.waits.push((now, now.since(reply.asked_at)));
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
                if let Some(reply) = self.replies.get(&request) {
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
