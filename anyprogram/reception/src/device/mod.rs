//! The thread of one device: it drives the engine's shard, as the server's does.
//!
//! The one idea: a slot of the engine's memory is a piece of a file in the page cache. It is held
//! (mapped, and locked where that is allowed) until the engine gives the slot to something else, and
//! then the kernel is told to drop its pages. So the engine's budget is what the pages take, and what
//! the engine takes to be in memory is there. Giving pages up as soon as a program has asked for
//! them would be too early: a server that sends a range as its client takes it comes back to the rest
//! of it for many seconds, in which the kernel, whose list of active pages is full of what was read,
//! would have evicted them.
//!
//! What a program reads without waiting is told by notes: a request that nobody waits for, so that
//! the engine knows how far the program is.

mod message;
mod streams;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration as Wall, Instant as Clock};

use headlong_engine::{
    Command, Event, Identity, ReadCommand, ReadId, ReadOutcome, Request, RequestId, Slot, StreamId,
    ViewerId,
};
use headlong_protocol::{Answer, FileKey};
use headlong_units::{Duration, Instant};
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::describe::{Found, Question};
use crate::file::{Open, Version, reopen};
use crate::hold::Held;
use crate::readers::{Done, Job, Run};
use crate::settings::Mode;
use crate::stream::{InStream, Stream};
use crate::waiting::AllWaiting;

pub(crate) use message::{Ask, Describe, Message, Note, Start};

/// How often files are looked at: whether they changed, went, or are read no more.
const LOOK_INTERVAL: Wall = Wall::from_secs(1);

/// So far behind what was dropped, what is not locked is taken to be dropped, too. What is there
/// all the same costs nothing to read.
const LOST_BYTES: u64 = 8 << 20;

/// What a slot of the engine's memory stands for.
#[derive(Debug)]
struct Piece {
    file: InStream,
    run: Run,
    /// Until it is read.
    held: Option<Held>,
}

/// A read that the readers are doing.
#[derive(Debug)]
struct Outstanding {
    file: InStream,
    slots: Vec<Slot>,
    run: Run,
}

/// Everything that the thread owns.
pub(crate) struct DeviceThread {
    start: Start,
    begun: Clock,
    looked: Clock,
    streams: HashMap<StreamId, Stream>,
    by_version: HashMap<Version, InStream>,
    by_key: HashMap<FileKey, InStream>,
    /// Asks for files of which nobody knows yet where they lie.
    describing: HashMap<Version, (Arc<Open>, Vec<Ask>)>,
    pieces: Vec<Option<Piece>>,
    /// The same by file and first byte.
    by_place: BTreeMap<(InStream, u64), Slot>,
    outstanding: HashMap<ReadId, Outstanding>,
    waiting: AllWaiting,
    next_id: u64,
    lost: u64,
    unlocked: u64,
}

impl DeviceThread {
    pub(crate) fn new(start: Start) -> Self {
        let slots = start.shard.config().slot_count() as usize;
        Self {
            start,
            begun: Clock::now(),
            looked: Clock::now(),
            streams: HashMap::new(),
            by_version: HashMap::new(),
            by_key: HashMap::new(),
            describing: HashMap::new(),
            pieces: std::iter::repeat_with(|| None).take(slots).collect(),
            by_place: BTreeMap::new(),
            outstanding: HashMap::new(),
            waiting: AllWaiting::default(),
            next_id: 0,
            lost: 0,
            unlocked: 0,
        }
    }

    /// Works until it is over, which is seen within [`LOOK_INTERVAL`]. Who waits then goes on by
    /// himself.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) {
        while !self.start.is_over.load(Ordering::Relaxed) {
            let now = self.now();
            let due = self.start.shard.poll_timeout();
            let due = due.map_or(LOOK_INTERVAL, |due| self.wall(due.since(now)));
            match messages.recv_timeout(due.min(LOOK_INTERVAL)) {
                Ok(message) => self.handle(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = self.now();
            if self
                .start
                .shard
                .poll_timeout()
                .is_some_and(|due| due <= now)
            {
                self.start.shard.handle_timeout(now);
                while self.start.shard.poll_size_change().is_some() {}
                self.settle();
            }
            if self.looked.elapsed() >= LOOK_INTERVAL {
                self.look();
            }
        }
    }

    fn now(&self) -> Instant {
        let passed = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant(passed.saturating_mul(self.start.time_scale.into()))
    }

    /// How long this machine waits for a time of the engine's clock.
    fn wall(&self, model: Duration) -> Wall {
        Wall::from_nanos(model.0 / u64::from(self.start.time_scale.max(1)))
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Ask(ask) => self.handle_ask(*ask),
            Message::Note(note) => self.handle_note(note),
            Message::Found(Found::File(version, parts, rest)) => {
                self.handle_described(version, parts, rest);
            }
            Message::Found(Found::Rest(stream, parts, rest)) => {
                self.handle_followed(stream, parts, rest);
            }
            Message::Done(Done::Read(id, outcome, held)) => self.handle_read(id, outcome, held),
            Message::Done(Done::Begun(id)) => {
                let now = self.now();
                self.start.shard.handle_read_begun(now, id);
            }
            Message::Done(Done::Plain { waiting, bytes }) => {
                self.waiting.brought(waiting, bytes, &self.start.counters);
            }
            Message::Show(answer) => {
                let _ = answer.send(self.show());
            }
        }
    }

    fn handle_ask(&mut self, ask: Ask) {
        if let Some(file) = self.by_version.get(&ask.version).copied() {
            return self.begin(file, ask);
        }
        if let Some((_, asks)) = self.describing.get_mut(&ask.version) {
            return asks.push(ask);
        }
        let file = match reopen(&ask.passed) {
            Ok(file) => file,
            // It will have some again.
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => return self.refuse(vec![ask]),
            Err(_) => {
                drop(ask.passed);
                let waited = ask.answering.answer(Answer::LeaveAlone);
                return self.start.counters.answered(Answer::LeaveAlone, waited);
            }
        };
        let (version, from_start) = (ask.version, ask.offset == 0);
        let open = Arc::new(Open::passed(file, version));
        self.describing
            .insert(version, (Arc::clone(&open), vec![ask]));
        (self.start.describe)(Question::File(open, from_start));
    }

    fn refuse(&mut self, asks: Vec<Ask>) {
        for ask in asks {
            drop(ask.passed);
            let waited = ask.answering.answer(Answer::GoOn);
            self.start.counters.answered(Answer::GoOn, waited);
        }
    }

    /// A program waits for bytes of a file that is open here.
    fn begin(&mut self, file: InStream, ask: Ask) {
        let Ask {
            passed,
            uid,
            offset,
            length,
            answering,
            ..
        } = ask;
        // Before the answer: a lock that the program has on its file ends with its descriptor.
        drop(passed);
        let id = self.fresh_id();
        let open = self.streams.get_mut(&file.0).and_then(|known| {
            known.last_asked = Clock::now();
            known.users.insert(uid);
            known.parts.get(file.1 as usize).map(Arc::clone)
        });
        self.look_ahead(file);
        self.waiting.begin(id, length, Some(answering));
        match (self.start.mode, open) {
            (Mode::Serialize, Some(open)) => {
                let run = Run {
                    open,
                    offset,
                    length,
                };
                self.start.readers.give(Job::Plain { waiting: id, run });
            }
            (_, Some(_)) => {
                self.lose(file, (offset, length));
                self.request(id, file, uid, (offset, length));
            }
            (_, None) => self.waiting.fail(id, &self.start.counters),
        }
    }

    /// A program did not find what it asks for: where nothing is locked, the kernel dropped it, and
    /// perhaps what lies behind it. The engine is told, so that it reads that again in large runs.
    fn lose(&mut self, file: InStream, (offset, length): (u64, u64)) {
        let piece_bytes = self.start.shard.config().piece_bytes;
        let first = offset / piece_bytes * piece_bytes;
        let behind = offset.saturating_add(length).saturating_add(LOST_BYTES);
        let range = self.by_place.range((file, first)..(file, behind));
        let is_locked = |slot: &Slot| {
            let piece = self.pieces[slot.0 as usize].as_ref();
            let held = piece.and_then(|piece| piece.held.as_ref());
            held.is_some_and(|held| held.is_locked)
        };
        let lost = range.filter(|(_, slot)| !is_locked(slot));
        let lost: Vec<_> = lost.map(|(key, slot)| (*key, *slot)).collect();
        for (key, slot) in lost {
            self.by_place.remove(&key);
            self.pieces[slot.0 as usize] = None;
            let now = self.now();
            self.start.shard.handle_lost(now, slot);
            self.lost += 1;
        }
    }

    fn handle_note(&mut self, note: Note) {
        let file = self.by_key.get(&note.file).copied();
        let Some((file, known)) =
            file.and_then(|file| Some((file, self.streams.get_mut(&file.0)?)))
        else {
            return;
        };
        if self.start.mode != Mode::Full || !known.users.contains(&note.uid) {
            return;
        }
        known.last_asked = Clock::now();
        let size = known.parts.get(file.1 as usize);
        let size = size.map_or(0, |open| open.version.size);
        let length = note.length.min(size.saturating_sub(note.offset));
        self.look_ahead(file);
        if length > 0 {
            let id = self.fresh_id();
            self.waiting.begin(id, length, None);
            self.request(id, file, note.uid, (note.offset, length));
        }
    }

    fn request(
        &mut self,
        id: u64,
        (stream, part): InStream,
        uid: u32,
        (offset, length): (u64, u64),
    ) {
        // Programs do not say for whom they read: what is read in sequence is one reader's.
        let viewer = Identity::Unnamed {
            origin: ViewerId(uid.into()),
            connection: None,
        };
        let request = Request {
            viewer,
            stream,
            part,
            offset,
            length,
            open_ended: false,
            holder: None,
            hints: Default::default(),
        };
        let now = self.now();
        let taken = self.start.shard.handle_request(now, RequestId(id), request);
        if taken.is_err() {
            self.waiting.fail(id, &self.start.counters);
        }
        self.settle();
    }

    fn handle_read(&mut self, id: ReadId, outcome: ReadOutcome, held: Vec<Held>) {
        let Some(read) = self.outstanding.remove(&id) else {
            return;
        };
        if outcome == ReadOutcome::Done && self.streams.contains_key(&read.file.0) {
            self.fill(&read, held);
        }
        let now = self.now();
        self.start.shard.handle_read_done(now, id, outcome);
        self.settle();
        if outcome == ReadOutcome::Changed {
            self.give_up(read.file.0);
        }
    }

    fn fill(&mut self, read: &Outstanding, held: Vec<Held>) {
        let piece_bytes = self.start.shard.config().piece_bytes;
        let mut held = held.into_iter();
        let mut offset = read.run.offset;
        let end = read.run.offset + read.run.length;
        for slot in &read.slots {
            let held = held.next();
            let is_locked = held.as_ref().is_some_and(|held| held.is_locked);
            self.unlocked += u64::from(!is_locked);
            let run = Run {
                open: Arc::clone(&read.run.open),
                offset,
                length: piece_bytes.min(end.saturating_sub(offset)),
            };
            if let Some(place) = self.pieces.get_mut(slot.0 as usize) {
                self.by_place.insert((read.file, offset), *slot);
                *place = Some(Piece {
                    file: read.file,
                    run,
                    held,
                });
            }
            offset += piece_bytes;
        }
    }

    /// Does what the shard says until it has nothing to say.
    fn settle(&mut self) {
        loop {
            if let Some(command) = self.start.shard.poll_command() {
                match command {
                    Command::Read(read) => self.read(read),
                    Command::Forget(stream) => self.forget(stream),
                    // The page cache is what it keeps things in.
                    Command::Flash(_) => {}
                    // Its shards are never told to give memory up.
                    Command::Vacate(_) => {}
                }
            } else if let Some(event) = self.start.shard.poll_event() {
                self.pass_on(event);
            } else {
                return;
            }
        }
    }

    fn read(&mut self, command: ReadCommand) {
        let file = (command.stream, command.part);
        let stream = self.streams.get(&command.stream);
        let open = stream.and_then(|stream| stream.parts.get(command.part as usize));
        let Some(open) = open else {
            let now = self.now();
            let outcome = ReadOutcome::Changed;
            return self.start.shard.handle_read_done(now, command.id, outcome);
        };
        let run = Run {
            open: Arc::clone(open),
            offset: command.offset,
            length: command.length,
        };
        let mut given_up = Vec::new();
        for slot in &command.slots {
            let place = self.pieces.get_mut(slot.0 as usize);
            // Dropping it ends its being held.
            let Some(piece) = place.and_then(Option::take) else {
                continue;
            };
            self.by_place.remove(&(piece.file, piece.run.offset));
            given_up.push(piece.run);
        }
        let read = Outstanding {
            file,
            slots: command.slots,
            run: run.clone(),
        };
        self.outstanding.insert(command.id, read);
        let id = command.id;
        self.start.readers.give(Job::Read {
            id,
            run,
            opening: command.opening,
            given_up,
        });
    }

    fn pass_on(&mut self, event: Event) {
        match event {
            Event::Ready {
                request,
                slot,
                start,
                end,
                ..
            } => {
                let now = self.now();
                self.start.shard.handle_sent(now, request, slot);
                let bytes = u64::from(end.saturating_sub(start));
                self.waiting.brought(request.0, bytes, &self.start.counters);
            }
            Event::Failed { request, .. } => self.waiting.fail(request.0, &self.start.counters),
        }
    }

    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn show(&self) -> Value {
        let shard = &self.start.shard;
        let (stats, memory, queue) = (shard.stats(), shard.memory_use(), shard.queue_use());
        let parts = self.streams.values().flat_map(|stream| &stream.parts);
        let files_open = parts.filter(|open| open.is_open()).count();
        let held = self.pieces.iter().flatten();
        let held = held.filter_map(|piece| Some((piece.held.as_ref()?, piece.run.length)));
        let (mut held_bytes, mut locked_bytes) = (0, 0);
        for (held, length) in held {
            held_bytes += length;
            locked_bytes += if held.is_locked { length } else { 0 };
        }
        json!({
            "name": self.start.name,
            "state": shard.device_state().name(),
            "files_open": files_open,
            "chains": shard.chain_count(),
            "jobs": queue.jobs,
            "outstanding_reads": queue.outstanding_reads,
            "prefetch_bytes": shard.control_view().bytes,
            "bytes_read": stats.bytes_read,
            "bytes_used": stats.bytes_sent,
            "bytes_prefetched_and_used": stats.bytes_from_ram,
            "bytes_evicted_unused": stats.prefetch_evicted_bytes + stats.wasted_bytes,
            "reads": stats.reads,
            "read_errors": stats.read_errors,
            "jobs_done": stats.jobs,
            "busy_seconds": stats.busy_time.as_secs_f64(),
            "pieces_lost": self.lost,
            "pieces_not_locked": self.unlocked,
            "memory": {
                "budget_bytes": shard.config().memory_bytes,
                "held_bytes": held_bytes,
                "locked_bytes": locked_bytes,
                "unread_bytes": memory.unread_bytes,
                "read_bytes": memory.read_bytes,
                "filling_bytes": memory.filling_bytes,
            },
        })
    }
}
