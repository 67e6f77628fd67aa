//! The world: viewers, the ways to them, and the server, on one agenda.
//!
//! The one idea: nothing passes but time between two things that happen, so time jumps. The
//! cores are called exactly as their shells in the real world call them; this module carries
//! requests and bytes between them and adds the delays of the network.
//!
//! Invariants: same setup, same record; every session of the trace that arrives ends at most once;
//! a slot given to a socket comes back once, whoever closes first. The world never looks into
//! a core to decide what happens.

use headlong_drive::{Drive, SECTOR_BYTES};
use headlong_engine::{ConfigError, EngineConfig, RequestId, Shard, Slot};
use headlong_player::{CallEnd, CallId, CallRecord, Command, ObjectId, Plan, Player, TransportEnd};
use headlong_units::{ByteRange, Duration, Instant, KIB};
use headlong_workload::Trace;

use crate::agenda::Agenda;
use crate::device::Device;
use crate::disk::Disk;
use crate::layout::{File, Layout, Placement};
use crate::link::Link;
use crate::measure::{Measure, Window};
use crate::origin::{Asker, Origin, Outcome, Piece};
use crate::server::Server;
use crate::vanilla::{Vanilla, VanillaSetup};

/// Who answers.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ServerKind {
    /// The engine.
    #[default]
    Headlong,
    /// A web server above a kernel's page cache.
    Vanilla(VanillaSetup),
}

/// What a world is made of, beside its trace and its drive.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// Who answers.
    pub server: ServerKind,
    /// Settings of the server's one shard, if it is headlong.
    pub engine: EngineConfig,
    /// Bytes that a socket takes beyond those that have left (the server's `tcp.unsent_max`).
    pub socket_bytes: u64,
    /// Largest block request that reaches the drive; 1,280 KiB through a loop device.
    pub request_bytes_max: u64,
    /// From the end of a request in the drive until the server knows of it: zero but for worlds
    /// that imitate an emulated drive, whose way to the server takes a moment.
    pub turnaround: Duration,
    /// Requests that the drive has in its own queue at most; its own number if `None`.
    pub queue_depth: Option<usize>,
    /// Where files lie.
    pub placement: Placement,
    /// Whether the server knows the bit rates of its titles, as it does from manifests and headers.
    pub bit_rates_known: bool,
    /// What is measured.
    pub window: Window,
    /// How long viewers go on to come after the window has closed, so that those who came in it see
    /// the end of their sessions under the same load.
    pub ramp_down: Duration,
    /// Whether to stop at the first failure within the window.
    pub stops_at_failure: bool,
    /// Whether to stop at the first failed session of those that began within the window.
    pub stops_at_failed_session: bool,
    /// Whether the shard's invariants are checked after every step: slow.
    pub checked: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            server: ServerKind::default(),
            engine: EngineConfig::default(),
            socket_bytes: 256 * KIB,
            request_bytes_max: 1280 * KIB,
            turnaround: Duration::ZERO,
            queue_depth: None,
            placement: Placement::default(),
            bit_rates_known: false,
            window: Window::default(),
            ramp_down: Duration::ZERO,
            stops_at_failure: false,
            stops_at_failed_session: false,
            checked: false,
        }
    }
}

/// Why a world cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The engine's settings cannot work.
    #[error("{0}")]
    Engine(#[from] ConfigError),
    /// The catalogue does not fit.
    #[error("{0}")]
    Catalogue(String),
    /// A session names a class or an object that is not there.
    #[error("session {session} of the trace names {what} that is not in it; write the trace again")]
    Trace {
        /// Which, from 0.
        session: usize,
        /// What is missing.
        what: &'static str,
    },
}

/// Something that will happen.
#[derive(Debug)]
enum Coming {
    Arrival(u32),
    Player(u32),
    Request {
        session: u32,
        call: CallId,
        object: ObjectId,
        range: Option<ByteRange>,
    },
    /// A socket has taken a piece.
    Taken(RequestId, Slot),
    /// Bytes reach a viewer.
    Bytes {
        session: u32,
        call: CallId,
        bytes: u64,
        /// Length of the reply's body, with its first bytes.
        head: Option<u64>,
        /// Whether they are the reply's last.
        is_last: bool,
    },
    /// A refusal reaches a viewer.
    Status {
        session: u32,
        call: CallId,
        status: u16,
    },
    /// A reply that broke off reaches a viewer.
    Broken {
        session: u32,
        call: CallId,
    },
    /// The end of a connection reaches the server.
    Gone(RequestId),
    /// A regular look at the state of things.
    Look,
    WindowOpens,
    WindowCloses,
    End,
}

/// One viewer in the world.
#[derive(Debug)]
struct Visit<'a> {
    player: Player<&'a Plan>,
    link: Link,
    /// Calls the server works on.
    asked: Vec<(CallId, RequestId)>,
    has_failed: bool,
    /// The earliest time for which a look at the player is planned.
    timer: Option<Instant>,
}

/// Everything there is.
#[derive(Debug)]
pub struct World<'a> {
    trace: &'a Trace,
    setup: Setup,
    now: Instant,
    agenda: Agenda<Coming>,
    visits: Vec<Option<Box<Visit<'a>>>>,
    server: Box<dyn Origin>,
    measure: Measure,
    is_closed: bool,
    stopped: bool,
}

/// How often the state of things is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

impl<'a> World<'a> {
    /// A world in which nothing has happened yet.
    ///
    /// # Errors
    /// The first reason why it cannot be.
    pub fn new(
        setup: Setup,
        files: &[File],
        trace: &'a Trace,
        drive: Box<dyn Drive>,
    ) -> Result<Self, SetupError> {
        let capacity_bytes = drive.capacity_sectors() * SECTOR_BYTES;
        let layout =
            Layout::new(files, capacity_bytes, setup.placement).map_err(SetupError::Catalogue)?;
        for (session, planned) in trace.sessions.iter().enumerate() {
            if planned.class as usize >= trace.classes.len() {
                let what = "a network class";
                return Err(SetupError::Trace { session, what });
            }
        }
        let server = origin(&setup, layout, drive)?;
        let mut world = Self {
            trace,
            now: Instant::ZERO,
            agenda: Agenda::new(),
            visits: Vec::new(),
            server,
            measure: Measure::new(setup.window, trace.classes.len()),
            is_closed: false,
            stopped: false,
            setup,
        };
        world.visits.resize_with(trace.sessions.len(), || None);
        let window = world.setup.window;
        world.agenda.plan(window.from, Coming::WindowOpens);
        world.agenda.plan(window.to, Coming::WindowCloses);
        world.agenda.plan(Instant::ZERO, Coming::Look);
        world.plan_arrival(0);
        Ok(world)
    }

    /// Runs until the window has closed and the ramp behind it is over, or, if the setup says so,
    /// until the first failure.
    pub fn run(mut self) -> Measure {
        while !self.stopped && self.step() {}
        self.close();
        self.measure
    }

    /// Runs until nothing more happens: every viewer has left.
    pub fn run_to_the_end(mut self) -> Measure {
        while self.step() {
            if self.measure.sessions_ended() == self.trace.sessions.len() as u64
                && self.server.reply_count() == 0
            {
                break;
            }
        }
        self.close();
        self.measure.memory_at_end = Some(self.server.state().memory);
        self.measure
    }

    /// The next thing that happens; answers whether there was one.
    fn step(&mut self) -> bool {
        let next = [self.agenda.next_at(), self.server.poll_timeout()];
        let Some(next) = next.into_iter().flatten().min() else {
            return false;
        };
        if next == Instant::NEVER {
            return false;
        }
        self.now = self.now.max(next);
        self.server.handle_timeout(self.now);
        self.pass_on();
        if let Some(coming) = self.agenda.take_due(self.now) {
            self.happen(coming);
        }
        true
    }

    fn happen(&mut self, coming: Coming) {
        let now = self.now;
        match coming {
            Coming::Arrival(session) => self.arrive(session),
            Coming::Player(session) => self.look_at_player(session),
            Coming::Request {
                session,
                call,
                object,
                range,
            } => self.request(session, call, object, range),
            Coming::Taken(request, slot) => {
                self.server.taken(now, request, slot);
                self.pass_on();
            }
            Coming::Bytes {
                session,
                call,
                bytes,
                head,
                is_last,
            } => {
                self.measure.arrived(now, bytes);
                self.with_player(session, |player| {
                    if head.is_some() {
                        player.handle_head(now, call, 206, head);
                    }
                    player.handle_bytes(now, call, bytes);
                    if is_last {
                        player.handle_end(now, call, TransportEnd::Whole);
                    }
                });
            }
            Coming::Status {
                session,
                call,
                status,
            } => self.with_player(session, |player| {
                player.handle_end(now, call, TransportEnd::Refused(status));
            }),
            Coming::Broken { session, call } => self.with_player(session, |player| {
                player.handle_end(now, call, TransportEnd::Broken);
            }),
            Coming::Gone(request) => {
                self.server.gone(now, request);
                self.pass_on();
            }
            Coming::Look => {
                self.measure.look(now, &self.server.state());
                self.agenda.plan(now + LOOK_INTERVAL, Coming::Look);
            }
            Coming::WindowOpens => {
                self.server.device_mut().begin_pattern();
                self.measure.open(&*self.server);
            }
            Coming::WindowCloses => {
                self.close();
                self.agenda.plan(now + self.setup.ramp_down, Coming::End);
            }
            Coming::End => self.stopped = true,
        }
    }

    fn plan_arrival(&mut self, session: usize) {
        if let Some(planned) = self.trace.sessions.get(session) {
            let at = Instant::ZERO + planned.arrival;
            self.agenda.plan(at, Coming::Arrival(session as u32));
        }
    }

    fn arrive(&mut self, session: u32) {
        let trace = self.trace;
        let planned = &trace.sessions[session as usize];
        let class = &trace.classes[planned.class as usize];
        let socket_bytes = self.server.socket_bytes(class.bandwidth, class.delay);
        let visit = Visit {
            player: Player::new(&planned.plan, self.now),
            link: Link::new(class.bandwidth, class.delay, socket_bytes),
            asked: Vec::new(),
            has_failed: false,
            timer: None,
        };
        self.visits[session as usize] = Some(Box::new(visit));
        self.measure.session_began();
        self.plan_arrival(session as usize + 1);
        let now = self.now;
        self.with_player(session, |player| player.handle_start(now));
    }

    fn look_at_player(&mut self, session: u32) {
        let Some(visit) = self.visits[session as usize].as_mut() else {
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

    /// Tells a player something, and does what it says.
    fn with_player(&mut self, session: u32, tell: impl FnOnce(&mut Player<&'a Plan>)) {
        let Some(visit) = self.visits[session as usize].as_mut() else {
            return;
        };
        tell(&mut visit.player);
        let delay = visit.link.delay();
        let mut is_over = false;
        while let Some(command) = visit.player.poll_command() {
            match command {
                Command::Send {
                    call,
                    object,
                    range,
                    ..
                } => {
                    let request = Coming::Request {
                        session,
                        call,
                        object,
                        range,
                    };
                    self.agenda.plan(self.now + delay, request);
                }
                Command::Abandon { call } => {
                    let given_up = visit.asked.extract_if(.., |(asked, _)| *asked == call);
                    for (_, request) in given_up {
                        self.agenda.plan(self.now + delay, Coming::Gone(request));
                    }
                }
                Command::Close => {
                    for (_, request) in visit.asked.drain(..) {
                        self.agenda.plan(self.now + delay, Coming::Gone(request));
                    }
                    is_over = true;
                }
            }
        }
        let class = self.trace.sessions[session as usize].class;
        let mut failed = false;
        while let Some(record) = visit.player.poll_record() {
            visit.asked.retain(|(call, _)| *call != record.call);
            failed |= is_failure(&record);
            visit.has_failed |= is_failure(&record);
            self.measure.call_ended(class, &record);
        }
        if is_over {
            let has_failed = visit.has_failed;
            self.visits[session as usize] = None;
            self.session_ended(session, has_failed);
        } else if let Some(at) = visit.player.poll_timeout()
            && visit.timer.is_none_or(|timer| at < timer)
        {
            visit.timer = Some(at);
            self.agenda.plan(at, Coming::Player(session));
        }
        if failed && self.setup.stops_at_failure && self.setup.window.contains(self.now) {
            self.stopped = true;
        }
    }

    fn session_ended(&mut self, session: u32, has_failed: bool) {
        let arrived = Instant::ZERO + self.trace.sessions[session as usize].arrival;
        let is_steady = self.setup.window.contains(arrived);
        self.measure.session_ended(is_steady, has_failed);
        self.stopped |= is_steady && has_failed && self.setup.stops_at_failed_session;
    }

    /// The measured part is over.
    fn close(&mut self) {
        if !core::mem::replace(&mut self.is_closed, true) {
            self.measure.close(self.now, &*self.server);
        }
        self.measure.end(self.now, &*self.server);
    }

    fn request(&mut self, session: u32, call: CallId, object: ObjectId, range: Option<ByteRange>) {
        // Whoever has left in the meantime has closed the connection before it was read.
        let Some(visit) = self.visits[session as usize].as_mut() else {
            return;
        };
        let asker = Asker { session, call };
        match self.server.ask(self.now, asker, object, range) {
            Ok(request) => visit.asked.push((call, request)),
            Err(status) => {
                let refused = Coming::Status {
                    session,
                    call,
                    status,
                };
                self.agenda.plan(self.now + visit.link.delay(), refused);
            }
        }
        self.pass_on();
    }

    /// Hands what the server has to the sockets.
    fn pass_on(&mut self) {
        while let Some(outcome) = self.server.poll_outcome() {
            match outcome {
                Outcome::Piece(piece) => self.send(piece),
                Outcome::Failed(Asker { session, call }) => {
                    let delay = self.visits[session as usize]
                        .as_ref()
                        .map_or(Duration::ZERO, |visit| visit.link.delay());
                    let broken = Coming::Broken { session, call };
                    self.agenda.plan(self.now + delay, broken);
                }
            }
        }
    }

    fn send(&mut self, piece: Piece) {
        let Asker { session, call } = piece.asker;
        let Some(visit) = self.visits[session as usize].as_mut() else {
            // The viewer is gone, and the server will hear of it.
            return;
        };
        let journey = visit.link.give(self.now, piece.bytes);
        let told_at = self
            .server
            .handed(self.now, &piece, &visit.link, journey.taken);
        let taken = Coming::Taken(piece.request, piece.slot);
        self.agenda.plan(told_at, taken);
        let bytes = Coming::Bytes {
            session,
            call,
            bytes: piece.bytes,
            head: piece.head,
            is_last: piece.is_last,
        };
        self.agenda.plan(journey.arrived, bytes);
    }
}

fn origin(
    setup: &Setup,
    layout: Layout,
    drive: Box<dyn Drive>,
) -> Result<Box<dyn Origin>, SetupError> {
    let device = Device::new(drive, setup.queue_depth, setup.turnaround);
    Ok(match &setup.server {
        ServerKind::Headlong => {
            let shard = Shard::new(setup.engine)?;
            let disk = Disk::new(device, setup.request_bytes_max);
            let (socket_bytes, knows) = (setup.socket_bytes, setup.bit_rates_known);
            let server = Server::new(shard, disk, layout, socket_bytes, knows, setup.checked);
            Box::new(server)
        }
        ServerKind::Vanilla(vanilla) => Box::new(Vanilla::new(vanilla, layout, device)),
    })
}

/// Whether a viewer did not get what it asked for.
pub(crate) fn is_failure(record: &CallRecord) -> bool {
    !matches!(record.end, CallEnd::Whole | CallEnd::Abandoned)
}
