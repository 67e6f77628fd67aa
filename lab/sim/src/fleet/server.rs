//! The fleet as a server: passes each request to a box, as the balancer decides, or to the next one
//! if it is refused, and fetches from a peer or the origin what the box lacks.
//!
//! Imitated: HAProxy, whose decisions are those of `headlong_fleet::Balancer`, without its own time
//! or connections; and the edge of a box, without slices and revalidation. Peers are asked in the
//! server's order (`headlong_fleet::TitleOrder`).
//!
//! Invariant: boxes share nothing but the balancer, and the balancer knows of them only what its
//! checks, its agents and the replies tell.

use std::collections::{BTreeMap, VecDeque};

use headlong_engine::{RequestId, Slot};
use headlong_fleet::{AgentAnswer, Balancer, BearableShare, DiskSample, TitleOrder, title_hash};
use headlong_player::{CallId, ObjectId};
use headlong_units::{BitRate, ByteRange, Duration, Instant};

use crate::device::{AccessPattern, DriveUse};
use crate::event_queue::EventQueue;
use crate::fleet::pulled::{PartKey, PullSpace, PulledParts};
use crate::fleet::setup::{FleetSetup, OriginLink};
use crate::fleet::usage::{BoxSecond, FleetRecorder, FleetUse};
use crate::histogram::Histogram;
use crate::layout::{FileLocation, Layout, TitleCopy};
use crate::link::Link;
use crate::next_times::NextTimes;
use crate::origin::{CacheUse, Origin, OriginEvent, ReplyPiece, Requester, ServerState};
use crate::request::{FileRequest, of_all, of_disk};
use crate::server::SimulatedServer;
use crate::slab::Slab;
use crate::usage::DiskUse;

const SECOND: Duration = Duration::from_secs(1);
/// Disk number in the ids of requests that the origin answers.
const ORIGIN_DISK: u32 = u16::MAX as u32;
/// Bit of a requester's session that marks a box which fetches a part for this viewer; the call is
/// then the number of the fetch.
const FETCHES: u32 = 1 << 31;
/// Peers that are asked for a part, as in the server.
const PEERS_ASKED_MAX: usize = 4;
/// From a request to a peer until its first byte, without its disk.
const PEER_DELAY: Duration = Duration::from_millis(1);
/// Most disks of a fleet.
pub(crate) const DISKS_MAX: u32 = ORIGIN_DISK - 1;

#[derive(Debug)]
enum FleetEvent {
    Second,
    Fails(usize),
    Returns(usize),
    /// The bytes of a fetch have come.
    Fetched(u64),
}

/// Number of a box's process: a restart begins the next one.
type ProcessNumber = u32;

/// A reply with bytes that its box fetches.
#[derive(Debug)]
struct FetchedReply {
    asker: Requester,
    of_box: usize,
    bytes: u64,
}

/// A part on its way to a box.
#[derive(Debug)]
struct PartFetch {
    key: PartKey,
    began: Instant,
    process: ProcessNumber,
    /// Replies that wait for it.
    replies: Vec<u64>,
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
    /// Replies in progress with bytes that it fetches.
    fetched_replies: u64,
    /// Bytes of such replies since the start.
    fetched_sent_bytes: u64,
    /// Replies in progress to other boxes.
    peer_replies: u64,
}

/// The fleet in virtual time.
#[derive(Debug)]
pub(crate) struct FleetServer {
    boxes: Vec<SimulatedBox>,
    /// Disks of a box.
    disks: u32,
    balancer: Balancer,
    /// The order in which boxes ask their peers; none if they do not.
    peers: Option<TitleOrder>,
    tries: u32,
    has_agents: bool,
    origin: OriginLink,
    /// Where each file lies at the first box of its title.
    layout: Layout,
    /// Copies of titles at other boxes, by number of title.
    further_copies: BTreeMap<u32, Vec<TitleCopy>>,
    /// The balancer's hash of each title.
    hashes: Vec<u32>,
    /// The title of each file.
    titles: Vec<u32>,
    pulled: PulledParts,
    fetches: Slab<PartFetch>,
    /// The latest fetch of each part that is on its way.
    fetching: BTreeMap<PartKey, u64>,
    replies: Slab<FetchedReply>,
    events: EventQueue<FleetEvent>,
    outcomes: VecDeque<OriginEvent>,
    recorder: FleetRecorder,
    boxes_next: NextTimes,
}

impl FleetServer {
    /// `servers` are the boxes, each with `disks` disks, numbered throughout; `hashes` those of
    /// the titles, and `space` what each disk has for fetched bytes.
    pub(crate) fn new(
        servers: Vec<SimulatedServer>,
        disks: u32,
        setup: &FleetSetup,
        hashes: Vec<u32>,
        space: PullSpace,
    ) -> Self {
        let count = servers.len();
        let boxes = servers.into_iter().map(|server| SimulatedBox {
            server,
            is_down: false,
            process: 0,
            share: BearableShare::default(),
            jobs_before: vec![(0, 0); disks as usize],
            fetched_replies: 0,
            fetched_sent_bytes: 0,
            peer_replies: 0,
        });
        let mut fleet = Self {
            boxes: boxes.collect(),
            disks,
            balancer: setup.balancer(),
            peers: setup.has_peers.then(|| setup.peer_order()),
            tries: setup.tries,
            has_agents: setup.has_agents,
            origin: setup.origin,
            layout: Layout::empty(),
            further_copies: BTreeMap::new(),
            hashes,
            titles: Vec::new(),
            pulled: PulledParts::new(count, disks, space),
            fetches: Slab::default(),
            fetching: BTreeMap::new(),
            replies: Slab::default(),
            events: EventQueue::new(),
            outcomes: VecDeque::new(),
            recorder: FleetRecorder::new(count),
            boxes_next: NextTimes::new(count),
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
        fleet
    }

    /// Places titles by a plan: the hashes of their keys by the hash of the title, and copies
    /// besides the first by number of title.
    pub(crate) fn set_places(
        &mut self,
        keys: BTreeMap<u32, Vec<u32>>,
        further_copies: BTreeMap<u32, Vec<TitleCopy>>,
    ) {
        self.balancer.set_keys(keys);
        self.further_copies = further_copies;
    }

    /// The box of a request; none if the origin answers it.
    fn box_of(&self, request: RequestId) -> Option<usize> {
        let (disk, _) = of_disk(request);
        (disk != ORIGIN_DISK).then(|| (disk / self.disks) as usize)
    }

    /// Calls a box, and collects its outcomes.
    fn with_box<T>(
        &mut self,
        now: Instant,
        of_box: usize,
        act: impl FnOnce(&mut SimulatedServer) -> T,
    ) -> T {
        let result = act(&mut self.boxes[of_box].server);
        self.collect(now, of_box);
        result
    }

    fn collect(&mut self, now: Instant, of_box: usize) {
        while let Some(outcome) = self.boxes[of_box].server.poll_outcome() {
            let asker = match &outcome {
                OriginEvent::Piece(piece) => piece.asker,
                OriginEvent::Failed(asker) => *asker,
            };
            match asker.session & FETCHES {
                0 => self.outcomes.push_back(outcome),
                _ => self.handle_peer(now, of_box, u64::from(asker.call.0), &outcome),
            }
        }
        self.note(of_box);
    }

    /// Updates what follows from the state of a box: its requests in progress and the next timeout.
    fn note(&mut self, of_box: usize) {
        let one = &self.boxes[of_box];
        let replies = one.server.reply_count() as u64 + one.fetched_replies;
        // The balancer does not see what boxes request of each other.
        let replies = replies - one.peer_replies;
        self.balancer.set_in_progress(of_box, replies);
        let next = one.server.poll_timeout().unwrap_or(Instant::NEVER);
        self.boxes_next.set(of_box, next);
    }

    fn happen(&mut self, now: Instant, event: FleetEvent) {
        match event {
            FleetEvent::Second => {
                self.check(now);
                self.events.plan(now + SECOND, FleetEvent::Second);
            }
            FleetEvent::Fails(of_box) => {
                let one = &mut self.boxes[of_box];
                one.is_down = true;
                one.process += 1;
                one.share = BearableShare::default();
                self.with_box(now, of_box, |server| server.kill(now));
            }
            FleetEvent::Returns(of_box) => {
                self.boxes[of_box].is_down = false;
                self.with_box(now, of_box, |server| server.start_again(now));
            }
            FleetEvent::Fetched(fetch) => self.fetched(now, fetch),
        }
    }

    /// The checks of a second: the balancer's, and the agents' of the disks.
    fn check(&mut self, now: Instant) {
        let second = now.0 / SECOND.0;
        let mut seconds = Vec::with_capacity(self.boxes.len());
        for (of_box, one) in self.boxes.iter_mut().enumerate() {
            let mut sent_bytes = one.fetched_sent_bytes;
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

    /// The bytes of a fetch have come: its box writes them, and replies.
    fn fetched(&mut self, now: Instant, number: u64) {
        let Some(fetch) = self.fetches.remove(number) else {
            return;
        };
        let (key, of_box) = (fetch.key, fetch.key.of_box());
        if self.fetching.get(&key) == Some(&number) {
            self.fetching.remove(&key);
        }
        let is_lost = self.boxes[of_box].process != fetch.process;
        if !is_lost && let Some(part) = self.pulled.add(key) {
            let (disk, physical) = (part.disk as usize, part.physical);
            self.with_box(now, of_box, |server| {
                server.write(now, disk, physical, part.bytes);
            });
        }
        for id in fetch.replies {
            let Some(FetchedReply { asker, bytes, .. }) = self.replies.get(id) else {
                continue;
            };
            let (asker, bytes) = (*asker, *bytes);
            if is_lost {
                self.outcomes.push_back(OriginEvent::Failed(asker));
                self.end_reply(id);
                continue;
            }
            self.boxes[of_box].fetched_sent_bytes += bytes;
            self.outcomes.push_back(OriginEvent::Piece(ReplyPiece {
                asker,
                request: of_all(ORIGIN_DISK, RequestId(id)),
                slot: Slot(0),
                bytes,
                head: Some(bytes),
                is_last: true,
            }));
        }
    }

    fn end_reply(&mut self, id: u64) {
        if let Some(reply) = self.replies.remove(id) {
            self.boxes[reply.of_box].fetched_replies -= 1;
            self.note(reply.of_box);
        }
    }

    /// Where a file lies at a box that has a copy of its title.
    fn copy_at(&self, of_box: usize, asking: &FileRequest<'_>) -> Option<FileLocation> {
        let is_here = |disk: u32| (disk / self.disks) as usize == of_box;
        let place = if is_here(asking.place.disk) {
            asking.place.clone()
        } else {
            let title = self.titles[asking.object.0 as usize];
            let mut copies = self.further_copies.get(&title)?.iter();
            let copy = copies.find(|copy| is_here(copy.disk))?;
            asking.place.of_copy(*copy)
        };
        let disk = place.disk % self.disks;
        Some(FileLocation { disk, ..place })
    }

    /// What a box has of a requested range: the file if it has the title, or a part.
    fn stored(
        &self,
        of_box: usize,
        asking: &FileRequest<'_>,
    ) -> Option<(ObjectId, FileLocation, Option<ByteRange>)> {
        if let Some(place) = self.copy_at(of_box, asking) {
            return Some((asking.object, place, asking.range));
        }
        let key = PartKey::new(of_box, asking.object, asking.wanted());
        let part = self.pulled.get(&key)?;
        let range = ByteRange::new(0, part.bytes);
        let place = part.place(asking.place.bit_rate);
        Some((part.file, place, Some(range)))
    }

    /// Asks a box that is in service.
    fn ask_box(
        &mut self,
        now: Instant,
        of_box: usize,
        asker: Requester,
        asking: &FileRequest<'_>,
    ) -> Result<RequestId, u16> {
        if let Some((object, place, range)) = self.stored(of_box, asking) {
            let asking = FileRequest {
                object,
                place: &place,
                range,
            };
            return self.with_box(now, of_box, |server| server.ask_at(now, asker, &asking));
        }
        let wanted = asking.wanted();
        if wanted.is_empty() {
            return Err(416);
        }
        let key = PartKey::new(of_box, asking.object, wanted);
        let process = self.boxes[of_box].process;
        let known = self.fetching.get(&key).copied();
        let known = known.filter(|fetch| {
            let fetch = self.fetches.get(*fetch);
            fetch.is_some_and(|fetch| fetch.process == process)
        });
        let fetch = known.unwrap_or_else(|| self.fetch(now, key, asker, asking));
        let id = self.replies.add(FetchedReply {
            asker,
            of_box,
            bytes: wanted.len(),
        });
        if let Some(fetch) = self.fetches.get_mut(fetch) {
            fetch.replies.push(id);
        }
        self.boxes[of_box].fetched_replies += 1;
        self.note(of_box);
        Ok(of_all(ORIGIN_DISK, RequestId(id)))
    }

    /// Begins to fetch a part, from the first peer that has it or from the origin.
    fn fetch(
        &mut self,
        now: Instant,
        key: PartKey,
        asker: Requester,
        asking: &FileRequest<'_>,
    ) -> u64 {
        let fetch = self.fetches.add(PartFetch {
            key,
            began: now,
            process: self.boxes[key.of_box()].process,
            replies: Vec::new(),
        });
        self.fetching.insert(key, fetch);
        let title = self.hash_of(asking.object);
        let order = self.peers.iter().flat_map(|order| order.boxes_of(title));
        let others = order.filter(|peer| *peer != key.of_box());
        let peers: Vec<usize> = others.take(PEERS_ASKED_MAX).collect();
        let asker = Requester {
            session: asker.session | FETCHES,
            call: CallId(fetch as u32),
            is_whole: false,
        };
        let mut peers = peers.into_iter();
        if !peers.any(|peer| self.ask_peer(now, peer, asker, asking)) {
            self.ask_origin(now, fetch);
        }
        fetch
    }

    /// Asks a peer for a part; returns whether it has it and has begun to send it.
    fn ask_peer(
        &mut self,
        now: Instant,
        peer: usize,
        asker: Requester,
        asking: &FileRequest<'_>,
    ) -> bool {
        let stored = self.stored(peer, asking);
        let Some((object, place, range)) = stored.filter(|_| !self.boxes[peer].is_down) else {
            return false;
        };
        let asking = FileRequest {
            object,
            place: &place,
            range,
        };
        let one = &mut self.boxes[peer];
        let is_asked = one.server.ask_at(now, asker, &asking).is_ok();
        one.peer_replies += u64::from(is_asked);
        self.collect(now, peer);
        is_asked
    }

    /// A peer has sent a piece, or has failed.
    fn handle_peer(&mut self, now: Instant, peer: usize, number: u64, outcome: &OriginEvent) {
        let one = &mut self.boxes[peer];
        let OriginEvent::Piece(piece) = outcome else {
            one.peer_replies -= 1;
            return self.ask_origin(now, number);
        };
        self.recorder.used.boxes[peer].peer_bytes += piece.bytes;
        // The network between boxes is faster than a disk.
        one.server.taken(now, piece.request, piece.slot);
        if piece.is_last {
            one.peer_replies -= 1;
            if let Some(fetch) = self.fetches.get(number) {
                let rate = self.origin.rate;
                let whole = fetch.began + rate.time_for(fetch.key.bytes());
                let at = whole.max(now + rate.time_for(piece.bytes)) + PEER_DELAY;
                self.events.plan(at, FleetEvent::Fetched(number));
            }
        }
    }

    /// Asks the origin for the part of a fetch.
    fn ask_origin(&mut self, now: Instant, number: u64) {
        if let Some(PartFetch { key, .. }) = self.fetches.get(number) {
            let took = self.origin.delay + self.origin.rate.time_for(key.bytes());
            self.events.plan(now + took, FleetEvent::Fetched(number));
            self.recorder.used.boxes[key.of_box()].pulled_bytes += key.bytes();
        }
    }

    /// The balancer's hash of the title of a file.
    fn hash_of(&self, object: ObjectId) -> u32 {
        self.hashes[self.titles[object.0 as usize] as usize]
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
        let title = self.hash_of(object);
        // Each viewer has an address of its own.
        let viewer = title_hash(&asker.session.to_string());
        let mut avoid = None;
        for _ in 0..self.tries {
            let Some(of_box) = self.balancer.choose(title, viewer, avoid) else {
                break;
            };
            if self.boxes[of_box].is_down {
                self.recorder.used.boxes[of_box].unreachable += 1;
                avoid = Some(of_box);
                continue;
            }
            let is_away = self.copy_at(of_box, &asking).is_none();
            let asked = self.ask_box(now, of_box, asker, &asking);
            let used = &mut self.recorder.used;
            match asked {
                Err(503) => {
                    used.boxes[of_box].refused += 1;
                    avoid = Some(of_box);
                }
                Err(status) => return Err(status),
                Ok(request) => {
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
            Some(of_box) => self.with_box(now, of_box, |server| server.taken(now, request, slot)),
            None => self.end_reply(of_disk(request).1.0),
        }
    }

    fn gone(&mut self, now: Instant, request: RequestId) {
        match self.box_of(request) {
            Some(of_box) => self.with_box(now, of_box, |server| server.gone(now, request)),
            None => self.end_reply(of_disk(request).1.0),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let mut from = 0;
        while let Some(of_box) = self.boxes_next.due_from(from, now) {
            self.with_box(now, of_box, |server| server.handle_timeout(now));
            from = of_box + 1;
        }
        while let Some(event) = self.events.take_due(now) {
            self.happen(now, event);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let first = self.boxes_next.first();
        let own = self.events.next_at();
        own.into_iter()
            .chain((first < Instant::NEVER).then_some(first))
            .min()
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
        boxes + self.replies.len() + self.fetches.len() + self.events.len() + self.outcomes.len()
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
