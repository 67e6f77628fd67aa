//! What one device knows and decides, with nothing in it that waits.
//!
//! The shard's commands become reads to be started, its events become pieces of replies. Whoever
//! holds the [`Link`]'s lock may call this: the device's own thread, or a connection that has a
//! request or gives back a piece.
//!
//! Invariants: no call blocks; after each of them the shard has nothing more to say; every piece
//! handed out is returned to the shard exactly once.
//!
//! [`Link`]: super::link::Link

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant as Clock;

use headlong_engine::{
    Command, DeviceState, EngineConfig, Failure, ReadCommand, ReadId, ReadOutcome, Refusal,
    Request, RequestId, Shard, Slot, StreamId, StreamSpec,
};
use headlong_flash::Probed;
use headlong_units::Instant;
use tokio::sync::{mpsc, oneshot};

use super::StreamSource;
use super::files::Files;
use super::io::IoMode;
use super::learned::{self, Returning};
use super::mailbox::Mailbox;
use super::message::{Ask, Message};
use super::passing_on::{self, Arrivals};
use super::reply::{Piece, Receiver, Reply};
use super::transfer::{Completion, Plan, Read, Ticket};
use crate::flash::{FlashDone, FlashParts, FlashPort};
use crate::raw::Pool;
use crate::time_scale::TimeScale;

mod announcing;
mod replies;
mod snapshot;
mod waiting;

use waiting::Waiting;

/// What stays the same about a device as long as it runs.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) rotational: bool,
    pub(crate) capacity_bytes: u64,
}

/// What an engine is made of.
pub(crate) struct EngineParts {
    pub(crate) identity: Identity,
    pub(crate) config: EngineConfig,
    pub(crate) time_scale: TimeScale,
    pub(crate) shard: Shard,
    pub(crate) pool: Arc<Pool>,
    pub(crate) files: Arc<Files>,
    pub(crate) io_mode: IoMode,
    pub(crate) completions: Arc<Mailbox<Completion>>,
    /// Kept up to date for those who must not ask the disk anything while it is out of service.
    pub(crate) is_offline: Arc<AtomicBool>,
    /// The way to its part of the flash tier.
    pub(crate) flash: Option<FlashPort>,
    /// Viewers of the process before.
    pub(crate) returning: Returning,
}

/// A device's state, in the order in which it is let go.
pub(crate) struct DeviceEngine {
    replies: HashMap<RequestId, Waiting>,
    start: Clock,
    sources: HashMap<StreamId, Arc<dyn StreamSource>>,
    /// How many replies run on a stream.
    running: HashMap<StreamId, u32>,
    /// Streams that no path leads to any more and that replies still run on; whether files of them are
    /// in others now.
    gone: HashMap<StreamId, bool>,
    impossible_reads: Vec<ReadId>,
    /// Reads that the device's thread is to start.
    submits: Vec<Read>,
    state: DeviceState,
    parts: EngineParts,
    /// Who is told what became of pieces and replies.
    receiver: Arc<dyn Receiver>,
    /// What is there for the reply that is being made.
    ready: VecDeque<Result<Piece, Failure>>,
    /// Who wants to know when memory has gone back to the system.
    vacated: Option<oneshot::Sender<()>>,
    /// What the process before had in memory.
    arrivals: Arrivals,
}

impl DeviceEngine {
    pub(crate) fn new(parts: EngineParts, receiver: Arc<dyn Receiver>) -> Self {
        Self {
            replies: HashMap::new(),
            start: Clock::now(),
            sources: HashMap::new(),
            running: HashMap::new(),
            gone: HashMap::new(),
            impossible_reads: Vec::new(),
            submits: Vec::new(),
            state: DeviceState::Online,
            parts,
            receiver,
            ready: VecDeque::new(),
            vacated: None,
            arrivals: Arrivals::default(),
        }
    }

    /// Model time since the start of the device, on a clock that never goes back.
    pub(crate) fn now(&self) -> Instant {
        Instant(self.parts.time_scale.model(self.start.elapsed()).0)
    }

    /// Real time from `now` to `due`; `None` if that is never.
    pub(crate) fn wall_until(&self, now: Instant, due: Instant) -> Option<std::time::Duration> {
        (due < Instant::NEVER).then(|| self.parts.time_scale.wall(due.since(now)))
    }

    /// When [`DeviceEngine::tick`] has something to do without anybody's asking.
    pub(crate) fn due(&self) -> Instant {
        let due = [self.parts.shard.poll_timeout(), self.arrivals.until()];
        due.into_iter().flatten().min().unwrap_or(Instant::NEVER)
    }

    /// The reads to start now, into `submits`, which is to be empty.
    pub(crate) fn take_submits(&mut self, submits: &mut Vec<Read>) {
        debug_assert!(submits.is_empty());
        std::mem::swap(&mut self.submits, submits);
    }

    /// Whether there are reads to start.
    pub(crate) fn has_submits(&self) -> bool {
        !self.submits.is_empty()
    }

    /// A read's first bytes have come.
    pub(crate) fn read_begun(&mut self, now: Instant, id: ReadId) {
        self.parts.shard.handle_read_begun(now, id);
        self.settle(now);
    }

    /// A read has ended.
    pub(crate) fn read_done(&mut self, now: Instant, Completion { id, outcome }: Completion) {
        self.parts.shard.handle_read_done(now, id, outcome);
        self.settle(now);
    }

    /// Does what is due by now.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.due() <= now {
            if self.arrivals.until().is_some_and(|until| until <= now) {
                self.arrivals.end(now, &mut self.parts.shard);
            }
            self.parts.shard.handle_timeout(now);
            self.settle(now);
            self.announce_sizes();
        }
    }

    /// A piece was taken by a socket, or dropped.
    pub(crate) fn sent(&mut self, now: Instant, request: RequestId, slot: Slot) {
        self.parts.shard.handle_sent(now, request, slot);
        self.settle(now);
    }

    /// A reply was dropped.
    pub(crate) fn cancel(&mut self, now: Instant, request: RequestId) {
        self.parts.shard.handle_cancel(now, request);
        self.end_reply(now, request);
        self.settle(now);
    }

    /// Takes in what others say.
    pub(crate) fn handle(&mut self, now: Instant, message: Message) {
        match message {
            Message::Request(ask) => {
                let Ask {
                    id,
                    request,
                    register,
                    answer,
                } = *ask;
                // A reply that comes back is dropped, and cancels itself.
                let _ = answer.send(self.ask(now, (id, request), register));
            }
            Message::Expect(expect) => {
                let told = self.register(now, expect.register);
                let told = told.and_then(|()| {
                    let shard = &mut self.parts.shard;
                    shard.handle_expected(now, expect.expected)
                });
                let _ = expect.answer.send(told);
            }
            Message::Sent { request, slot } => return self.sent(now, request, slot),
            Message::Cancel(request) => return self.cancel(now, request),
            Message::BitRate(stream, rate) => self.parts.shard.handle_bit_rate(now, stream, rate),
            Message::Part(stream, part, spec) => {
                if spec.is_absent {
                    self.parts.files.close_part(stream, part);
                }
                self.parts.shard.handle_part(now, stream, part, *spec);
            }
            // What has begun with an open version is finished from it.
            Message::Gone(stream, is_regrouped) if self.running.contains_key(&stream) => {
                self.gone.insert(stream, is_regrouped);
            }
            Message::Gone(stream, is_regrouped) => self.forget(now, stream, is_regrouped),
            Message::Configure(config, answer) => {
                let result = self.parts.shard.handle_config(now, *config);
                if result.is_ok() {
                    // The pool is what it is; the shard keeps its size too.
                    let EngineConfig {
                        piece_bytes,
                        memory_bytes,
                        ..
                    } = self.parts.config;
                    self.parts.config = EngineConfig {
                        piece_bytes,
                        memory_bytes,
                        ..*config
                    };
                }
                let _ = answer.send(result);
            }
            Message::Flash(done) => self.flash_done(now, done),
            Message::Snapshot(answer) => {
                let _ = answer.send(self.snapshot());
            }
            Message::Learned(answer) => {
                let _ = answer.send(learned::tell(&self.parts.shard, &self.sources));
            }
            Message::Returning(told) => self.parts.returning = Returning::new(Some(&told)),
            Message::Retire(retires, done) => {
                self.parts.shard.handle_retiring(now, retires);
                self.vacated = Some(done);
            }
            Message::Replaced => self.parts.shard.handle_replaced(now),
            Message::PassOn(answer) => {
                let parts = &mut self.parts;
                let arrivals = &mut self.arrivals;
                let leaving = passing_on::take_out(now, &mut parts.shard, &parts.pool, arrivals);
                if let Err(left) = answer.send(leaving) {
                    let slots: Vec<Slot> = left.into_iter().map(|piece| piece.slot).collect();
                    parts.shard.handle_passed_on(now, &slots);
                }
            }
            Message::PassedOn(slots) => self.parts.shard.handle_passed_on(now, &slots),
            Message::Arrived(pieces, taken) => {
                let parts = &mut self.parts;
                let mut taken_bytes = 0;
                for piece in pieces {
                    let to = (&mut parts.shard, &parts.pool);
                    let streams = self.sources.keys().copied();
                    let bytes = piece.bytes.len() as u64;
                    if self.arrivals.take(now, to, streams, piece) {
                        taken_bytes += bytes;
                    }
                }
                // Who brought them may be gone.
                let _ = taken.send(taken_bytes);
            }
            Message::TakeFlash(part, say) if self.parts.flash.is_none() => {
                let pool = Arc::clone(&self.parts.pool);
                self.parts.flash = Some(FlashPort::new(FlashParts { part, pool, say }));
            }
            Message::TakeFlash(..) => {}
            Message::LeaveFlash => {
                let flash = self.parts.flash.take();
                for ssd in flash.iter().flat_map(FlashPort::ssds) {
                    self.parts.shard.detach_flash(now, ssd);
                }
            }
        }
        self.settle(now);
    }

    /// Something asked of flash has ended.
    fn flash_done(&mut self, now: Instant, done: FlashDone) {
        let shard = &mut self.parts.shard;
        match done {
            // It was let go while it was looked at.
            FlashDone::Attach(_) | FlashDone::Found(_) | FlashDone::RecoveryEnded { .. }
                if self.parts.flash.is_none() => {}
            FlashDone::Attach(spec) => {
                if let Err(error) = shard.attach_flash(now, &spec, Vec::new()) {
                    let device = &self.parts.identity.name;
                    tracing::error!(device, %error, "flash takes no part");
                }
            }
            FlashDone::Found(mut found) => {
                if let Some(flash) = &mut self.parts.flash {
                    flash.found(&found);
                }
                shard.handle_flash_recovered(now, std::mem::take(&mut found.blocks));
            }
            FlashDone::RecoveryEnded {
                written_bytes,
                fresh,
            } => {
                shard.handle_flash_recovery_ended(now, written_bytes, &fresh);
                let records = shard.flash_view().map_or(0, |view| view.records);
                let device = &self.parts.identity.name;
                tracing::info!(
                    device,
                    records,
                    "flash takes part; so many records were there"
                );
            }
            FlashDone::Written { block, to, ok } => shard.handle_flash_written(now, block, to, ok),
            FlashDone::Sealed { block, ok } => shard.handle_flash_sealed(now, block, ok),
            FlashDone::Read { id, outcomes, took } => {
                let took = self.parts.time_scale.model(took);
                shard.handle_flash_read_done(now, id, &outcomes, Some(took));
            }
            FlashDone::Probed { ssd, probed, took } => {
                let took = Some(self.parts.time_scale.model(took));
                shard.handle_flash_probed(now, ssd, Probed { took, ..probed });
            }
        }
    }

    /// Takes on a request, of a stream that is registered first if it is given.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        (id, request): (RequestId, Request),
        register: Option<(StreamSpec, Arc<dyn StreamSource>)>,
    ) -> Result<Reply, Refusal> {
        // Before anything has to go for this request.
        let used = self.parts.pool.take_used();
        if !used.is_empty() {
            self.parts.shard.handle_used(now, &used);
        }
        let taken_on = self
            .register(now, register)
            .and_then(|()| self.parts.shard.handle_request(now, id, request));
        let chain = taken_on.map(|()| {
            if request.length > 0 {
                self.begin_reply(id, &request);
            }
            self.parts.shard.chain_of(id)
        });
        // What it reads comes first.
        self.settle(now);
        let (pool, stream) = (&self.parts.pool, request.stream);
        if chain.is_ok()
            && pool.asks_for(stream)
            && let (part, offset) = (request.part, request.offset)
            && let Some(of_it) = self.parts.shard.in_memory_around(stream, part, offset)
        {
            pool.set_resident(stream, of_it);
        }
        let reply = chain.map(|chain| {
            let ready = std::mem::take(&mut self.ready);
            let pieces = self.replies.get_mut(&id).map(|waiting| {
                let (pieces, receiver) = mpsc::unbounded_channel();
                waiting.pieces = Some(pieces);
                receiver
            });
            let device = Arc::clone(&self.receiver);
            Reply::new(id, request.length, ready, pieces, device).in_chain(chain)
        });
        if reply.is_ok()
            && self.replies.contains_key(&id)
            && let Some(source) = self.sources.get(&request.stream)
        {
            let (stream, part) = (request.stream, request.part);
            self.parts.files.open_ahead(source, stream, part);
        }
        reply
    }

    /// No path leads to a stream any more.
    fn forget(&mut self, now: Instant, stream: StreamId, is_regrouped: bool) {
        match is_regrouped {
            true => self.parts.shard.handle_stream_regrouped(now, stream),
            false => self.parts.shard.handle_stream_gone(now, stream),
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
        let parts = &mut self.parts;
        parts.shard.handle_stream(now, spec)?;
        parts
            .returning
            .welcome((now, parts.time_scale), &mut parts.shard, stream, &*source);
        let to = (&mut parts.shard, &parts.pool);
        self.arrivals.welcome(now, to, stream);
        self.parts.files.remember(stream);
        self.sources.insert(stream, source);
        Ok(())
    }

    /// Does what the shard says until it has nothing to say.
    fn settle(&mut self, now: Instant) {
        let mut has_vacated = false;
        loop {
            if let Some(command) = self.parts.shard.poll_command() {
                match command {
                    Command::Read(read) => self.read(read),
                    Command::Forget(stream) => {
                        self.sources.remove(&stream);
                        self.parts.files.forget(stream);
                        self.parts.pool.set_missing(stream);
                    }
                    Command::Flash(command) => {
                        if let Some(flash) = &mut self.parts.flash {
                            flash.command(command);
                        }
                    }
                    Command::Vacate(slot) => {
                        has_vacated |= self.parts.pool.vacate(slot);
                    }
                }
            } else if let Some(event) = self.parts.shard.poll_event() {
                self.pass_on(now, event);
            } else if let Some(read) = self.impossible_reads.pop() {
                self.parts
                    .shard
                    .handle_read_done(now, read, ReadOutcome::Error);
            } else {
                break;
            }
        }
        let state = self.parts.shard.device_state();
        if state != self.state {
            self.announce(state);
        }
        if has_vacated {
            self.parts.pool.vacate_copies();
        }
        if self.vacated.is_some() && !self.parts.shard.is_vacating() {
            // Who asked may have gone.
            let _ = self.vacated.take().map(|vacated| vacated.send(()));
        }
        while let Some((ssd, before, state)) = self.parts.shard.poll_ssd_change() {
            self.announce_ssd(ssd, before, state);
        }
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
            .parts
            .pool
            .lease(&slots)
            .filter(|lease| lease.capacity() >= length);
        let (Some(lease), Some(source)) = (lease, self.sources.get(&stream)) else {
            let device = &self.parts.identity.name;
            tracing::error!(
                device,
                ?id,
                ?stream,
                "a read names memory that is in use, or an unknown stream; it fails"
            );
            self.impossible_reads.push(id);
            return;
        };
        self.parts.pool.note_stream(&slots, stream);
        let plan = Plan {
            source: Arc::clone(source),
            stream,
            part,
            offset,
            length,
            opening,
            ticket: Ticket::new(id, &self.parts.completions),
        };
        self.submits.push(Read { lease, plan });
    }
}
