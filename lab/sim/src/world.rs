//! The world: viewers, their network links, and the server, on one event queue.
//!
//! Time jumps from one event to the next. The cores are called exactly as the production code calls
//! them; this module carries requests and bytes between them and adds the delays of the network.
//!
//! Invariants: same setup, same record; every session that arrives ends at most once; a slot given
//! to a socket is returned once, whichever side closes first; memory use does not grow with the
//! length of the run: viewers are drawn when they arrive and dropped when they leave. The world
//! never inspects the state of a core to choose events.

use std::collections::BTreeMap;

use headlong_drive::{Drive, SECTOR_BYTES};
use headlong_engine::{EngineConfig, RequestId, Shard, Slot};
use headlong_player::{
    CallId, Command, ObjectId, PartialRead, Player, SessionEnd, SessionPlan, TransportEnd,
};
use headlong_units::{ByteRange, Duration, Instant};
use headlong_workload::{Catalogue, NetworkClass, Session, SessionStream, Trace};

use crate::device::QueuedDrive;
use crate::disk::SimulatedDisk;
use crate::disk_server::DiskServer;
use crate::event_queue::EventQueue;
use crate::fleet::{FleetServer, FleetSetup, PlacedFleet};
use crate::layout::{DiskArray, Layout, LayoutFile, TitlePlacement};
use crate::link::Link;
use crate::measure::{LOOK_INTERVAL, RunMeasurements};
use crate::origin::{Origin, OriginEvent, ReplyPiece, Requester};
use crate::page_cache_server::PageCacheServer;
use crate::server::SimulatedServer;
use crate::setup::{ServerModel, SetupError, WorldSetup};
use crate::slab::Slab;
use crate::tier::SimulatedTier;

/// A future event.
#[derive(Debug)]
enum WorldEvent {
    Arrival,
    Player(u32),
    Request {
        session: u32,
        call: CallId,
        object: ObjectId,
        range: Option<ByteRange>,
        /// The request that the player announces as its next.
        next: Option<(ObjectId, Option<ByteRange>)>,
    },
    /// A viewer has room for a piece that waited for it.
    Room(ReplyPiece),
    /// A socket has accepted a piece.
    Taken(RequestId, Slot),
    /// Bytes reach a viewer.
    Bytes {
        session: u32,
        call: CallId,
        bytes: u64,
        /// Status and length of the reply, with its first bytes.
        head: Option<(u16, u64)>,
        /// Whether they are the reply's last.
        is_last: bool,
    },
    /// A refusal reaches a viewer.
    Status {
        session: u32,
        call: CallId,
        status: u16,
    },
    /// The end of a broken reply reaches a viewer.
    Broken {
        session: u32,
        call: CallId,
    },
    /// The end of a connection reaches the server.
    Gone(RequestId),
    /// A regular snapshot of the state.
    Look,
    /// The server saves its learned state.
    StateWritten,
    Killed,
    StartedAgain,
    WindowOpens,
    WindowCloses,
    End,
}

/// Source of viewers.
#[derive(Debug)]
enum ViewerSource<'a> {
    /// The remaining sessions of a trace.
    Listed(std::slice::Iter<'a, Session>),
    /// Drawn as they come, and where the titles lie that they ask for.
    Drawn(Box<SessionStream<'a>>, TitlePlacement<'a>),
}

/// A viewer in the world.
#[derive(Debug)]
struct ActiveViewer {
    /// Number of the session in the run, from 0.
    number: u64,
    player: Player<SessionPlan>,
    class: u32,
    /// Planned time of arrival.
    arrived: Instant,
    link: Link,
    /// Calls sent and not ended, with their disks.
    open: Vec<(CallId, u32)>,
    /// Calls that the server is working on.
    asked: Vec<(CallId, RequestId)>,
    /// Calls whose replies are read gradually.
    readings: Vec<GradualReading>,
    /// The earliest planned timeout of the player.
    timer: Option<Instant>,
}

/// A reply that its viewer reads gradually.
#[derive(Debug)]
struct GradualReading {
    call: CallId,
    sent: Instant,
    reading: PartialRead,
    /// Bytes passed on to the viewer, or that wait for room.
    given: u64,
}

/// A world.
#[derive(Debug)]
pub struct World<'a> {
    classes: Vec<NetworkClass>,
    viewers: ViewerSource<'a>,
    /// The next viewer, whose arrival is planned.
    next: Option<Session>,
    setup: WorldSetup,
    now: Instant,
    events: EventQueue<WorldEvent>,
    /// Present viewers, by the number of their session, which is also their id at the server.
    visits: Slab<ActiveViewer>,
    server: Box<dyn Origin>,
    measure: RunMeasurements,
    is_closed: bool,
    stopped: bool,
    /// The server is down.
    is_down: bool,
}

impl<'a> World<'a> {
    /// A world for the viewers of a trace, before its first event.
    ///
    /// # Errors
    /// The first reason why it cannot be built.
    pub fn new(
        setup: WorldSetup,
        files: &[LayoutFile],
        trace: &'a Trace,
        drive: Box<dyn Drive>,
    ) -> Result<Self, SetupError> {
        Self::of_disks(setup, files, trace, vec![drive])
    }

    /// A world with several disks of one size: [`LayoutFile::disk`] is the disk of each file.
    ///
    /// # Errors
    /// The first reason why it cannot be built.
    pub fn of_disks(
        setup: WorldSetup,
        files: &[LayoutFile],
        trace: &'a Trace,
        drives: Vec<Box<dyn Drive>>,
    ) -> Result<Self, SetupError> {
        let disks = disks_of(&drives, &setup);
        let layout = Layout::new(files, disks).map_err(SetupError::Catalogue)?;
        for (session, planned) in trace.sessions.iter().enumerate() {
            if planned.class as usize >= trace.classes.len() {
                let what = "network class";
                return Err(SetupError::Trace { session, what });
            }
        }
        let viewers = ViewerSource::Listed(trace.sessions.iter());
        let setup = WorldSetup {
            identity: trace.about.identity,
            ..setup
        };
        let server = origin(&setup, layout, drives)?;
        Self::with(setup, &trace.classes, viewers, server)
    }

    /// A world for viewers that are drawn as they arrive, with disks of one size.
    ///
    /// # Errors
    /// The first reason why it cannot be built.
    pub fn drawn(
        setup: WorldSetup,
        catalogue: &'a Catalogue,
        classes: &[NetworkClass],
        sessions: SessionStream<'a>,
        drives: Vec<Box<dyn Drive>>,
    ) -> Result<Self, SetupError> {
        let disks = disks_of(&drives, &setup);
        let ground = TitlePlacement::new(catalogue, disks).map_err(SetupError::Catalogue)?;
        let viewers = ViewerSource::Drawn(Box::new(sessions), ground);
        let server = origin(&setup, Layout::empty(), drives)?;
        Self::with(setup, classes, viewers, server)
    }

    /// A world in which a balancer shares viewers out to the boxes of a fleet. The setup is that of
    /// one box, with its memory and its disks; `drives` are those of all boxes, box by box. Titles
    /// are `placed` by a plan, or at the boxes that their hashes select.
    ///
    /// # Errors
    /// The first reason why it cannot be built.
    pub(crate) fn of_fleet(
        setup: WorldSetup,
        fleet: &FleetSetup,
        placed: Option<&PlacedFleet>,
        catalogue: &'a Catalogue,
        classes: &[NetworkClass],
        sessions: SessionStream<'a>,
        drives: Vec<Box<dyn Drive>>,
    ) -> Result<Self, SetupError> {
        if setup.disks == 0 || drives.is_empty() {
            return Err(SetupError::NoDisk);
        }
        let is_plain = setup.flash.is_none() && setup.restart.is_none();
        if !is_plain || setup.server != ServerModel::Headlong {
            return Err(SetupError::NotInFleet);
        }
        let all = disks_of(&drives, &setup);
        let space = fleet.pull_space(all.capacity_bytes, setup.disks);
        let hashes = FleetSetup::hashes(catalogue);
        let disks = DiskArray {
            count: fleet.boxes.len() as u32 * setup.disks,
            capacity_bytes: space.first,
            ..all
        };
        let (of_titles, further) = match placed {
            Some(placed) => (placed.disks.clone(), placed.further.clone()),
            None => (fleet.disks_of_titles(&hashes, setup.disks), BTreeMap::new()),
        };
        let ground = TitlePlacement::with_disks(catalogue, disks, of_titles, further);
        let ground = ground.map_err(SetupError::Catalogue)?;
        let further_copies = ground.further_copies().clone();
        let viewers = ViewerSource::Drawn(Box::new(sessions), ground);
        let mut drives = drives.into_iter();
        let mut boxes = Vec::new();
        for number in 0..fleet.boxes.len() as u32 {
            let own = drives.by_ref().take(setup.disks as usize).collect();
            let first = number * setup.disks;
            boxes.push(headlong(&setup, Layout::empty(), own, first)?);
        }
        let mut server = FleetServer::new(boxes, setup.disks, fleet, hashes, space);
        if let Some(placed) = placed {
            server.set_places(placed.keys.clone(), further_copies);
        }
        Self::with(setup, classes, viewers, Box::new(server))
    }

    fn with(
        setup: WorldSetup,
        classes: &[NetworkClass],
        viewers: ViewerSource<'a>,
        server: Box<dyn Origin>,
    ) -> Result<Self, SetupError> {
        let mut world = Self {
            classes: classes.to_vec(),
            viewers,
            next: None,
            now: Instant::ZERO,
            events: EventQueue::new(),
            visits: Slab::default(),
            server,
            measure: RunMeasurements::new(setup.window, classes, setup.keeps_calls),
            is_closed: false,
            stopped: false,
            is_down: false,
            setup,
        };
        let window = world.setup.window;
        world.events.plan(window.from, WorldEvent::WindowOpens);
        world.events.plan(window.to, WorldEvent::WindowCloses);
        world.events.plan(Instant::ZERO, WorldEvent::Look);
        if let Some(restart) = world.setup.restart {
            if world.setup.server != ServerModel::Headlong {
                return Err(SetupError::NoRestart);
            }
            if let Some(age) = restart.kept {
                let written = Instant(restart.at.0.saturating_sub(age.0));
                world.events.plan(written, WorldEvent::StateWritten);
            }
            world.events.plan(restart.at, WorldEvent::Killed);
            let back = restart.at + restart.down;
            world.events.plan(back, WorldEvent::StartedAgain);
        }
        world.plan_arrival();
        Ok(world)
    }

    /// Runs until the ramp after the window is over or, if the setup says so, until the first
    /// failure.
    pub fn run(mut self) -> RunMeasurements {
        while !self.stopped && self.step() {}
        self.close();
        self.measure
    }

    /// Runs until every viewer has left.
    pub fn run_to_the_end(mut self) -> RunMeasurements {
        while self.step() {
            let is_empty = self.next.is_none() && self.visits.is_empty();
            if is_empty && self.server.reply_count() == 0 {
                break;
            }
        }
        self.close();
        self.measure.memory_at_end = Some(self.server.state().memory);
        self.measure
    }

    /// Processes the next event; returns whether there was one.
    fn step(&mut self) -> bool {
        let next = [self.events.next_at(), self.server.poll_timeout()];
        let Some(next) = next.into_iter().flatten().min() else {
            return false;
        };
        if next == Instant::NEVER {
            return false;
        }
        self.now = self.now.max(next);
        if self.server.poll_timeout().is_some_and(|at| at <= self.now) {
            self.server.handle_timeout(self.now);
            self.pass_on();
        }
        if let Some(coming) = self.events.take_due(self.now) {
            self.measure.events += 1;
            self.happen(coming);
        }
        true
    }

    fn happen(&mut self, coming: WorldEvent) {
        let now = self.now;
        match coming {
            WorldEvent::Arrival => self.arrive(),
            WorldEvent::Player(session) => self.look_at_player(session),
            WorldEvent::Request {
                session,
                call,
                object,
                range,
                next,
            } => self.request((session, call), (object, range), next),
            WorldEvent::Room(piece) => {
                let visit = self.visits.get_mut(u64::from(piece.asker.session));
                let waits = (piece.asker.call, piece.request);
                // Otherwise the viewer has closed the call meanwhile.
                if visit.is_some_and(|visit| visit.asked.contains(&waits)) {
                    self.pass(piece);
                }
            }
            WorldEvent::Taken(request, slot) => {
                self.server.taken(now, request, slot);
                self.pass_on();
            }
            WorldEvent::Bytes {
                session,
                call,
                bytes,
                head,
                is_last,
            } => {
                self.measure.arrived(now, bytes);
                self.with_player(session, |player| {
                    if let Some((status, length)) = head {
                        player.handle_head(now, call, status, Some(length));
                    }
                    player.handle_bytes(now, call, bytes);
                    if is_last {
                        player.handle_end(now, call, TransportEnd::Whole);
                    }
                });
            }
            WorldEvent::Status {
                session,
                call,
                status,
            } => self.with_player(session, |player| {
                player.handle_end(now, call, TransportEnd::Refused(status));
            }),
            WorldEvent::Broken { session, call } => self.with_player(session, |player| {
                player.handle_end(now, call, TransportEnd::Broken);
            }),
            WorldEvent::Gone(request) => {
                self.server.gone(now, request);
                self.pass_on();
            }
            WorldEvent::Look => {
                let live = self.visits.len() + self.events.len() + self.server.live();
                let seen = (&self.server.state(), self.server.drive_use());
                self.measure.look(now, seen, live);
                self.events.plan(now + LOOK_INTERVAL, WorldEvent::Look);
            }
            WorldEvent::StateWritten => self.server.write_state(now),
            WorldEvent::Killed => {
                self.is_down = true;
                self.server.kill(now);
                self.pass_on();
            }
            WorldEvent::StartedAgain => {
                self.is_down = false;
                self.server.start_again(now);
            }
            WorldEvent::WindowOpens => {
                self.server.begin_window(now);
                self.measure.open(&mut *self.server);
            }
            WorldEvent::WindowCloses => {
                self.close();
                self.events
                    .plan(now + self.setup.ramp_down, WorldEvent::End);
            }
            WorldEvent::End => self.stopped = true,
        }
    }

    /// Plans the arrival of the next viewer, and adds the files that it will request.
    fn plan_arrival(&mut self) {
        self.next = match &mut self.viewers {
            ViewerSource::Listed(sessions) => sessions.next().cloned(),
            ViewerSource::Drawn(sessions, ground) => {
                let known = sessions.object_count();
                let next = sessions.next();
                for id in known as u32..sessions.object_count() as u32 {
                    let Some(key) = sessions.object(ObjectId(id)) else {
                        continue;
                    };
                    if let Some(place) = ground.place(key) {
                        self.server.know(ObjectId(id), key.0, place);
                    }
                }
                next
            }
        };
        if let Some(next) = &self.next {
            self.events
                .plan(Instant::ZERO + next.arrival, WorldEvent::Arrival);
        }
    }

    fn arrive(&mut self) {
        let Some(session) = self.next.take() else {
            return;
        };
        let class = &self.classes[session.class as usize];
        let socket_bytes = self.server.socket_bytes(class.bandwidth, class.delay);
        let visit = ActiveViewer {
            number: self.measure.sessions_began(),
            player: Player::new(session.plan, self.now),
            class: session.class,
            arrived: Instant::ZERO + session.arrival,
            link: Link::new(class.bandwidth, class.delay, socket_bytes),
            open: Vec::new(),
            asked: Vec::new(),
            readings: Vec::new(),
            timer: None,
        };
        let number = self.visits.add(visit) as u32;
        self.measure.session_began(self.now);
        self.plan_arrival();
        let now = self.now;
        self.with_player(number, |player| player.handle_start(now));
    }

    fn look_at_player(&mut self, session: u32) {
        let Some(visit) = self.visits.get_mut(u64::from(session)) else {
            return;
        };
        if visit.timer.is_some_and(|at| at <= self.now) {
            visit.timer = None;
        }
        let now = self.now;
        self.with_player(session, |player| {
            if player.poll_timeout().is_some_and(|at| at <= now) {
                player.handle_timeout(now);
            }
        });
    }

    /// Calls a player and carries out its commands.
    fn with_player(&mut self, session: u32, act: impl FnOnce(&mut Player<SessionPlan>)) {
        let Some(visit) = self.visits.get_mut(u64::from(session)) else {
            return;
        };
        act(&mut visit.player);
        let delay = visit.link.delay();
        let mut is_over = false;
        let names_next = self.setup.names_next;
        while let Some(command) = visit.player.poll_command() {
            match command {
                Command::Send {
                    call,
                    object,
                    range,
                    expected_bytes,
                    reading,
                    ..
                } => {
                    let range_bytes = range.filter(|range| range.end < u64::MAX);
                    let bytes = reading.map(|reading| reading.bytes);
                    let bytes = bytes.or(expected_bytes).or(range_bytes.map(ByteRange::len));
                    self.measure.asked(self.now, bytes.unwrap_or(0));
                    visit.readings.extend(reading.map(|reading| GradualReading {
                        call,
                        sent: self.now,
                        reading,
                        given: 0,
                    }));
                    visit.open.push((call, self.server.disk_of(object)));
                    let request = WorldEvent::Request {
                        session,
                        call,
                        object,
                        range,
                        next: names_next.then(|| visit.player.upcoming()).flatten(),
                    };
                    self.events.plan(self.now + delay, request);
                }
                Command::Abandon { call } => {
                    let given_up = visit.asked.extract_if(.., |(asked, _)| *asked == call);
                    for (_, request) in given_up {
                        self.events
                            .plan(self.now + delay, WorldEvent::Gone(request));
                    }
                }
                Command::Close => {
                    for (_, request) in visit.asked.drain(..) {
                        self.events
                            .plan(self.now + delay, WorldEvent::Gone(request));
                    }
                    is_over = true;
                }
            }
        }
        let (number, class) = (visit.number, visit.class);
        let mut failed = false;
        while let Some(record) = visit.player.poll_record() {
            let place = visit.open.iter().position(|(call, _)| *call == record.call);
            let disk = place.map_or(0, |place| visit.open.remove(place).1);
            visit.asked.retain(|(call, _)| *call != record.call);
            visit.readings.retain(|gradual| gradual.call != record.call);
            failed |= record.end.is_failure();
            self.measure.call_ended(number, class, disk, &record);
        }
        if is_over {
            let (end, arrived) = (visit.player.end(), visit.arrived);
            self.visits.remove(u64::from(session));
            if let Some(end) = end {
                self.session_ended(class, arrived, &end);
            }
        } else if let Some(at) = visit.player.poll_timeout()
            && visit.timer.is_none_or(|timer| at < timer)
        {
            visit.timer = Some(at);
            self.events.plan(at, WorldEvent::Player(session));
        }
        if failed && self.setup.stops_at_failure && self.setup.window.contains(self.now) {
            self.stopped = true;
        }
    }

    fn session_ended(&mut self, class: u32, arrived: Instant, end: &SessionEnd) {
        let is_steady = self.setup.window.contains(arrived);
        self.measure.session_ended(class, is_steady, end);
        self.stopped |= is_steady && end.end.is_failure() && self.setup.stops_at_failed_session;
    }

    /// Closes the measurement.
    fn close(&mut self) {
        if !core::mem::replace(&mut self.is_closed, true) {
            self.measure.close(self.now, &mut *self.server);
        }
        self.measure.end(self.now, &*self.server);
    }
}

/// The disks for the files. The smallest drive determines the capacity.
fn disks_of(drives: &[Box<dyn Drive>], setup: &WorldSetup) -> DiskArray {
    let sectors = drives.iter().map(|drive| drive.capacity_sectors()).min();
    DiskArray {
        count: drives.len() as u32,
        capacity_bytes: sectors.unwrap_or(0) * SECTOR_BYTES,
        placement: setup.placement,
    }
}

/// The server, with its disks.
fn origin(
    setup: &WorldSetup,
    layout: Layout,
    drives: Vec<Box<dyn Drive>>,
) -> Result<Box<dyn Origin>, SetupError> {
    Ok(match &setup.server {
        ServerModel::Headlong => Box::new(headlong(setup, layout, drives, 0)?),
        ServerModel::Vanilla(vanilla) => {
            let mut devices = drives.into_iter().map(|drive| queued(setup, drive));
            match (devices.next(), devices.next()) {
                (Some(device), None) => Box::new(PageCacheServer::new(vanilla, layout, device)),
                (None, _) => return Err(SetupError::NoDisk),
                _ => return Err(SetupError::OneDisk("a vanilla server")),
            }
        }
    })
}

/// Headlong, with its disks, which are numbered from `first` on.
fn headlong(
    setup: &WorldSetup,
    layout: Layout,
    drives: Vec<Box<dyn Drive>>,
    first: u32,
) -> Result<SimulatedServer, SetupError> {
    let count = drives.len() as u64;
    if count == 0 {
        return Err(SetupError::NoDisk);
    }
    let config = EngineConfig {
        request_bytes_max: setup.request_bytes_max,
        // Divided as in the server.
        memory_bytes: setup.engine.memory_bytes / count,
        ..setup.engine
    };
    let mut disks = Vec::new();
    for (number, drive) in (first..).zip(drives) {
        let disk = SimulatedDisk::new(queued(setup, drive), setup.request_bytes_max);
        disks.push(DiskServer::new(number, Shard::new(config)?, disk));
    }
    let (piece_bytes, is_restarted) = (config.piece_bytes, setup.restart.is_some());
    let tier = setup.flash.as_ref();
    let tier = tier.map(|of| SimulatedTier::new(count as u32, piece_bytes, of, is_restarted));
    Ok(SimulatedServer::new(
        disks,
        tier.transpose()?,
        layout,
        setup,
    )?)
}

fn queued(setup: &WorldSetup, drive: Box<dyn Drive>) -> QueuedDrive {
    QueuedDrive::new(drive, setup.queue_depth, setup.turnaround)
}

/// Transport: requests to the server, and bytes to viewers.
impl World<'_> {
    fn request(
        &mut self,
        (session, call): (u32, CallId),
        (object, range): (ObjectId, Option<ByteRange>),
        next: Option<(ObjectId, Option<ByteRange>)>,
    ) {
        // The viewer has left or abandoned the call: it has closed the connection before the
        // request was read.
        let visit = self.visits.get_mut(u64::from(session));
        let Some(visit) = visit.filter(|visit| visit.open.iter().any(|(open, _)| *open == call))
        else {
            return;
        };
        if self.is_down {
            let refused = WorldEvent::Broken { session, call };
            self.events.plan(self.now + visit.link.delay(), refused);
            return;
        }
        let asker = Requester {
            session,
            call,
            is_whole: range.is_none(),
        };
        match self.server.ask(self.now, asker, object, range) {
            Ok(request) => {
                visit.asked.push((call, request));
                if let Some((object, range)) = next {
                    self.server.expect(self.now, asker, object, range);
                }
            }
            Err(status) => {
                let refused = WorldEvent::Status {
                    session,
                    call,
                    status,
                };
                self.events.plan(self.now + visit.link.delay(), refused);
            }
        }
        self.pass_on();
    }

    /// Hands the server's outcomes to the sockets.
    fn pass_on(&mut self) {
        while let Some(outcome) = self.server.poll_outcome() {
            match outcome {
                OriginEvent::Piece(piece) => self.send(piece),
                OriginEvent::Failed(Requester { session, call, .. }) => {
                    let visit = self.visits.get_mut(u64::from(session));
                    let delay = visit.map_or(Duration::ZERO, |visit| visit.link.delay());
                    let broken = WorldEvent::Broken { session, call };
                    self.events.plan(self.now + delay, broken);
                }
            }
        }
    }

    /// Hands a piece to the socket, as soon as the viewer has room for it.
    fn send(&mut self, mut piece: ReplyPiece) {
        let Requester { session, call, .. } = piece.asker;
        let visit = self.visits.get_mut(u64::from(session));
        let gradual = visit.and_then(|visit| {
            let mut readings = visit.readings.iter_mut();
            readings.find(|gradual| gradual.call == call)
        });
        if let Some(gradual) = gradual {
            // Bytes that the viewer does not read stay in the socket until it closes the connection.
            let left = gradual.reading.bytes - gradual.given;
            piece.is_last &= piece.bytes <= left;
            piece.bytes = piece.bytes.min(left);
            gradual.given += piece.bytes;
            let at = gradual.sent + gradual.reading.room_at(gradual.given);
            if left == 0 {
                return;
            }
            if at > self.now {
                self.events.plan(at, WorldEvent::Room(piece));
                return;
            }
        }
        self.pass(piece);
    }

    fn pass(&mut self, piece: ReplyPiece) {
        let Requester { session, call, .. } = piece.asker;
        let Some(visit) = self.visits.get_mut(u64::from(session)) else {
            // The viewer has left; the server will receive the disconnect.
            return;
        };
        let leaves_at = self.server.leaves_at(self.now, &piece);
        let journey = visit.link.give(leaves_at, piece.bytes);
        let link = &visit.link;
        let told_at = self.server.handed(self.now, &piece, link, journey.taken);
        let taken = WorldEvent::Taken(piece.request, piece.slot);
        self.events.plan(told_at, taken);
        let bytes = WorldEvent::Bytes {
            session,
            call,
            bytes: piece.bytes,
            head: piece.head.map(|length| (piece.asker.status(), length)),
            is_last: piece.is_last,
        };
        self.events.plan(journey.arrived, bytes);
    }
}
