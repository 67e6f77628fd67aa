//! One device of a running server: the real shard, and around it what `serve::disk` does.
//!
//! This is written as closely as possible to `DeviceEngine` and `Transfer`: what is real there and
//! only imitated here is the pool, the open files and the threads.

use std::collections::{BTreeMap, BTreeSet};

use headlong_engine::{
    Command, DeviceState, EngineConfig, Event, Expected, Failure, ReadId, ReadOutcome, Refusal,
    Request, RequestId, Shard, Slot, StreamId, StreamSpec,
};
use headlong_units::Instant;

use crate::around::Around;
use crate::check::Check;
use crate::files::{Identity, Inode};
use crate::plant::Plant;
use crate::pool::Pool;
use crate::port::Port;

mod flash;
mod reading;

/// One version of a stream: its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) parts: Vec<(String, Identity)>,
}

/// Of so many requests one says what comes next.
const EXPECTING: u64 = 3;

/// Something for a reply.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Out {
    Piece {
        request: RequestId,
        slot: Slot,
        start: u32,
        end: u32,
    },
    Failed {
        request: RequestId,
        failure: Failure,
    },
}

#[derive(Debug)]
struct Waiting {
    bytes_left: u64,
    stream: StreamId,
    part: u32,
}

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) shard: Shard,
    pub(crate) pool: Pool,
    pub(crate) port: Option<Port>,
    replies: BTreeMap<RequestId, Waiting>,
    sources: BTreeMap<StreamId, Source>,
    running: BTreeMap<StreamId, u32>,
    gone: BTreeSet<StreamId>,
    impossible: Vec<ReadId>,
    /// Open files, and how many replies run on each.
    open: BTreeMap<(StreamId, u32), Inode>,
    pins: BTreeMap<(StreamId, u32), u32>,
    pub(crate) outs: Vec<Out>,
    /// Bytes given to SSDs, and what may be.
    pub(crate) flash_bytes: u64,
    pub(crate) flash_bytes_max: Option<u64>,
    /// Whether the tier takes part, and all is known of what was there at the start.
    is_attached: bool,
    is_recovered: bool,
    sent_count: u64,
}

impl Device {
    /// # Panics
    /// If the engine refuses the settings, which were checked.
    pub(crate) fn new(config: EngineConfig, port: Option<Port>) -> Self {
        let shard = Shard::new(config).unwrap_or_else(|error| panic!("settings: {error}"));
        Self {
            pool: Pool::new(config.slot_count(), config.piece_bytes),
            shard,
            port,
            replies: BTreeMap::new(),
            sources: BTreeMap::new(),
            running: BTreeMap::new(),
            gone: BTreeSet::new(),
            impossible: Vec::new(),
            open: BTreeMap::new(),
            pins: BTreeMap::new(),
            outs: Vec::new(),
            flash_bytes: 0,
            flash_bytes_max: None,
            is_attached: false,
            is_recovered: false,
            sent_count: 0,
        }
    }

    pub(crate) fn is_offline(&self) -> bool {
        self.shard.device_state() == DeviceState::Offline
    }

    /// When the shard wants to be told of the time.
    pub(crate) fn due(&self, plant: Option<Plant>, outstanding: usize) -> Option<Instant> {
        let swallows = plant == Some(Plant::TimeoutSwallowed) && outstanding > 0;
        self.shard.poll_timeout().filter(|_| !swallows)
    }

    pub(crate) fn tick(&mut self, around: &mut Around<'_>) {
        self.shard.handle_timeout(around.now);
        self.settle(around);
        while self.shard.poll_size_change().is_some() {}
    }

    /// Takes on a request, of a stream that is registered first if it is given.
    pub(crate) fn ask(
        &mut self,
        around: &mut Around<'_>,
        id: RequestId,
        request: Request,
        register: Option<(StreamSpec, Source)>,
    ) -> Result<(), Refusal> {
        let registered = match register {
            Some((spec, source)) => self.register(around.now, spec, source),
            None => Ok(()),
        };
        let taken_on = registered.and_then(|()| self.shard.handle_request(around.now, id, request));
        if taken_on.is_ok() && request.length > 0 {
            let (stream, part) = (request.stream, request.part);
            let bytes_left = request.length;
            self.replies.insert(
                id,
                Waiting {
                    bytes_left,
                    stream,
                    part,
                },
            );
            *self.running.entry(stream).or_insert(0) += 1;
            *self.pins.entry((stream, part)).or_insert(0) += 1;
        }
        self.settle(around);
        if taken_on.is_ok() && self.replies.contains_key(&id) {
            // The file is opened before it is read, so that the reply has this version.
            let _ = self.open_file(around, request.stream, request.part);
        }
        if taken_on.is_ok() && id.0.is_multiple_of(EXPECTING) {
            self.expect(around, id, &request);
        }
        taken_on
    }

    /// A player names what it will ask for next, and half of them lie: any file of any stream.
    fn expect(&mut self, around: &mut Around<'_>, id: RequestId, request: &Request) {
        let is_lie = id.0.is_multiple_of(2 * EXPECTING);
        let count = self.sources.len().max(1) as u64;
        let other = self.sources.keys().nth((id.0 % count) as usize);
        let expected = match other.filter(|_| is_lie) {
            Some(stream) => Expected {
                viewer: request.viewer,
                stream: *stream,
                part: (id.0 % 5) as u32,
                offset: id.0 * 4099 % 500_000,
                length: u64::MAX,
            },
            None => Expected {
                viewer: request.viewer,
                stream: request.stream,
                part: request.part,
                offset: request.offset + request.length,
                length: request.length.max(1),
            },
        };
        // What is not there is no error of the server's.
        let _ = self.shard.handle_expected(around.now, expected);
        self.settle(around);
    }

    fn register(&mut self, now: Instant, spec: StreamSpec, source: Source) -> Result<(), Refusal> {
        let stream = spec.id;
        if self.sources.contains_key(&stream) {
            return Ok(());
        }
        self.shard.handle_stream(now, spec)?;
        self.sources.insert(stream, source);
        Ok(())
    }

    /// The open file of a part, opened if it is not.
    fn open_file(
        &mut self,
        around: &mut Around<'_>,
        stream: StreamId,
        part: u32,
    ) -> Result<Inode, ReadOutcome> {
        if let Some(inode) = self.open.get(&(stream, part)) {
            return Ok(*inode);
        }
        let source = self.sources.get(&stream).ok_or(ReadOutcome::Changed)?;
        let (path, identity) = source
            .parts
            .get(part as usize)
            .ok_or(ReadOutcome::Changed)?;
        if let Some(outcome) = around.disk.trouble() {
            let is_blamed = around.plant == Some(Plant::ResourcesBlamed);
            return Err(match outcome {
                ReadOutcome::NoResources if is_blamed => ReadOutcome::Error,
                outcome => outcome,
            });
        }
        let inode = around.disk.files.lookup(path).ok_or(ReadOutcome::Changed)?;
        if around.disk.files.identity(inode) != Some(*identity) {
            return Err(ReadOutcome::Changed);
        }
        self.open.insert((stream, part), inode);
        Ok(inode)
    }

    fn end_reply(&mut self, around: &mut Around<'_>, id: RequestId) {
        let Some(Waiting { stream, part, .. }) = self.replies.remove(&id) else {
            return;
        };
        if let Some(count) = self.pins.get_mut(&(stream, part)) {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(&(stream, part));
                // As if the table of open files were full, or not.
                if around.disk.chance.percent(50) {
                    self.open.remove(&(stream, part));
                }
            }
        }
        let running = self.running.entry(stream).or_insert(1);
        *running -= 1;
        if *running == 0 {
            self.running.remove(&stream);
            if self.gone.remove(&stream) {
                self.shard.handle_stream_gone(around.now, stream);
            }
        }
    }

    /// The files of a stream changed or went: what has begun is finished from what is open.
    pub(crate) fn stream_gone(&mut self, around: &mut Around<'_>, stream: StreamId) {
        match self.running.contains_key(&stream) {
            true => {
                self.gone.insert(stream);
            }
            false => self.shard.handle_stream_gone(around.now, stream),
        }
        self.settle(around);
    }

    /// A piece was taken by a socket, or dropped.
    pub(crate) fn sent(&mut self, around: &mut Around<'_>, request: RequestId, slot: Slot) {
        self.pool.drop_view(slot);
        self.sent_count += 1;
        let is_kept = around.plant == Some(Plant::SlotKept) && self.sent_count.is_multiple_of(8);
        let is_early = around.plant == Some(Plant::SlotGivenBackEarly);
        if !is_kept && !is_early {
            self.shard.handle_sent(around.now, request, slot);
        }
        self.settle(around);
    }

    /// A reply was dropped before its end.
    pub(crate) fn cancel(&mut self, around: &mut Around<'_>, request: RequestId) {
        if around.plant != Some(Plant::CancelLost) {
            self.shard.handle_cancel(around.now, request);
        }
        self.end_reply(around, request);
        self.settle(around);
    }

    pub(crate) fn configure(&mut self, around: &mut Around<'_>, config: EngineConfig) {
        // One that cannot be is refused, and nothing changes.
        let _ = self.shard.handle_config(around.now, config);
        self.note_flash_budget();
        self.settle(around);
    }

    /// Does what the shard says until it has nothing to say.
    pub(crate) fn settle(&mut self, around: &mut Around<'_>) {
        loop {
            if let Some(command) = self.shard.poll_command() {
                self.obey(around, command);
            } else if let Some(event) = self.shard.poll_event() {
                self.pass_on(around, event);
            } else if let Some(read) = self.impossible.pop() {
                self.shard
                    .handle_read_done(around.now, read, ReadOutcome::Error);
            } else if let Some(told) = around.told.pop() {
                self.tell(around.now, told);
            } else {
                break;
            }
        }
        while let Some((ssd, _, state)) = self.shard.poll_ssd_change() {
            around.note("SSD is", [ssd.0.into(), state as u64, 0]);
        }
        self.shard.check_invariants();
        self.check_budget(around);
    }

    fn obey(&mut self, around: &mut Around<'_>, command: Command) {
        match command {
            Command::Read(read) => self.read(around, read),
            Command::Forget(stream) => {
                around.note("forget", [stream.0, 0, 0]);
                self.sources.remove(&stream);
                let (from, to) = ((stream, 0), (stream, u32::MAX));
                let keys: Vec<_> = self.open.range(from..=to).map(|(key, _)| *key).collect();
                keys.into_iter().for_each(|key| {
                    self.open.remove(&key);
                });
            }
            Command::Vacate(slot) => {
                let is_used = self.pool.is_used(slot);
                around
                    .oracle
                    .expect(!is_used, Check::Budget, around.now, || {
                        format!("{slot:?} is given back to the system while it is used")
                    });
            }
            Command::Flash(command) => {
                self.note_flash(around, &command);
                if let Some(port) = &mut self.port {
                    port.command(around, &mut self.pool, command);
                }
            }
        }
    }

    fn pass_on(&mut self, around: &mut Around<'_>, event: Event) {
        match event {
            Event::Ready {
                request,
                slot,
                start,
                end,
                ..
            } => {
                let Some(waiting) = self.replies.get_mut(&request) else {
                    return self.shard.handle_sent(around.now, request, slot);
                };
                if self.pool.view(slot).is_none() {
                    around.oracle.fail(Check::Budget, around.now, || {
                        format!("{slot:?} is sent while it is read into")
                    });
                }
                let bytes = u64::from(end - start);
                around.note("piece", [request.0, u64::from(slot.0), bytes]);
                waiting.bytes_left = waiting.bytes_left.saturating_sub(bytes);
                let is_last = waiting.bytes_left == 0;
                self.outs.push(Out::Piece {
                    request,
                    slot,
                    start,
                    end,
                });
                if around.plant == Some(Plant::PieceTwice) && request.0.is_multiple_of(5) {
                    self.outs.push(Out::Piece {
                        request,
                        slot,
                        start,
                        end,
                    });
                }
                if around.plant == Some(Plant::SlotGivenBackEarly) {
                    self.pool.drop_view(slot);
                    self.shard.handle_sent(around.now, request, slot);
                }
                if is_last {
                    self.end_reply(around, request);
                }
            }
            Event::Failed { request, failure } => {
                around.note("failed", [request.0, failure as u64, 0]);
                if self.replies.contains_key(&request) {
                    self.outs.push(Out::Failed { request, failure });
                }
                self.end_reply(around, request);
            }
        }
    }

    fn check_budget(&self, around: &mut Around<'_>) {
        let now = around.now;
        let config = self.shard.config();
        let of = self.shard.memory_use();
        let sum =
            of.free_bytes + of.filling_bytes + of.sending_bytes + of.unread_bytes + of.read_bytes;
        let whole = config.slot_count() * config.piece_bytes;
        around.oracle.expect(sum == whole, Check::Budget, now, || {
            format!("memory of {whole} is {of:?}")
        });
        if let Some(most) = self.flash_bytes_max {
            let given = self.flash_bytes;
            around.oracle.expect(given <= most, Check::Wear, now, || {
                format!("{given} bytes were given to SSDs, and {most} may be")
            });
        }
        let is_innocent = self.is_offline() && !around.disk.was_ill;
        around
            .oracle
            .expect(!is_innocent, Check::Innocent, now, || {
                "a disk without a fault was taken out of service".to_owned()
            });
    }

    /// Whether a reply has bytes to come.
    pub(crate) fn runs(&self, request: RequestId) -> bool {
        self.replies.contains_key(&request)
    }

    /// What is under way although nothing should be.
    pub(crate) fn left_over(&self) -> Option<String> {
        let memory = self.shard.memory_use();
        let queue = self.shard.queue_use();
        let stats = self.shard.stats();
        let is_left = memory.filling_bytes + memory.sending_bytes + memory.unread_bytes > 0
            || queue.jobs > 0
            || queue.outstanding_reads > 0
            || stats.reads != stats.reads_done
            || !self.replies.is_empty()
            || !self.running.is_empty()
            || self.shard.chain_count() > 0
            || !self.pins.is_empty();
        is_left.then(|| {
            format!(
                "{memory:?} {queue:?} reads {} of {} replies {:?} chains {}",
                stats.reads_done,
                stats.reads,
                self.replies,
                self.shard.chain_count()
            )
        })
    }
}
