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

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration as Wall, Instant as Clock};

use headlong_engine::{
    Command, Event, Extent, Identity, PartSpec, ReadCommand, ReadId, ReadOutcome, Request,
    RequestId, Shard, Slot, StreamId, StreamSpec, ViewerId,
};
use headlong_protocol::{Answer, FileKey};
use headlong_units::{Duration, Instant};
use serde_json::{Value, json};

use crate::answering::Answering;
use crate::file::{Version, is_unchanged, reopen};
use crate::hold::Held;
use crate::readers::{Done, Job, Open, Readers, Run};
use crate::settings::Mode;
use crate::status::Counters;
use crate::waiting::AllWaiting;

/// How often files are looked at: whether they changed, went, or are read no more.
const LOOK_INTERVAL: Wall = Wall::from_secs(1);

/// So far behind what was dropped, what is not locked is taken to be dropped, too. What is there
/// all the same costs nothing to read.
const LOST_BYTES: u64 = 8 << 20;

/// What a program is about to read.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) passed: OwnedFd,
    pub(crate) version: Version,
    pub(crate) uid: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) answering: Answering,
}

/// What a program has read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Note {
    pub(crate) file: FileKey,
    pub(crate) uid: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Message {
    Ask(Box<Ask>),
    Note(Note),
    /// Where a file lies was found out.
    Described(Version, Vec<Extent>),
    Done(Done),
    /// How is it?
    Show(Sender<Value>),
}

/// A file that is read for programs.
#[derive(Debug)]
struct Stream {
    open: Arc<Open>,
    last_asked: Clock,
    /// Users that passed a descriptor of it, whose notes are believed.
    users: HashSet<u32>,
}

/// What a slot of the engine's memory stands for.
#[derive(Debug)]
struct Piece {
    stream: StreamId,
    run: Run,
    /// Until it is read.
    held: Option<Held>,
}

/// A read that the readers are doing.
#[derive(Debug)]
struct Outstanding {
    stream: StreamId,
    slots: Vec<Slot>,
    run: Run,
}

/// Whoever describes files: where they lie.
pub(crate) type Describe = Box<dyn Fn(Arc<Open>) + Send>;

/// What a thread is started with.
pub(crate) struct Start {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) keep_open: Duration,
    pub(crate) time_scale: u32,
    pub(crate) shard: Shard,
    pub(crate) readers: Readers,
    pub(crate) describe: Describe,
    pub(crate) counters: Arc<Counters>,
}

/// Everything that the thread owns.
pub(crate) struct DeviceThread {
    start: Start,
    begun: Clock,
    looked: Clock,
    streams: HashMap<StreamId, Stream>,
    by_version: HashMap<Version, StreamId>,
    by_key: HashMap<FileKey, StreamId>,
    /// Asks for files of which nobody knows yet where they lie.
    describing: HashMap<Version, (Arc<Open>, Vec<Ask>)>,
    pieces: Vec<Option<Piece>>,
    /// The same by stream and first byte.
    by_place: BTreeMap<(StreamId, u64), Slot>,
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

    /// Works until the process ends.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) {
        loop {
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
            Message::Described(version, extents) => self.handle_described(version, extents),
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
        if let Some(stream) = self.by_version.get(&ask.version).copied() {
            return self.begin(stream, ask);
        }
        if let Some((_, asks)) = self.describing.get_mut(&ask.version) {
            return asks.push(ask);
        }
        let Ok(file) = reopen(&ask.passed) else {
            let waited = ask.answering.answer(Answer::LeaveAlone);
            return self.start.counters.answered(Answer::LeaveAlone, waited);
        };
        let version = ask.version;
        let open = Arc::new(Open { file, version });
        self.describing
            .insert(version, (Arc::clone(&open), vec![ask]));
        (self.start.describe)(open);
    }

    fn handle_described(&mut self, version: Version, extents: Vec<Extent>) {
        let Some((open, asks)) = self.describing.remove(&version) else {
            return;
        };
        let stream = StreamId(self.fresh_id());
        let part = PartSpec {
            size_bytes: version.size,
            extents,
            flash_key: None,
            is_absent: false,
        };
        let spec = StreamSpec {
            id: stream,
            parts: vec![part],
            bit_rate: None,
        };
        // A new version takes the place of the old one.
        if let Some(old) = self.by_key.get(&version.key).copied() {
            self.give_up(old);
        }
        let now = self.now();
        if self.start.shard.handle_stream(now, spec).is_ok() {
            let known = Stream {
                open,
                last_asked: Clock::now(),
                users: HashSet::new(),
            };
            self.streams.insert(stream, known);
            self.by_version.insert(version, stream);
            self.by_key.insert(version.key, stream);
        }
        for ask in asks {
            self.begin(stream, ask);
        }
        self.settle();
    }

    /// A program waits for bytes of a file that is open here.
    fn begin(&mut self, stream: StreamId, ask: Ask) {
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
        let open = self.streams.get_mut(&stream).map(|known| {
            known.last_asked = Clock::now();
            known.users.insert(uid);
            Arc::clone(&known.open)
        });
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
                self.lose(stream, (offset, length));
                self.request(id, stream, uid, (offset, length));
            }
            (_, None) => self.waiting.fail(id, &self.start.counters),
        }
    }

    /// A program did not find what it asks for: where nothing is locked, the kernel dropped it, and
    /// perhaps what lies behind it. The engine is told, so that it reads that again in large runs.
    fn lose(&mut self, stream: StreamId, (offset, length): (u64, u64)) {
        let piece_bytes = self.start.shard.config().piece_bytes;
        let first = offset / piece_bytes * piece_bytes;
        let behind = offset.saturating_add(length).saturating_add(LOST_BYTES);
        let range = self.by_place.range((stream, first)..(stream, behind));
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
        let stream = self.by_key.get(&note.file).copied();
        let Some((stream, known)) =
            stream.and_then(|stream| Some((stream, self.streams.get_mut(&stream)?)))
        else {
            return;
        };
        if self.start.mode != Mode::Full || !known.users.contains(&note.uid) {
            return;
        }
        known.last_asked = Clock::now();
        let size = known.open.version.size;
        let length = note.length.min(size.saturating_sub(note.offset));
        if length > 0 {
            let id = self.fresh_id();
            self.waiting.begin(id, length, None);
            self.request(id, stream, note.uid, (note.offset, length));
        }
    }

    fn request(&mut self, id: u64, stream: StreamId, uid: u32, (offset, length): (u64, u64)) {
        // Programs do not say for whom they read: what is read in sequence is one reader's.
        let viewer = Identity::Unnamed {
            origin: ViewerId(uid.into()),
            connection: None,
        };
        let request = Request {
            viewer,
            stream,
            part: 0,
            offset,
            length,
            open_ended: false,
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
        if outcome == ReadOutcome::Done && self.streams.contains_key(&read.stream) {
            self.fill(&read, held);
        }
        let now = self.now();
        self.start.shard.handle_read_done(now, id, outcome);
        self.settle();
        if outcome == ReadOutcome::Changed {
            self.give_up(read.stream);
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
                self.by_place.insert((read.stream, offset), *slot);
                *place = Some(Piece {
                    stream: read.stream,
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
        let Some(stream) = self.streams.get(&command.stream) else {
            let now = self.now();
            let outcome = ReadOutcome::Changed;
            return self.start.shard.handle_read_done(now, command.id, outcome);
        };
        let run = Run {
            open: Arc::clone(&stream.open),
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
            self.by_place.remove(&(piece.stream, piece.run.offset));
            given_up.push(piece.run);
        }
        let read = Outstanding {
            stream: command.stream,
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

    /// The engine has forgotten a stream: its file is closed, and none of its pages held.
    fn forget(&mut self, stream: StreamId) {
        if let Some(known) = self.streams.remove(&stream) {
            let version = known.open.version;
            self.by_version.remove(&version);
            if self.by_key.get(&version.key) == Some(&stream) {
                self.by_key.remove(&version.key);
            }
        }
        let all = (stream, 0)..=(stream, u64::MAX);
        let places: Vec<_> = self
            .by_place
            .range(all)
            .map(|(key, slot)| (*key, *slot))
            .collect();
        for (key, slot) in places {
            self.by_place.remove(&key);
            self.pieces[slot.0 as usize] = None;
        }
    }

    fn give_up(&mut self, stream: StreamId) {
        let now = self.now();
        self.start.shard.handle_stream_gone(now, stream);
        self.settle();
    }

    /// Closes files that changed, have no name any more, or are read no more.
    fn look(&mut self) {
        self.looked = Clock::now();
        let keep_open = self.wall(self.start.keep_open);
        let is_over = |stream: &Stream| {
            stream.last_asked.elapsed() >= keep_open
                || !is_unchanged(&stream.open.file, &stream.open.version)
        };
        let streams = self.streams.iter();
        let over = streams.filter_map(|(id, stream)| is_over(stream).then_some(*id));
        let over: Vec<StreamId> = over.collect();
        for stream in over {
            self.give_up(stream);
        }
    }

    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn show(&self) -> Value {
        let shard = &self.start.shard;
        let (stats, memory, queue) = (shard.stats(), shard.memory_use(), shard.queue_use());
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
            "files_open": self.streams.len(),
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
