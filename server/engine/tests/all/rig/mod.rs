//! A world for one shard in virtual time: a device that takes time, sockets that take bytes, and a
//! simple account of the content of every slot.
//!
//! The account is the model that the engine is checked against: a slot may be read into only when
//! no reply holds it, and a reply must get exactly the requested bytes, in order, from slots that
//! hold just those bytes.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::allow_attributes,
    reason = "each test uses a part"
)]

mod flash;

use std::collections::{BTreeMap, VecDeque};

use headlong_engine::{
    AnnouncedRequest, Command, EngineConfig, Event, Failure, Hints, PartSpec, PieceBytes, Policy,
    ReadCommand, ReadOutcome, ReaderIdentity, Refusal, Request, RequestId, Shard, SizingConfig,
    Slot, StreamId, StreamSpec, ViewerId,
};
use headlong_flash::{BlockId, FileKey, FlashSpec, SsdId, SsdSpec};
use headlong_units::{BitRate, Duration, Instant, MIB};

/// Content of a slot: stream, part, offset in the part of its first byte, length.
type Content = (StreamId, u32, u64, u64);

#[derive(Debug, Default)]
pub struct RigReply {
    pub request: Option<Request>,
    pub received_bytes: u64,
    pub from_ram_bytes: u64,
    pub from_flash_bytes: u64,
    pub failure: Option<Failure>,
    pub done: bool,
    pub cancelled: bool,
}

/// Behaviour of the device.
#[derive(Debug, Clone)]
pub struct Device {
    pub position_time: Duration,
    pub rate: BitRate,
    /// Reads of these bytes (stream, start, end) fail.
    pub bad: Vec<(StreamId, u64, u64)>,
    pub hangs: bool,
    /// Reads of this stream are done only when no others are outstanding.
    pub passes_over: Option<StreamId>,
    pub changed: Vec<StreamId>,
    /// Single files of streams that have changed.
    pub changed_parts: Vec<(StreamId, u32)>,
    /// The machine has no descriptors left: no read can be attempted.
    pub lacks_resources: bool,
}

impl Default for Device {
    fn default() -> Self {
        Self {
            position_time: Duration::from_millis(12),
            rate: BitRate(8 * 100_000_000),
            bad: Vec::new(),
            hangs: false,
            passes_over: None,
            changed: Vec::new(),
            changed_parts: Vec::new(),
            lacks_resources: false,
        }
    }
}

pub struct Rig {
    pub now: Instant,
    pub shard: Shard,
    pub device: Device,
    pub replies: BTreeMap<RequestId, RigReply>,
    /// Time a socket takes for one piece.
    pub socket_time: Duration,
    pub reads: Vec<ReadCommand>,
    /// Slots whose memory was returned to the system, in order.
    pub vacated: Vec<Slot>,
    /// With each read, how many were outstanding then.
    pub outstanding: Vec<usize>,
    pub log: Vec<String>,
    pub forgotten: Vec<StreamId>,
    pub ssd: flash::Ssd,
    /// The SSD was removed while it was being read.
    pub may_drop_under_reads: bool,
    pub in_flight: VecDeque<(Instant, ReadCommand)>,
    sending: BTreeMap<(Instant, u64), (RequestId, Slot)>,
    content: BTreeMap<Slot, Content>,
    held: BTreeMap<Slot, u32>,
    device_free_at: Instant,
    next_id: u64,
}

impl Rig {
    pub fn new(config: EngineConfig) -> Self {
        Self {
            now: Instant::ZERO,
            shard: Shard::new(config).expect("valid settings"),
            device: Device::default(),
            replies: BTreeMap::new(),
            socket_time: Duration::from_millis(1),
            reads: Vec::new(),
            outstanding: Vec::new(),
            log: Vec::new(),
            vacated: Vec::new(),
            forgotten: Vec::new(),
            ssd: flash::Ssd::default(),
            may_drop_under_reads: false,
            in_flight: VecDeque::new(),
            sending: BTreeMap::new(),
            content: BTreeMap::new(),
            held: BTreeMap::new(),
            device_free_at: Instant::ZERO,
            next_id: 0,
        }
    }

    /// A title in one file; it lies at `id` GiB on the device.
    pub fn title(&mut self, id: u64, size_bytes: u64, kbps: u64) -> StreamId {
        self.chunked(id, &[size_bytes], kbps)
    }

    /// A title in several chunk files, consecutive on the device.
    pub fn chunked(&mut self, id: u64, sizes: &[u64], kbps: u64) -> StreamId {
        let mut physical = id << 30;
        let mut number = 0;
        let mut part = |&size_bytes: &u64| {
            number += 1;
            let extent = headlong_engine::Extent {
                offset: 0,
                physical,
                length: size_bytes,
            };
            physical += size_bytes;
            PartSpec {
                size_bytes,
                extents: vec![extent],
                flash_key: Some(FileKey(u128::from(id) << 64 | number)),
                is_absent: false,
            }
        };
        let parts = sizes.iter().map(&mut part).collect();
        let bit_rate = Some(BitRate::from_kbps(kbps));
        let spec = StreamSpec {
            id: StreamId(id),
            parts,
            bit_rate,
        };
        self.shard
            .handle_stream(self.now, spec)
            .expect("the table has room");
        self.drain();
        StreamId(id)
    }

    /// A new SSD of `blocks` blocks.
    pub fn attach_ssd(&mut self, number: u16, block_bytes: u32, blocks: u32) {
        let first = u32::from(number) * 10_000;
        let spec = FlashSpec {
            block_bytes,
            summary_bytes: 4096,
            records_max: 1000,
            seal_bytes: 4096,
            written_bytes: 0,
            is_recovering: false,
            ssds: vec![SsdSpec {
                ssd: SsdId(number),
                blocks: BlockId(first)..BlockId(first + blocks),
                is_fresh: true,
            }],
        };
        self.shard
            .attach_flash(self.now, &spec, Vec::new())
            .expect("an SSD that fits");
        self.drain();
    }

    pub fn request(&mut self, request: Request) -> Result<RequestId, Refusal> {
        self.next_id += 1;
        let id = RequestId(self.next_id);
        self.replies.insert(
            id,
            RigReply {
                request: Some(request),
                ..RigReply::default()
            },
        );
        let result = self.shard.handle_request(self.now, id, request);
        self.log
            .push(format!("{:?} ask {id:?} {result:?}", self.now));
        if result.is_err() {
            self.replies.remove(&id);
        }
        self.drain();
        result.map(|()| id)
    }

    /// A player announces its next request.
    pub fn expect(&mut self, expected: AnnouncedRequest) -> Result<(), Refusal> {
        let result = self.shard.handle_expected(self.now, expected);
        self.log
            .push(format!("{:?} expect {expected:?} {result:?}", self.now));
        self.drain();
        result
    }

    pub fn cancel(&mut self, id: RequestId) {
        if let Some(reply) = self.replies.get_mut(&id) {
            reply.cancelled = true;
            self.shard.handle_cancel(self.now, id);
            self.drain();
        }
    }

    pub fn is_over(&self, id: RequestId) -> bool {
        let reply = &self.replies[&id];
        reply.done || reply.failure.is_some() || reply.cancelled
    }

    /// The memory of a slot is reclaimed, unless a reply or a read holds it.
    pub fn lose(&mut self, slot: Slot) {
        let is_read_into = |(_, read): &(Instant, ReadCommand)| read.slots.contains(&slot);
        if !self.held.contains_key(&slot) && !self.in_flight.iter().any(is_read_into) {
            self.content.remove(&slot);
        }
        self.shard.handle_lost(self.now, slot);
        self.drain();
    }

    /// Gives the shard a piece of another process. Returns whether it is useful.
    pub fn give(&mut self, stream: StreamId, bytes: PieceBytes) -> bool {
        let Some(slot) = self.shard.handle_reserve(self.now) else {
            return false;
        };
        let of = (stream, bytes.part, bytes.offset, bytes.length);
        self.content.insert(slot, of);
        let is_used = self.shard.handle_received(self.now, slot, stream, bytes);
        self.drain();
        is_used
    }

    /// Pieces in these slots are sent without a request.
    pub fn use_slots(&mut self, slots: &[Slot]) {
        self.shard.handle_used(self.now, slots);
        self.drain();
    }

    /// Runs until `end`, event by event.
    pub fn run_until(&mut self, end: Instant) {
        for _ in 0..10_000_000u64 {
            let Some(next) = self.next_event().filter(|at| *at <= end) else {
                self.now = self.now.max(end);
                self.shard.handle_timeout(self.now);
                self.drain();
                return;
            };
            self.now = self.now.max(next);
            self.step();
        }
        panic!("the world does not become idle");
    }

    pub fn run_for(&mut self, length: Duration) {
        self.run_until(self.now + length);
    }

    fn next_event(&self) -> Option<Instant> {
        let read = self
            .in_flight
            .front()
            .filter(|_| !self.device.hangs)
            .map(|(at, _)| *at);
        let sent = self.sending.keys().next().map(|(at, _)| *at);
        [read, sent, self.shard.poll_timeout(), self.ssd.next_event()]
            .into_iter()
            .flatten()
            .min()
    }

    fn step(&mut self) {
        let due = self
            .in_flight
            .front()
            .is_some_and(|(at, _)| *at <= self.now);
        if due && !self.device.hangs {
            self.choose_another();
            let (_, read) = self.in_flight.pop_front().expect("a read is due");
            self.finish_read(&read);
        } else if self.ssd.next_event().is_some_and(|at| at <= self.now) {
            self.step_flash();
        } else if let Some(((at, key), (id, slot))) = self.sending.pop_first() {
            if at <= self.now {
                self.take_back(id, slot);
            } else {
                self.sending.insert((at, key), (id, slot));
                self.shard.handle_timeout(self.now);
            }
        } else {
            self.shard.handle_timeout(self.now);
        }
        self.drain();
    }

    /// Moves a read that the device defers behind one that it does not.
    fn choose_another(&mut self) {
        let is_wanted = |read: &ReadCommand| Some(read.stream) != self.device.passes_over;
        let other = self.in_flight.iter().position(|(_, read)| is_wanted(read));
        if let Some(other) = other.filter(|other| *other > 0) {
            let (first, other) = (&self.in_flight[0], &self.in_flight[other]);
            let (first, second) = (first.1.clone(), other.1.clone());
            for (_, read) in &mut self.in_flight {
                if read.id == first.id {
                    *read = second.clone();
                } else if read.id == second.id {
                    *read = first.clone();
                }
            }
        }
    }

    fn finish_read(&mut self, read: &ReadCommand) {
        let end = read.offset + read.length;
        let is_bad = |(stream, from, to): &(StreamId, u64, u64)| {
            *stream == read.stream && *from < end && read.offset < *to
        };
        let file = (read.stream, read.part);
        let has_changed = self.device.changed.contains(&read.stream);
        let outcome = if has_changed || self.device.changed_parts.contains(&file) {
            ReadOutcome::Changed
        } else if self.device.lacks_resources {
            ReadOutcome::NoResources
        } else if self.device.bad.iter().any(is_bad) {
            ReadOutcome::Error
        } else {
            ReadOutcome::Done
        };
        let piece = self.shard.config().piece_bytes;
        for (index, slot) in read.slots.iter().enumerate() {
            let offset = read.offset + index as u64 * piece;
            let length = piece.min(end - offset);
            if outcome == ReadOutcome::Done {
                self.content
                    .insert(*slot, (read.stream, read.part, offset, length));
            } else {
                self.content.remove(slot);
            }
        }
        self.log
            .push(format!("{:?} read {:?} {outcome:?}", self.now, read.id));
        self.shard.handle_read_done(self.now, read.id, outcome);
    }

    fn take_back(&mut self, id: RequestId, slot: Slot) {
        let held = self.held.get_mut(&slot).expect("it is handed out");
        *held -= 1;
        if *held == 0 {
            self.held.remove(&slot);
        }
        let reply = self.replies.get_mut(&id).expect("a known reply");
        let request = reply.request.expect("a request");
        reply.done |= reply.received_bytes == request.length && !reply.cancelled;
        self.shard.handle_sent(self.now, id, slot);
    }

    pub fn drain(&mut self) {
        while let Some(command) = self.shard.poll_command() {
            self.log.push(format!("{:?} {command:?}", self.now));
            match command {
                Command::Read(read) => self.begin_read(read),
                Command::Forget(stream) => self.forgotten.push(stream),
                Command::Flash(command) => self.obey_flash(command),
                Command::Vacate(slot) => {
                    assert!(!self.held.contains_key(&slot), "{slot:?} is being sent");
                    self.content.remove(&slot);
                    self.vacated.push(slot);
                }
            }
        }
        while let Some(event) = self.shard.poll_event() {
            let line = format!("{:?} {event:?}", self.now);
            // Without a tier, log lines are as before the tier existed.
            self.log.push(line.replace(" from_flash: false,", ""));
            self.receive(event);
        }
        self.shard.check_invariants();
    }

    fn begin_read(&mut self, read: ReadCommand) {
        let piece = self.shard.config().piece_bytes;
        assert_eq!(
            read.slots.len() as u64,
            read.length.div_ceil(piece),
            "slots for every byte"
        );
        assert_eq!(read.offset % piece, 0);
        for slot in &read.slots {
            assert!(
                !self.held.contains_key(slot),
                "{slot:?} is being sent and read into"
            );
            let in_flight = self
                .in_flight
                .iter()
                .any(|(_, other)| other.slots.contains(slot));
            assert!(!in_flight, "{slot:?} is read into twice");
            assert!(
                !self.ssd.is_reading_into(*slot),
                "{slot:?} is read into by the SSD"
            );
            self.content.remove(slot);
        }
        // A read that adjoins an outstanding one belongs to the same run for the drive.
        let goes_on = self.in_flight.back().is_some_and(|(_, last)| {
            let end = (last.stream, last.part, last.offset + last.length);
            end == (read.stream, read.part, read.offset)
        });
        // At a device with an arm, several reads of one run are outstanding, and the first of the
        // next.
        let mut outstanding: Vec<StreamId> =
            self.in_flight.iter().map(|(_, read)| read.stream).collect();
        outstanding.push(read.stream);
        let mut reads_max = self.shard.config().outstanding_reads_max as usize;
        if self.shard.config().has_arm {
            outstanding.sort_unstable();
            outstanding.dedup();
            reads_max += 1;
        }
        assert!(outstanding.len() <= reads_max, "{outstanding:?}");
        let transfer = self.device.rate.time_for(read.length);
        let turns = u64::from(!goes_on);
        self.device_free_at =
            self.device_free_at.max(self.now) + self.device.position_time.times(turns) + transfer;
        match self.reads.last_mut().filter(|_| goes_on) {
            Some(last) => last.length += read.length,
            None => self.reads.push(read.clone()),
        }
        self.outstanding.push(outstanding.len());
        self.in_flight.push_back((self.device_free_at, read));
    }

    fn receive(&mut self, event: Event) {
        match event {
            Event::Failed { request, failure } => {
                let reply = self.replies.get_mut(&request).expect("a known reply");
                assert!(
                    reply.failure.is_none() && !reply.done,
                    "a reply ended twice"
                );
                reply.failure = Some(failure);
            }
            Event::Ready {
                request: id,
                slot,
                start,
                end,
                from_ram,
                from_flash,
                ..
            } => {
                let reply = self.replies.get_mut(&id).expect("a known reply");
                assert!(
                    reply.failure.is_none() && !reply.cancelled,
                    "a reply ended twice"
                );
                let request = reply.request.expect("a request");
                let content = self.content.get(&slot).expect("the slot has content");
                let (stream, part, offset, length) = *content;
                assert_eq!((stream, part), (request.stream, request.part));
                assert_eq!(
                    offset + u64::from(start),
                    request.offset + reply.received_bytes
                );
                assert!(start < end && u64::from(end) <= length);
                let bytes = u64::from(end - start);
                reply.received_bytes += bytes;
                reply.from_ram_bytes += if from_ram { bytes } else { 0 };
                reply.from_flash_bytes += if from_flash { bytes } else { 0 };
                assert!(reply.received_bytes <= request.length);
                *self.held.entry(slot).or_default() += 1;
                self.next_id += 1;
                let key = (self.now + self.socket_time, self.next_id);
                self.sending.insert(key, (id, slot));
            }
        }
    }
}

/// A request for a range of a single-file title.
pub fn range(viewer: u64, stream: StreamId, offset: u64, length: u64) -> Request {
    Request {
        viewer: ReaderIdentity::Named(ViewerId(viewer)),
        stream,
        part: 0,
        offset,
        length,
        open_ended: false,
        overlap_bytes: 0,
        holder: None,
        hints: Hints::default(),
    }
}

/// The same range, as an announcement.
pub fn expected(viewer: u64, stream: StreamId, offset: u64, length: u64) -> AnnouncedRequest {
    AnnouncedRequest {
        viewer: ReaderIdentity::Named(ViewerId(viewer)),
        stream,
        part: 0,
        offset,
        length,
    }
}

/// Small settings, so that limits are near, and one read at a time, so that their order is visible.
pub fn config(memory_bytes: u64) -> EngineConfig {
    EngineConfig {
        // Values that tests rely on.
        piece_bytes: 128 << 10,
        memory_bytes,
        outstanding_reads_max: 1,
        ..EngineConfig::default()
    }
}

/// A title of an hour at 2,000 kbps.
pub const HOUR_BYTES: u64 = 900 * MIB;

/// Usual request size of viewers in these tests.
pub const CHUNK: u64 = MIB / 2;

/// Prefetches of `bytes` bytes.
pub fn fixed(bytes: u64) -> SizingConfig {
    SizingConfig {
        policy: Policy::Fixed,
        reference_bytes: bytes,
        ..SizingConfig::default()
    }
}

/// Viewers of different titles, each requesting a chunk every `every` (staggered). Returns how many
/// chunks did not arrive before the next one was due.
pub fn watch(rig: &mut Rig, viewers: u64, chunks: u64, every: Duration) -> u64 {
    let titles: Vec<StreamId> = (1..=viewers)
        .map(|id| rig.title(id, HOUR_BYTES, 2_000))
        .collect();
    let mut late = 0;
    let start = rig.now;
    for chunk in 0..chunks {
        for (index, title) in titles.iter().enumerate() {
            let offset = Duration(every.0 / viewers * index as u64);
            rig.run_until(start + every.times(chunk) + offset);
            let viewer = index as u64 + 1;
            if let Some((_, before)) = rig.replies.iter().rev().find(|(_, reply)| {
                reply.request.is_some_and(|request| {
                    request.viewer == ReaderIdentity::Named(ViewerId(viewer))
                })
            }) {
                late += u64::from(!before.done);
            }
            rig.request(range(viewer, *title, chunk * CHUNK, CHUNK))
                .expect("accepted");
        }
    }
    rig.run_for(Duration::from_secs(10));
    late
}
