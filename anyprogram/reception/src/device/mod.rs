//! The thread of one device, which drives the engine's shard as the server's device thread does.
//!
//! A slot of the engine's memory is a piece of a file in the page cache. It is held (mapped, and
//! locked if permitted) until the engine reassigns the slot; then its pages are dropped from the
//! page cache. So the engine's budget equals the memory of the pages, and its view of what is in
//! memory is correct. Releasing pages as soon as a program has requested them would be too early: a
//! server that sends a range at its client's pace returns to the rest of it for many seconds, in
//! which the kernel, whose active list is full of read pages, would have evicted them.
//!
//! Reads served from memory are reported by notes: the engine receives a request without a waiter,
//! so that it knows the program's progress.

mod host;
mod message;
mod streams;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration as Wall, Instant as Clock};

use headlong_device::{DeviceCore, ReadCompletion};
use headlong_engine::{ReadId, ReadOutcome, ReaderIdentity, Request, RequestId, Slot, ViewerId};
use headlong_protocol::Answer;
use headlong_units::{Duration, Instant};
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::file::{FileVersion, OpenFile, reopen};
use crate::held_pages::HeldPages;
use crate::inspection::{InspectionRequest, InspectionResult};
use crate::readers::{FileRange, FinishedRead, ReadJob};
use crate::settings::Mode;
use crate::stream::StreamFile;

use host::{PageCache, PageCacheHost};
pub(crate) use message::{
    DeviceMessage, DeviceProperties, InspectionSender, ReadNotice, ReadRequest, ThreadStart,
};

/// Interval of checks whether files changed, were deleted, or are no longer read.
const LOOK_INTERVAL: Wall = Wall::from_secs(1);

/// Unlocked pieces up to this far after a lost one are assumed to be lost, too. Reading one that is
/// still cached costs nothing.
const LOST_BYTES: u64 = 8 << 20;

/// State owned by the thread.
pub(crate) struct DeviceThread {
    core: DeviceCore<PageCache>,
    host: PageCacheHost,
    set_up: DeviceProperties,
    begun: Clock,
    looked: Clock,
    /// Calls on files whose extents are not known yet.
    describing: HashMap<FileVersion, (Arc<OpenFile>, Vec<ReadRequest>)>,
    next_id: u64,
    lost: u64,
}

impl DeviceThread {
    pub(crate) fn new(start: ThreadStart) -> Self {
        let ThreadStart {
            shard,
            readers,
            counters,
            set_up,
        } = start;
        let config = shard.config();
        let (slots, piece_bytes) = (config.slot_count() as usize, config.piece_bytes);
        Self {
            // Files are closed when they are no longer read.
            core: DeviceCore::new(shard, usize::MAX),
            host: PageCacheHost::new(readers, counters, slots, piece_bytes),
            set_up,
            begun: Clock::now(),
            looked: Clock::now(),
            describing: HashMap::new(),
            next_id: 0,
            lost: 0,
        }
    }

    /// Runs until `is_over`, which is checked every [`LOOK_INTERVAL`]. Waiting programs then
    /// continue without an answer.
    pub(crate) fn run(mut self, messages: &Receiver<DeviceMessage>) {
        while !self.set_up.is_over.load(Ordering::Relaxed) {
            let now = self.now();
            let due = self.core.due();
            let due = due.map_or(LOOK_INTERVAL, |due| self.wall(due.since(now)));
            match messages.recv_timeout(due.min(LOOK_INTERVAL)) {
                Ok(message) => self.handle(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = self.now();
            self.core.tick(now, &mut self.host);
            self.settle();
            if self.looked.elapsed() >= LOOK_INTERVAL {
                self.drop_stale_streams();
            }
        }
    }

    fn now(&self) -> Instant {
        let passed = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant(passed.saturating_mul(self.set_up.time_scale.into()))
    }

    /// Converts a duration of the engine's clock to wall time.
    fn wall(&self, model: Duration) -> Wall {
        Wall::from_nanos(model.0 / u64::from(self.set_up.time_scale.max(1)))
    }

    fn handle(&mut self, message: DeviceMessage) {
        match message {
            DeviceMessage::Ask(ask) => self.handle_ask(*ask),
            DeviceMessage::Note(note) => self.handle_note(note),
            DeviceMessage::Found(InspectionResult::File(version, parts, rest)) => {
                self.handle_described(version, parts, rest);
            }
            DeviceMessage::Found(InspectionResult::Rest(stream, parts, rest)) => {
                self.handle_followed(stream, parts, rest);
            }
            DeviceMessage::Done(FinishedRead::Read(id, outcome, held)) => {
                self.handle_read(id, outcome, held)
            }
            DeviceMessage::Done(FinishedRead::Plain { waiting, bytes }) => {
                self.host
                    .waiting
                    .brought(waiting, bytes, &self.host.counters);
            }
            DeviceMessage::Show(answer) => {
                let _ = answer.send(self.show());
            }
        }
    }

    fn handle_ask(&mut self, ask: ReadRequest) {
        if let Some(file) = self.host.by_version.get(&ask.version).copied() {
            return self.begin(file, ask);
        }
        if let Some((_, asks)) = self.describing.get_mut(&ask.version) {
            return asks.push(ask);
        }
        let file = match reopen(&ask.passed) {
            Ok(file) => file,
            // A temporary shortage.
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => return self.refuse(vec![ask]),
            Err(_) => {
                drop(ask.passed);
                let waited = ask.answering.answer(Answer::LeaveAlone);
                return self.host.counters.answered(Answer::LeaveAlone, waited);
            }
        };
        let (version, from_start) = (ask.version, ask.offset == 0);
        let open = Arc::new(OpenFile::passed(file, version));
        self.describing
            .insert(version, (Arc::clone(&open), vec![ask]));
        (self.set_up.describe)(InspectionRequest::File(open, from_start));
    }

    fn refuse(&mut self, asks: Vec<ReadRequest>) {
        for ask in asks {
            drop(ask.passed);
            let waited = ask.answering.answer(Answer::GoOn);
            self.host.counters.answered(Answer::GoOn, waited);
        }
    }

    /// A program waits for bytes of a known file.
    fn begin(&mut self, file: StreamFile, ask: ReadRequest) {
        let ReadRequest {
            passed,
            uid,
            offset,
            length,
            answering,
            ..
        } = ask;
        // Before the answer: closing the descriptor releases POSIX locks that the program holds.
        drop(passed);
        let id = self.fresh_id();
        let open = self.host.streams.get_mut(&file.0).and_then(|known| {
            known.last_asked = Clock::now();
            known.users.insert(uid);
            known.parts.get(file.1 as usize).map(Arc::clone)
        });
        self.look_ahead(file);
        self.host.waiting.begin(id, length, Some(answering));
        match (self.set_up.mode, open) {
            (Mode::Serialize, Some(open)) => {
                let run = FileRange {
                    open,
                    offset,
                    length,
                };
                self.host
                    .readers
                    .enqueue(ReadJob::Plain { waiting: id, run });
            }
            (_, Some(_)) => {
                self.lose(file, offset, length);
                self.request(id, file, uid, (offset, length));
            }
            (_, None) => self.host.waiting.fail(id, &self.host.counters),
        }
    }

    /// A program did not find bytes in memory: where pages are not locked, the kernel dropped them,
    /// and perhaps those that follow. The engine is notified, so that it reads them again in large
    /// runs.
    fn lose(&mut self, file: StreamFile, offset: u64, length: u64) {
        let piece_bytes = self.core.shard().config().piece_bytes;
        let first = offset / piece_bytes * piece_bytes;
        let behind = offset.saturating_add(length).saturating_add(LOST_BYTES);
        let range = self.host.by_place.range((file, first)..(file, behind));
        let is_locked = |slot: &Slot| {
            let piece = self.host.pieces[slot.0 as usize].as_ref();
            let held = piece.and_then(|piece| piece.held.as_ref());
            held.is_some_and(|held| held.is_locked)
        };
        let lost = range.filter(|(_, slot)| !is_locked(slot));
        let lost: Vec<_> = lost.map(|(key, slot)| (*key, *slot)).collect();
        for (key, slot) in lost {
            self.host.by_place.remove(&key);
            self.host.pieces[slot.0 as usize] = None;
            let now = self.now();
            self.core.shard_mut().handle_lost(now, slot);
            self.lost += 1;
        }
    }

    fn handle_note(&mut self, note: ReadNotice) {
        let file = self.host.by_key.get(&note.file).copied();
        let Some((file, known)) =
            file.and_then(|file| Some((file, self.host.streams.get_mut(&file.0)?)))
        else {
            return;
        };
        if self.set_up.mode != Mode::Full || !known.users.contains(&note.uid) {
            return;
        }
        known.last_asked = Clock::now();
        let size = known.parts.get(file.1 as usize);
        let size = size.map_or(0, |open| open.version.size);
        let length = note.length.min(size.saturating_sub(note.offset));
        self.look_ahead(file);
        if length > 0 {
            let id = self.fresh_id();
            self.host.waiting.begin(id, length, None);
            self.request(id, file, note.uid, (note.offset, length));
        }
    }

    fn request(
        &mut self,
        id: u64,
        (stream, part): StreamFile,
        uid: u32,
        (offset, length): (u64, u64),
    ) {
        // The reader is unknown: a sequence of reads counts as one reader.
        let viewer = ReaderIdentity::Unnamed {
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
            overlap_bytes: 0,
            holder: None,
            hints: Default::default(),
        };
        let now = self.now();
        let asked = (RequestId(id), request);
        let taken = self.core.request(now, &mut self.host, asked, ());
        if taken.is_err() {
            self.host.waiting.fail(id, &self.host.counters);
        }
        self.settle();
    }

    fn handle_read(&mut self, id: ReadId, outcome: ReadOutcome, held: Vec<HeldPages>) {
        let Some(stream) = self.host.end_read(id, outcome, held) else {
            return;
        };
        let completion = ReadCompletion {
            id,
            outcome,
            has_read_direct: false,
        };
        let now = self.now();
        self.core.handle_read_ended(now, &mut self.host, completion);
        self.settle();
        if outcome == ReadOutcome::Changed {
            self.give_up(stream);
        }
    }

    /// Executes the core's actions, and returns the pieces of requests: their bytes stay in the
    /// page cache.
    fn settle(&mut self) {
        let now = self.now();
        self.core.drain_queues(now, &mut self.host);
        while let Some((request, slot)) = self.host.taken.pop() {
            self.core.sent(now, &mut self.host, request, slot);
        }
    }

    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn show(&self) -> Value {
        let shard = self.core.shard();
        let (stats, memory, queue) = (shard.stats(), shard.memory_use(), shard.queue_use());
        let parts = self.host.streams.values().flat_map(|stream| &stream.parts);
        let files_open = parts.filter(|open| open.is_open()).count();
        let held = self.host.pieces.iter().flatten();
        let held = held.filter_map(|piece| Some((piece.held.as_ref()?, piece.run.length)));
        let (mut held_bytes, mut locked_bytes) = (0, 0);
        for (held, length) in held {
            held_bytes += length;
            locked_bytes += if held.is_locked { length } else { 0 };
        }
        json!({
            "name": self.set_up.name,
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
            "pieces_not_locked": self.host.unlocked,
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
