//! The thread of one device: it does what the shard says, and says what happened to the shard.
//!
//! A turn is: sleep; hand reads that ended and messages that came to the shard; after each of
//! them start the reads it orders and pass on the pieces it announces. The thread decides nothing
//! and waits for nothing but its one sleep.
//!
//! However it ends, by order, by an error or by a panic, the mailbox is closed first: replies
//! and requests end at once, and only then reads under way are waited for.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant as Clock;

use headlong_engine::{
    Command, DeviceState, EngineConfig, Event, Failure, ReadCommand, ReadId, ReadOutcome, Refusal,
    Request, RequestId, Shard, StreamId, StreamSpec,
};
use headlong_units::Instant;
use tokio::sync::mpsc;

use super::files::Files;
use super::io::{DiskIo, IoMode};
use super::learned::{self, Returning};
use super::mailbox::Mailbox;
use super::message::{Ask, Message};
use super::reply::{Piece, PieceInfo, Reply};
use super::transfer::{Completion, Plan, Read, Ticket};
use super::{DeviceSnapshot, StreamSource};
use crate::raw::Pool;
use crate::time_scale::TimeScale;

/// Most queue positions in a snapshot.
const QUEUE_POSITIONS_MAX: usize = 64;

/// Most chains in a snapshot.
const CHAINS_MAX: usize = 200;

/// What stays the same about a device as long as it runs.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) rotational: bool,
    pub(crate) capacity_bytes: u64,
}

/// Closes the mailbox when the thread ends.
struct Closer(Arc<Mailbox<Message>>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A reply that has bytes to come.
struct Waiting {
    // What waits in it is bounded by the reply's send window.
    pieces: mpsc::UnboundedSender<Result<Piece, Failure>>,
    bytes_left: u64,
    stream: StreamId,
    part: u32,
}

/// Everything the thread owns, in the order in which it is let go.
pub(crate) struct DeviceThread {
    mailbox: Closer,
    replies: HashMap<RequestId, Waiting>,
    shard: Shard,
    identity: Identity,
    config: EngineConfig,
    start: Clock,
    time_scale: TimeScale,
    sources: HashMap<StreamId, Arc<dyn StreamSource>>,
    /// How many replies run on a stream.
    running: HashMap<StreamId, u32>,
    /// Streams that no path leads to any more and that replies still run on.
    gone: HashSet<StreamId>,
    pool: Arc<Pool>,
    completions: Arc<Mailbox<Completion>>,
    impossible_reads: Vec<ReadId>,
    files: Arc<Files>,
    io: Box<dyn DiskIo>,
    state: DeviceState,
    is_offline: Arc<AtomicBool>,
    returning: Returning,
}

/// What a thread is started with.
pub(crate) struct Start {
    pub(crate) identity: Identity,
    pub(crate) config: EngineConfig,
    pub(crate) time_scale: TimeScale,
    pub(crate) shard: Shard,
    pub(crate) pool: Arc<Pool>,
    pub(crate) files: Arc<Files>,
    pub(crate) io: Box<dyn DiskIo>,
    pub(crate) completions: Arc<Mailbox<Completion>>,
    pub(crate) mailbox: Arc<Mailbox<Message>>,
    /// Kept up to date for those who must not ask the disk anything while it is out of service.
    pub(crate) is_offline: Arc<AtomicBool>,
    /// Viewers of the process before.
    pub(crate) returning: Returning,
}

impl DeviceThread {
    pub(crate) fn new(start: Start) -> Self {
        Self {
            mailbox: Closer(start.mailbox),
            replies: HashMap::new(),
            shard: start.shard,
            identity: start.identity,
            config: start.config,
            start: Clock::now(),
            time_scale: start.time_scale,
            sources: HashMap::new(),
            running: HashMap::new(),
            gone: HashSet::new(),
            pool: start.pool,
            completions: start.completions,
            impossible_reads: Vec::new(),
            files: start.files,
            io: start.io,
            state: DeviceState::Online,
            is_offline: start.is_offline,
            returning: start.returning,
        }
    }

    /// Works until it is told to end.
    ///
    /// # Errors
    /// If it can read no more.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut completions = Vec::new();
        let mut begun = Vec::new();
        let mut messages = Vec::new();
        let mut now = self.now();
        loop {
            let timeout = self.timeout(now);
            self.io.wait(timeout, &mut completions)?;
            now = self.now();
            self.mailbox.0.take(&mut messages);
            self.io.take_begun(&mut begun);
            for id in begun.drain(..) {
                self.shard.handle_read_begun(now, id);
                self.settle(now);
            }
            for Completion { id, outcome } in completions.drain(..) {
                self.shard.handle_read_done(now, id, outcome);
                self.settle(now);
            }
            for message in messages.drain(..) {
                if matches!(message, Message::Shutdown) {
                    return Ok(());
                }
                self.handle(now, message);
                self.settle(now);
            }
            if self.shard.poll_timeout().is_some_and(|due| due <= now) {
                self.shard.handle_timeout(now);
                self.settle(now);
                self.announce_sizes();
            }
        }
    }

    /// Model time since the start of the thread, on a clock that never goes back.
    fn now(&self) -> Instant {
        Instant(self.time_scale.model(self.start.elapsed()).0)
    }

    fn timeout(&self, now: Instant) -> Option<std::time::Duration> {
        let due = self.shard.poll_timeout()?;
        (due < Instant::NEVER).then(|| self.time_scale.wall(due.since(now)))
    }

    fn handle(&mut self, now: Instant, message: Message) {
        match message {
            Message::Request(ask) => self.handle_ask(now, *ask),
            Message::Sent { request, slot } => self.shard.handle_sent(now, request, slot),
            Message::Cancel(request) => {
                self.shard.handle_cancel(now, request);
                self.end_reply(now, request);
            }
            Message::BitRate(stream, rate) => self.shard.handle_bit_rate(now, stream, rate),
            // What has begun with an open version is finished from it.
            Message::Gone(stream) if self.running.contains_key(&stream) => {
                self.gone.insert(stream);
            }
            Message::Gone(stream) => self.shard.handle_stream_gone(now, stream),
            Message::Configure(config, answer) => {
                let result = self.shard.handle_config(now, *config);
                if result.is_ok() {
                    // The pool is what it is; the shard keeps its size too.
                    let EngineConfig {
                        piece_bytes,
                        memory_bytes,
                        ..
                    } = self.config;
                    self.config = EngineConfig {
                        piece_bytes,
                        memory_bytes,
                        ..*config
                    };
                }
                let _ = answer.send(result);
            }
            Message::Snapshot(answer) => {
                let _ = answer.send(self.snapshot());
            }
            Message::Learned(answer) => {
                let _ = answer.send(learned::tell(&self.shard, &self.sources));
            }
            Message::Shutdown => {}
        }
    }

    fn handle_ask(&mut self, now: Instant, ask: Ask) {
        let Ask {
            id,
            request,
            register,
            answer,
        } = ask;
        let taken_on = self
            .register(now, register)
            .and_then(|()| self.shard.handle_request(now, id, request));
        let reply = taken_on.map(|()| {
            let (pieces, receiver) = mpsc::unbounded_channel();
            if request.length > 0 {
                self.begin_reply(id, &request, pieces);
            }
            let chain = self.shard.chain_of(id);
            let mailbox = Arc::clone(&self.mailbox.0);
            Reply::new(id, request.length, receiver, mailbox).in_chain(chain)
        });
        let is_begun = reply.is_ok();
        // A reply that comes back is dropped, and cancels itself.
        let _ = answer.send(reply);
        // What it reads comes first.
        self.settle(now);
        if is_begun
            && self.replies.contains_key(&id)
            && let Some(source) = self.sources.get(&request.stream)
        {
            self.files.open_ahead(source, request.stream, request.part);
        }
    }

    fn begin_reply(
        &mut self,
        id: RequestId,
        request: &Request,
        pieces: mpsc::UnboundedSender<Result<Piece, Failure>>,
    ) {
        let (stream, part) = (request.stream, request.part);
        let waiting = Waiting {
            pieces,
            bytes_left: request.length,
            stream,
            part,
        };
        self.replies.insert(id, waiting);
        *self.running.entry(stream).or_insert(0) += 1;
        self.files.pin(stream, part);
    }

    /// A reply has all its bytes, or gets no more.
    fn end_reply(&mut self, now: Instant, request: RequestId) {
        let Some(Waiting { stream, part, .. }) = self.replies.remove(&request) else {
            return;
        };
        self.files.unpin(stream, part);
        let running = self.running.entry(stream).or_insert(1);
        *running -= 1;
        if *running == 0 {
            self.running.remove(&stream);
            if self.gone.remove(&stream) {
                self.shard.handle_stream_gone(now, stream);
            }
        }
    }

    fn register(
        &mut self,
        now: Instant,
        register: Option<(StreamSpec, Arc<dyn StreamSource>)>,
    ) -> Result<(), Refusal> {
        let Some((spec, source)) = register else {
            return Ok(());
        };
        let stream = spec.id;
        // Several requests may have found the stream unknown; a name is registered once.
        if self.sources.contains_key(&stream) {
            return Ok(());
        }
        self.shard.handle_stream(now, spec)?;
        self.returning
            .welcome((now, self.time_scale), &mut self.shard, stream, &*source);
        self.files.remember(stream);
        self.sources.insert(stream, source);
        Ok(())
    }

    /// Does what the shard says until it has nothing to say.
    fn settle(&mut self, now: Instant) {
        loop {
            if let Some(command) = self.shard.poll_command() {
                match command {
                    Command::Read(read) => self.read(read),
                    Command::Forget(stream) => {
                        self.sources.remove(&stream);
                        self.files.forget(stream);
                    }
                }
            } else if let Some(event) = self.shard.poll_event() {
                self.pass_on(now, event);
            } else if let Some(read) = self.impossible_reads.pop() {
                self.shard.handle_read_done(now, read, ReadOutcome::Error);
            } else {
                break;
            }
        }
        let state = self.shard.device_state();
        if state != self.state {
            self.announce(state);
        }
    }

    /// Says what the controller of the prefetch size does, and why.
    fn announce_sizes(&mut self) {
        while let Some(change) = self.shard.poll_size_change() {
            let device = &self.identity.name;
            tracing::info!(device, reason = change.reason.name(), "{change}");
        }
    }

    /// Says that the health of the device changed.
    fn announce(&mut self, state: DeviceState) {
        let (device, before) = (&self.identity.name, self.state.name());
        let errors = self.shard.stats().read_errors;
        match state {
            DeviceState::Online => tracing::info!(device, before, "the device is online again"),
            DeviceState::Failing => tracing::warn!(device, before, errors, "the device is failing"),
            DeviceState::Offline => tracing::error!(
                device,
                before,
                errors,
                "the device is offline: requests that need it are refused until it answers"
            ),
        }
        self.state = state;
        self.is_offline
            .store(state == DeviceState::Offline, Ordering::Relaxed);
    }

    fn read(&mut self, command: ReadCommand) {
        let ReadCommand {
            id,
            stream,
            part,
            offset,
            length,
            slots,
            opening,
        } = command;
        let lease = self
            .pool
            .lease(&slots)
            .filter(|lease| lease.capacity() >= length);
        let (Some(lease), Some(source)) = (lease, self.sources.get(&stream)) else {
            let device = &self.identity.name;
            tracing::error!(
                device,
                ?id,
                ?stream,
                "a read names memory that is in use, or an unknown stream; it fails"
            );
            self.impossible_reads.push(id);
            return;
        };
        let plan = Plan {
            source: Arc::clone(source),
            stream,
            part,
            offset,
            length,
            opening,
            ticket: Ticket::new(id, &self.completions),
        };
        self.io.submit(Read { lease, plan });
    }

    fn pass_on(&mut self, now: Instant, event: Event) {
        match event {
            Event::Ready {
                request,
                slot,
                start,
                end,
                from_ram,
                queue_time,
                disk_time,
            } => {
                let Some(waiting) = self.replies.get_mut(&request) else {
                    // Nobody listens, which the shard should know; the slot must not be lost.
                    return self.shard.handle_sent(now, request, slot);
                };
                let Some(view) = self.pool.view(slot, start, end) else {
                    let device = &self.identity.name;
                    tracing::error!(device, ?request, ?slot, "piece is still being filled");
                    let _ = waiting.pieces.send(Err(Failure::Device));
                    self.shard.handle_cancel(now, request);
                    self.end_reply(now, request);
                    return self.shard.handle_sent(now, request, slot);
                };
                let info = PieceInfo {
                    from_ram,
                    queue_time,
                    disk_time,
                };
                let mailbox = Arc::clone(&self.mailbox.0);
                let piece = Piece::new(view, info, (request, slot), mailbox);
                waiting.bytes_left = waiting.bytes_left.saturating_sub(u64::from(end - start));
                // A piece that comes back is dropped, and counts as sent.
                let _ = waiting.pieces.send(Ok(piece));
                if waiting.bytes_left == 0 {
                    self.end_reply(now, request);
                }
            }
            Event::Failed { request, failure } => {
                if let Some(waiting) = self.replies.get(&request) {
                    let _ = waiting.pieces.send(Err(failure));
                }
                self.end_reply(now, request);
            }
        }
    }

    fn snapshot(&self) -> DeviceSnapshot {
        let Identity {
            name,
            roots,
            rotational,
            capacity_bytes,
        } = self.identity.clone();
        let control = self.shard.control_view();
        let mut config = self.config;
        config.sizing.reference_bytes = control.bytes;
        DeviceSnapshot {
            name,
            roots,
            rotational,
            io: io_name(self.io.mode(), self.files.is_direct()),
            capacity_bytes,
            state: self.shard.device_state(),
            config,
            control: Some(control),
            stats: self.shard.stats(),
            stats_by_policy: self.shard.stats_by_policy(),
            memory: self.shard.memory_use(),
            queue: self.shard.queue_use(),
            queue_positions: self.shard.queue_positions(QUEUE_POSITIONS_MAX),
            chain_count: self.shard.chain_count(),
            chains: self.shard.chain_views(CHAINS_MAX),
            learned_age: self.returning.age(),
        }
    }
}

/// How a device is read, for people.
fn io_name(mode: IoMode, direct: bool) -> &'static str {
    match (mode, direct) {
        (IoMode::Pread, true) => "pread, O_DIRECT",
        (IoMode::Pread, false) => "pread, buffered",
        (_, true) => "io_uring, O_DIRECT",
        (_, false) => "io_uring, buffered",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::mailbox::Waker;
    use crate::disk::rig::{FileSource, Scratch};
    use headlong_engine::{Hints, Identity as Who, ViewerId};
    use std::time::Duration;
    use tokio::sync::oneshot;

    /// Reads like this end the thread in the middle of a turn.
    struct PanickingIo;

    impl DiskIo for PanickingIo {
        fn submit(&mut self, _read: Read) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }

        fn wait(&mut self, _: Option<Duration>, _: &mut Vec<Completion>) -> io::Result<()> {
            std::thread::yield_now();
            Ok(())
        }

        fn mode(&self) -> IoMode {
            IoMode::Pread
        }
    }

    #[test]
    fn a_thread_that_panics_leaves_nobody_waiting() {
        let scratch = Scratch::new();
        let source: Arc<dyn StreamSource> = Arc::new(FileSource::new(1, [scratch.file("a", b"a")]));
        let config = EngineConfig::default();
        let waker = Waker::new().expect("eventfd");
        let mailbox = Mailbox::new(Arc::clone(&waker));
        let start = Start {
            identity: Identity {
                name: "test".to_owned(),
                roots: Vec::new(),
                rotational: true,
                capacity_bytes: 0,
            },
            config,
            time_scale: TimeScale::ONE,
            shard: Shard::new(config).expect("sound"),
            pool: Pool::new(8, 4096).expect("maps"),
            files: Files::new("test", 8).expect("starts"),
            io: Box::new(PanickingIo),
            completions: Mailbox::new(waker),
            mailbox: Arc::clone(&mailbox),
            is_offline: Arc::new(AtomicBool::new(false)),
            returning: Returning::default(),
        };
        let thread = std::thread::spawn(|| DeviceThread::new(start).run());
        let (answer, answered) = oneshot::channel();
        mailbox.post(Message::Request(Box::new(Ask {
            id: RequestId(1),
            request: Request {
                viewer: Who::Named(ViewerId(1)),
                stream: StreamId(1),
                part: 0,
                offset: 0,
                length: 1,
                open_ended: false,
                hints: Hints::default(),
            },
            register: Some((source.spec(), source)),
            answer,
        })));
        let mut reply = answered
            .blocking_recv()
            .expect("answered")
            .expect("taken on");
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(thread.join().is_err(), "it panicked");
        let next = reply.poll_next(&mut context);
        assert!(matches!(
            next,
            std::task::Poll::Ready(Some(Err(Failure::Offline)))
        ));
        let (answer, answered) = oneshot::channel();
        mailbox.post(Message::Snapshot(answer));
        assert!(answered.blocking_recv().is_err(), "dropped, not kept");
    }
}
