//! The fleet as a server: passes each request to a box, as the balancer decides, or to the next one
//! if it is refused, and fetches from the origin what the box lacks.
//!
//! Imitated: HAProxy, whose decisions are those of `headlong_fleet::Balancer`, without its own time
//! or connections; and the edge of a box, without slices, peers and revalidation.
//!
//! Invariant: boxes share nothing but the balancer, and the balancer knows of them only what its
//! checks, its agents and the replies tell.

use std::collections::VecDeque;

use headlong_engine::{RequestId, Slot};
use headlong_fleet::{AgentAnswer, Balancer, BearableShare, DiskSample};
use headlong_player::ObjectId;
use headlong_units::{BitRate, ByteRange, Duration, Instant};

use crate::device::{AccessPattern, DriveUse};
use crate::event_queue::EventQueue;
use crate::fleet::pulled::{PartKey, PullSpace, PulledPart, PulledParts};
use crate::fleet::setup::{FleetSetup, OriginLink};
use crate::fleet::usage::{BoxSecond, FleetRecorder, FleetUse};
use crate::histogram::Histogram;
use crate::layout::{FileLocation, Layout};
use crate::link::Link;
use crate::origin::{CacheUse, Origin, OriginEvent, ReplyPiece, Requester, ServerState};
use crate::request::{FileRequest, of_all, of_disk};
use crate::server::SimulatedServer;
use crate::slab::Slab;
use crate::usage::DiskUse;

const SECOND: Duration = Duration::from_secs(1);
/// Disk number in the ids of requests that the origin answers.
const ORIGIN_DISK: u32 = u16::MAX as u32;
/// Most disks of a fleet.
pub(crate) const DISKS_MAX: u32 = ORIGIN_DISK - 1;

#[derive(Debug)]
enum FleetEvent {
    Second,
    Fails(usize),
    Returns(usize),
    /// The bytes of a reply have come from the origin.
    Fetched(u64),
    /// A box writes bytes that it has fetched.
    Stored(usize, PulledPart, ProcessNumber),
}

/// Number of a box's process: a restart begins the next one.
type ProcessNumber = u32;

/// A reply with bytes from the origin.
#[derive(Debug)]
struct OriginReply {
    asker: Requester,
    of_box: usize,
    process: ProcessNumber,
    bytes: u64,
}

/// A box, and what the fleet knows of it.
#[derive(Debug)]
struct SimulatedBox {
    server: SimulatedServer,
    is_down: bool,
    process: ProcessNumber,
    share: BearableShare,
    /// Jobs and late jobs of each disk at the latest second.
    jobs_before: Vec<(u64, u64)>,
    /// Replies in progress with bytes from the origin.
    origin_replies: u64,
    /// Bytes of such replies since the start.
    origin_sent_bytes: u64,
}

/// The fleet in virtual time.
#[derive(Debug)]
pub(crate) struct FleetServer {
    boxes: Vec<SimulatedBox>,
    /// Disks of a box.
    disks: u32,
    balancer: Balancer,
    tries: u32,
    has_agents: bool,
    origin: OriginLink,
    /// Where each file lies at the box of its title.
    layout: Layout,
    /// The balancer's hash of each title.
    hashes: Vec<u64>,
    /// The title of each file.
    titles: Vec<u32>,
    pulled: PulledParts,
    replies: Slab<OriginReply>,
    events: EventQueue<FleetEvent>,
    outcomes: VecDeque<OriginEvent>,
    recorder: FleetRecorder,
    /// Next timeout of each box.
    boxes_next_at: Vec<Instant>,
    next_at: Instant,
}

impl FleetServer {
    /// `servers` are the boxes, each with `disks` disks, numbered throughout; `hashes` those of
    /// the titles, and `space` what each disk has for fetched bytes.
    pub(crate) fn new(
        servers: Vec<SimulatedServer>,
        disks: u32,
        setup: &FleetSetup,
        hashes: Vec<u64>,
        space: PullSpace,
    ) -> Self {
        let count = servers.len();
        let boxes = servers.into_iter().map(|server| SimulatedBox {
            server,
            is_down: false,
            process: 0,
            share: BearableShare::default(),
            jobs_before: vec![(0, 0); disks as usize],
            origin_replies: 0,
            origin_sent_bytes: 0,
        });
        let mut fleet = Self {
            boxes: boxes.collect(),
            disks,
            balancer: setup.balancer(),
            tries: setup.tries,
            has_agents: setup.has_agents,
            origin: setup.origin,
            layout: Layout::empty(),
            hashes,
            titles: Vec::new(),
            pulled: PulledParts::new(count, disks, space),
            replies: Slab::default(),
            events: EventQueue::new(),
            outcomes: VecDeque::new(),
            recorder: FleetRecorder::new(count),
            boxes_next_at: vec![Instant::NEVER; count],
            next_at: Instant::NEVER,
        };
        fleet
            .events
            .plan(Instant::ZERO + SECOND, FleetEvent::Second);
        for failure in &setup.failures {
            let (of_box, back) = (failure.of_box, failure.at + failure.down);
            fleet.events.plan(failure.at, FleetEvent::Fails(of_box));
            fleet.events.plan(back, FleetEvent::Returns(of_box));
        }
        (0..count).for_each(|of_box| fleet.note(of_box));
        fleet.note_next();
        fleet
    }

    /// The box of a request; none if the origin answers it.
    fn box_of(&self, request: RequestId) -> Option<usize> {
        let (disk, _) = of_disk(request);
        (disk != ORIGIN_DISK).then(|| (disk / self.disks) as usize)
    }

    /// Calls a box, and collects its outcomes.
    fn with_box<T>(&mut self, of_box: usize, act: impl FnOnce(&mut SimulatedServer) -> T) -> T {
        let server = &mut self.boxes[of_box].server;
        let result = act(server);
        while let Some(outcome) = server.poll_outcome() {
            self.outcomes.push_back(outcome);
        }
        self.note(of_box);
        result
    }

    /// Updates what follows from the state of a box: its requests in progress and the next timeout.
    fn note(&mut self, of_box: usize) {
        let one = &self.boxes[of_box];
        let replies = one.server.reply_count() as u64 + one.origin_replies;
        self.balancer.set_in_progress(of_box, replies);
        let next = one.server.poll_timeout().unwrap_or(Instant::NEVER);
        let before = std::mem::replace(&mut self.boxes_next_at[of_box], next);
        if next <= self.next_at {
            self.next_at = next;
        } else if before == self.next_at {
            self.note_next();
        }
    }

    fn note_next(&mut self) {
        let boxes = self.boxes_next_at.iter().copied();
        let next = boxes.chain(self.events.next_at()).min();
        self.next_at = next.unwrap_or(Instant::NEVER);
    }

    fn plan(&mut self, at: Instant, event: FleetEvent) {
        self.events.plan(at, event);
        self.next_at = self.next_at.min(at);
    }

    fn happen(&mut self, now: Instant, event: FleetEvent) {
        match event {
            FleetEvent::Second => {
                self.check(now);
                self.plan(now + SECOND, FleetEvent::Second);
            }
            FleetEvent::Fails(of_box) => {
                let one = &mut self.boxes[of_box];
                one.is_down = true;
                one.process += 1;
                one.share = BearableShare::default();
                self.pulled.lose_unfinished(of_box, now);
                self.with_box(of_box, |server| server.kill(now));
            }
            FleetEvent::Returns(of_box) => {
                self.boxes[of_box].is_down = false;
                self.with_box(of_box, |server| server.start_again(now));
            }
            FleetEvent::Fetched(id) => self.fetched(id),
            FleetEvent::Stored(of_box, part, process) => {
                if self.boxes[of_box].process == process {
                    let (disk, physical) = (part.disk as usize, part.physical);
                    self.with_box(of_box, |server| {
                        server.write(now, disk, physical, part.bytes);
                    });
                }
            }
        }
    }

    /// The checks of a second: the balancer's, and the agents' of the disks.
    fn check(&mut self, now: Instant) {
        let second = now.0 / SECOND.0;
        let mut seconds = Vec::with_capacity(self.boxes.len());
        for (of_box, one) in self.boxes.iter_mut().enumerate() {
            let mut sent_bytes = one.origin_sent_bytes;
            let mut samples = Vec::with_capacity(one.jobs_before.len());
            for (disk, before) in one.server.each_disk().zip(&mut one.jobs_before) {
                let stats = disk.stats();
                sent_bytes += stats.bytes_sent;
                samples.push(DiskSample {
                    is_gone: false,
                    is_refusing: disk.is_overloaded(),
                    jobs: stats.jobs - before.0,
                    jobs_late: stats.jobs_late - before.1,
                });
                *before = (stats.jobs, stats.jobs_late);
            }
            let answer = (!one.is_down).then(|| match self.has_agents {
                true => one.share.handle_second(&samples, false),
                false => AgentAnswer::Up(100),
            });
            self.balancer.handle_check(second, of_box, answer);
            seconds.push(BoxSecond {
                sent_bytes,
                in_progress: self.balancer.in_progress(of_box),
                is_up: !one.is_down,
            });
        }
        self.recorder.add(seconds.into_iter());
    }

    /// The bytes of a reply have come from the origin.
    fn fetched(&mut self, id: u64) {
        let Some(reply) = self.replies.get(id) else {
            return;
        };
        let (asker, bytes) = (reply.asker, reply.bytes);
        let one = &mut self.boxes[reply.of_box];
        if one.process != reply.process {
            self.outcomes.push_back(OriginEvent::Failed(asker));
            return self.end_origin_reply(id);
        }
        one.origin_sent_bytes += bytes;
        self.outcomes.push_back(OriginEvent::Piece(ReplyPiece {
            asker,
            request: of_all(ORIGIN_DISK, RequestId(id)),
            slot: Slot(0),
            bytes,
            head: Some(bytes),
            is_last: true,
        }));
    }

    fn end_origin_reply(&mut self, id: u64) {
        if let Some(reply) = self.replies.remove(id) {
            self.boxes[reply.of_box].origin_replies -= 1;
            self.note(reply.of_box);
        }
    }

    /// Asks a box that is in service.
    fn ask_box(
        &mut self,
        now: Instant,
        of_box: usize,
        asker: Requester,
        asking: &FileRequest<'_>,
    ) -> Result<RequestId, u16> {
        let place = asking.place;
        if (place.disk / self.disks) as usize == of_box {
            let place = FileLocation {
                disk: place.disk % self.disks,
                ..place.clone()
            };
            let asking = FileRequest {
                place: &place,
                ..*asking
            };
            return self.with_box(of_box, |server| server.ask_at(now, asker, &asking));
        }
        let wanted = asking.wanted();
        if wanted.is_empty() {
            return Err(416);
        }
        let key = PartKey::new(of_box, asking.object, wanted);
        match self.pulled.get(&key).copied() {
            Some(part) if part.at <= now => {
                let place = part.place(place.bit_rate);
                let asking = FileRequest {
                    object: part.file,
                    place: &place,
                    range: Some(ByteRange::new(0, part.bytes)),
                };
                self.with_box(of_box, |server| server.ask_at(now, asker, &asking))
            }
            // Another request has made the box fetch it.
            Some(part) => Ok(self.answer_at(part.at, of_box, asker, wanted.len())),
            None => {
                let took = self.origin.delay + self.origin.rate.time_for(wanted.len());
                let at = now + took;
                self.recorder.used.boxes[of_box].pulled_bytes += wanted.len();
                if let Some(part) = self.pulled.add(key, at) {
                    let process = self.boxes[of_box].process;
                    self.plan(at, FleetEvent::Stored(of_box, part, process));
                }
                Ok(self.answer_at(at, of_box, asker, wanted.len()))
            }
        }
    }

    /// A reply whose bytes come from the origin at that time.
    fn answer_at(&mut self, at: Instant, of_box: usize, asker: Requester, bytes: u64) -> RequestId {
        let one = &mut self.boxes[of_box];
        one.origin_replies += 1;
        let id = self.replies.add(OriginReply {
            asker,
            of_box,
            process: one.process,
            bytes,
        });
        self.plan(at, FleetEvent::Fetched(id));
        self.note(of_box);
        of_all(ORIGIN_DISK, RequestId(id))
    }
}

impl Origin for FleetServer {
    fn socket_bytes(&self, bandwidth: Option<BitRate>, delay: Duration) -> u64 {
        let first = self.boxes.first();
        first.map_or(0, |one| one.server.socket_bytes(bandwidth, delay))
    }

    fn ask(
        &mut self,
        now: Instant,
        asker: Requester,
        object: ObjectId,
        range: Option<ByteRange>,
    ) -> Result<RequestId, u16> {
        let Some(place) = self.layout.place(object) else {
            return Err(404);
        };
        let asking = FileRequest {
            object,
            place: &place,
            range,
        };
        let title = self.hashes[self.titles[object.0 as usize] as usize];
        let mut avoid = None;
        for _ in 0..self.tries {
            let Some(of_box) = self.balancer.choose(title, avoid) else {
                break;
            };
            if self.boxes[of_box].is_down {
                self.recorder.used.boxes[of_box].unreachable += 1;
                avoid = Some(of_box);
                continue;
            }
            let asked = self.ask_box(now, of_box, asker, &asking);
            let used = &mut self.recorder.used;
            match asked {
                Err(503) => {
                    used.boxes[of_box].refused += 1;
                    avoid = Some(of_box);
                }
                Err(status) => return Err(status),
                Ok(request) => {
                    let is_away = (place.disk / self.disks) as usize != of_box;
                    used.redispatched += u64::from(avoid.is_some());
                    used.boxes[of_box].requests += 1;
                    used.boxes[of_box].requests_away += u64::from(is_away);
                    return Ok(request);
                }
            }
        }
        self.recorder.used.refused += 1;
        Err(503)
    }

    fn leaves_at(&mut self, now: Instant, piece: &ReplyPiece) -> Instant {
        match self.box_of(piece.request) {
            Some(of_box) => self.boxes[of_box].server.leaves_at(now, piece),
            None => now,
        }
    }

    fn handed(&mut self, _: Instant, _: &ReplyPiece, _: &Link, taken: Instant) -> Instant {
        taken
    }

    fn taken(&mut self, now: Instant, request: RequestId, slot: Slot) {
        match self.box_of(request) {
            Some(of_box) => self.with_box(of_box, |server| server.taken(now, request, slot)),
            None => self.end_origin_reply(of_disk(request).1.0),
        }
    }

    fn gone(&mut self, now: Instant, request: RequestId) {
        match self.box_of(request) {
            Some(of_box) => self.with_box(of_box, |server| server.gone(now, request)),
            None => self.end_origin_reply(of_disk(request).1.0),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for of_box in 0..self.boxes.len() {
            if self.boxes_next_at[of_box] <= now {
                self.with_box(of_box, |server| server.handle_timeout(now));
            }
        }
        while let Some(event) = self.events.take_due(now) {
            self.happen(now, event);
        }
        self.note_next();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (self.next_at < Instant::NEVER).then_some(self.next_at)
    }

    fn poll_outcome(&mut self) -> Option<OriginEvent> {
        self.outcomes.pop_front()
    }

    fn reply_count(&self) -> usize {
        let boxes = self.boxes.iter().map(|one| one.server.reply_count());
        boxes.sum::<usize>() + self.replies.len()
    }

    fn drive_use(&self) -> DriveUse {
        let mut all = DriveUse::default();
        for one in &self.boxes {
            all += one.server.drive_use();
        }
        all
    }

    fn pattern(&self) -> Option<&AccessPattern> {
        self.boxes.first()?.server.pattern()
    }

    fn begin_window(&mut self, now: Instant) {
        for one in &mut self.boxes {
            one.server.begin_window(now);
        }
        self.recorder.begin();
    }

    fn disks(&self) -> Vec<DiskUse> {
        let boxes = self.boxes.iter();
        boxes.flat_map(|one| one.server.disks()).collect()
    }

    fn take_waits(&mut self) -> Histogram {
        let mut all = Histogram::default();
        for one in &mut self.boxes {
            all.merge(&one.server.take_waits());
        }
        all
    }

    fn know(&mut self, object: ObjectId, title: u32, place: FileLocation) {
        let index = object.0 as usize;
        if index >= self.titles.len() {
            self.titles.resize(index + 1, 0);
        }
        self.titles[index] = title;
        self.layout.know(object, place);
    }

    fn live(&self) -> usize {
        let boxes: usize = self.boxes.iter().map(|one| one.server.live()).sum();
        boxes + self.replies.len() + self.events.len() + self.outcomes.len()
    }

    fn state(&self) -> ServerState {
        let states = self.boxes.iter().map(|one| one.server.state());
        ServerState::of_all(states).expect("World::of_fleet refuses a fleet without a box")
    }

    fn cache(&self) -> Option<CacheUse> {
        None
    }

    fn fleet(&self) -> Option<FleetUse> {
        Some(self.recorder.used.clone())
    }
}
