//! One device of a running server: the real shard, and around it what `serve::disk` does.
//!
//! This is written as closely as possible to `DeviceEngine` and `Transfer`: what is real there and
//! only imitated here is the pool, the open files and the threads.

use std::collections::{BTreeMap, BTreeSet};

use headlong_engine::{
    Command, DeviceState, EngineConfig, Event, Expected, Failure, ReadCommand, ReadId, ReadOutcome,
    Refusal, Request, RequestId, Shard, Slot, StreamId, StreamSpec,
};
use headlong_units::Instant;

use crate::around::{Around, FlashTold};
use crate::check::Check;
use crate::disk::Reading;
use crate::files::{Identity, Inode};
use crate::plant::Plant;
use crate::pool::Pool;
use crate::port::Port;

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

    /// The tier takes part from now on, or some more is known of what is there. Answers whether there
    /// is more.
    pub(crate) fn attach(&mut self, around: &mut Around<'_>) -> bool {
        let Some(port) = &mut self.port else {
            return false;
        };
        if !self.is_attached {
            let spec = port.spec(around.ssds);
            self.is_attached = true;
            let attached = self.shard.attach_flash(around.now, &spec, Vec::new());
            around
                .oracle
                .expect(attached.is_ok(), Check::Panic, around.now, || {
                    format!("a tier that was formatted takes no part: {attached:?}")
                });
        } else if let Some(blocks) = port.recover(around) {
            self.shard.handle_flash_recovered(around.now, blocks);
        } else {
            let (written, fresh) = (port.written_bytes, port.fresh.clone());
            self.shard
                .handle_flash_recovery_ended(around.now, written, &fresh);
            self.is_recovered = true;
            self.note_flash_budget();
        }
        self.settle(around);
        !self.is_recovered
    }

    /// After a change of the budget the largest one counts.
    fn note_flash_budget(&mut self) {
        let port = self.port.as_ref().filter(|_| self.is_recovered);
        if let Some((port, view)) = port.zip(self.shard.flash_view()) {
            let left = view.budget_bytes.saturating_sub(port.written_bytes);
            self.flash_bytes_max = self.flash_bytes_max.max(Some(left + port.first_fillings));
        }
    }

    pub(crate) fn flash_told(&mut self, around: &mut Around<'_>, told: FlashTold) {
        self.tell(around.now, told);
        self.settle(around);
    }

    fn tell(&mut self, now: Instant, told: FlashTold) {
        match told {
            FlashTold::Written(block, to, ok) => {
                self.shard.handle_flash_written(now, block, to, ok)
            }
            FlashTold::Sealed(block, ok) => self.shard.handle_flash_sealed(now, block, ok),
            FlashTold::Read(id, outcomes) => {
                self.shard.handle_flash_read_done(now, id, &outcomes, None);
            }
            FlashTold::Probed(ssd, probed) => self.shard.handle_flash_probed(now, ssd, probed),
        }
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

    fn note_flash(&mut self, around: &mut Around<'_>, command: &headlong_engine::FlashCommand) {
        use headlong_engine::FlashCommand;
        match command {
            FlashCommand::Stage {
                place,
                length,
                slot,
                ..
            } => {
                let of = [
                    u64::from(place.block.0),
                    u64::from(*length),
                    u64::from(slot.0),
                ];
                around.note("stage", of);
            }
            FlashCommand::Write { block, from, to } => {
                self.flash_bytes += u64::from(to - from);
                around.note(
                    "flash write",
                    [block.0.into(), (*from).into(), (*to).into()],
                );
            }
            FlashCommand::Seal {
                block,
                from,
                sequence,
            } => {
                let bytes = self
                    .port
                    .as_ref()
                    .map_or(0, |port| port.bytes_of_seal(*from));
                self.flash_bytes += u64::from(bytes);
                around.note("seal", [block.0.into(), *sequence, 0]);
            }
            FlashCommand::Drop(block) => around.note("drop", [block.0.into(), 0, 0]),
            FlashCommand::Read(read) => {
                around.note("flash read", [read.id.0, read.records.len() as u64, 0])
            }
            FlashCommand::Probe(ssd) => around.note("probe", [ssd.0.into(), 0, 0]),
        }
    }

    fn read(&mut self, around: &mut Around<'_>, command: ReadCommand) {
        around.note("read", [command.id.0, command.offset, command.length]);
        let piece = self.shard.config().piece_bytes;
        let leased = self.pool.lease(&command.slots).is_some();
        let fits = command.slots.len() as u64 * piece >= command.length && command.length > 0;
        around
            .oracle
            .expect(leased && fits, Check::Budget, around.now, || {
                format!("a read names memory that is in use or too little: {command:?}")
            });
        let identity = self
            .sources
            .get(&command.stream)
            .and_then(|source| source.parts.get(command.part as usize));
        let identity = identity.map(|(_, identity)| *identity);
        let (true, Some(identity)) = (leased, identity) else {
            around.oracle.fail(Check::Panic, around.now, || {
                format!("a read of an unknown stream: {command:?}")
            });
            self.impossible.push(command.id);
            return;
        };
        let inode = self.open_file(around, command.stream, command.part);
        let now = around.now;
        around.disk.submit(
            now,
            Reading {
                command,
                identity,
                inode,
                began: now,
            },
        );
    }

    /// A read ended: what it brought is judged as `Transfer::end` does.
    pub(crate) fn read_done(&mut self, around: &mut Around<'_>, reading: &Reading) {
        let outcome = self.carry_out(around, reading);
        let code = match outcome {
            ReadOutcome::Done => 0,
            ReadOutcome::Error => 1,
            ReadOutcome::Changed => 2,
            ReadOutcome::NoResources => 3,
        };
        around.note("read done", [reading.command.id.0, code, 0]);
        self.pool.release(&reading.command.slots);
        self.shard
            .handle_read_done(around.now, reading.command.id, outcome);
        self.settle(around);
    }

    fn carry_out(&mut self, around: &mut Around<'_>, reading: &Reading) -> ReadOutcome {
        let plant = around.plant;
        let inode = match reading.inode {
            Ok(inode) => inode,
            Err(outcome) => return outcome,
        };
        let size = reading.identity.size;
        let fails = around.disk.files.is_dead(inode) || around.disk.fails(reading, size);
        if fails {
            // They may hold anything.
            for slot in &reading.command.slots {
                self.pool.slot_mut(*slot).fill(0x5a);
            }
            return match plant {
                Some(Plant::ErrorSwallowed) => ReadOutcome::Done,
                _ => ReadOutcome::Error,
            };
        }
        let available = self.fill(around, reading, inode);
        let is_same = around.disk.files.identity(inode) == Some(reading.identity);
        if available < reading.command.length && plant != Some(Plant::ShortReadTaken) {
            let is_shorter = around
                .disk
                .files
                .current(inode)
                .is_none_or(|of| of.size < reading.command.offset + reading.command.length);
            return match is_shorter || !is_same {
                true => ReadOutcome::Changed,
                false => ReadOutcome::Error,
            };
        }
        let is_believed =
            is_same || matches!(plant, Some(Plant::VersionUnchecked | Plant::ShortReadTaken));
        match is_believed {
            true => ReadOutcome::Done,
            false => ReadOutcome::Changed,
        }
    }

    /// Puts bytes into the slots: some as they were when the read began, some as they are. Answers
    /// how many there were.
    fn fill(&mut self, around: &mut Around<'_>, reading: &Reading, inode: Inode) -> u64 {
        let ReadCommand {
            offset,
            length,
            slots,
            ..
        } = &reading.command;
        let piece = self.shard.config().piece_bytes;
        let early = around.disk.chance.0.below(slots.len() as u64 + 1) as usize;
        let mut available = *length;
        let count = slots.len();
        for index in 0..count {
            let at = offset + index as u64 * piece;
            let time = if index < early {
                reading.began
            } else {
                around.now
            };
            let Some(version) = around.disk.files.at(inode, time) else {
                return 0;
            };
            let wanted = piece.min(offset + length - at);
            let there = version.size.saturating_sub(at).min(wanted);
            let slot = match around.plant {
                Some(Plant::SlotsReversed) => slots[count - 1 - index],
                _ => slots[index],
            };
            let fits = (there as usize).min(self.pool.slot(slot).len());
            version.key.fill(at, &mut self.pool.slot_mut(slot)[..fits]);
            if there < wanted {
                available = available.min(at + there - offset);
            }
        }
        available
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
