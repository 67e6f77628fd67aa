//! One viewer: a player that decides, a line with bandwidth and delay, and connections.
//!
//! Events are reported to the player with the time at which they happen to the viewer, even if this
//! thread processes them slightly later; so the generator's own lateness appears only in the
//! schedule error. Times here are the run's; the viewer's own clock differs by a constant (see
//! [`crate::line`]).

mod exchange;

use headlong_player::{Player, TransportEnd};
use headlong_units::Instant;
use headlong_workload::Session;

use crate::connection::{Connection, ConnectionStage};
use crate::line::{AccessLine, LineKind};
use crate::shared_state::SharedState;

/// Largest number of reads per turn; then other viewers are served.
const READS_MAX: u32 = 8;
/// Largest number of connections of a viewer; a larger burst is an error in the trace.
pub(crate) const CONNECTIONS_MAX: usize = 255;

/// Bytes on the line.
#[derive(Debug, Clone, Copy)]
struct InFlightBytes {
    connection: usize,
    bytes: u64,
    end: Option<TransportEnd>,
}

/// One viewer.
#[derive(Debug)]
pub(crate) struct Viewer {
    session: u64,
    slot: u32,
    /// Distinguishes this viewer from earlier users of the slot.
    generation: u32,
    class: u32,
    steady: bool,
    player: Player,
    line: AccessLine,
    held: Option<InFlightBytes>,
    connections: Vec<Connection>,
    /// The connection to read next.
    turn: usize,
    /// Pending timers, the earliest last.
    armed: Vec<Instant>,
    /// Details of a failure, reported with the record.
    wrong: Option<String>,
    /// Whether its end was counted.
    counted: bool,
}

impl Viewer {
    /// The viewer of session `session` of the trace.
    pub(crate) fn new(
        world: &SharedState,
        session: u64,
        slot: u32,
        generation: u32,
        plan: Session,
    ) -> Self {
        let arrival = Instant(plan.arrival.0);
        Self {
            session,
            slot,
            generation,
            class: plan.class,
            steady: world.recording.is_steady(arrival),
            player: Player::new(plan.plan, arrival),
            line: AccessLine::default(),
            held: None,
            connections: Vec::new(),
            turn: 0,
            armed: Vec::new(),
            wrong: None,
            counted: false,
        }
    }

    /// Whether the session counts.
    pub(crate) fn is_steady(&self) -> bool {
        self.steady
    }

    /// Whether the session failed, once it has ended.
    pub(crate) fn has_failed(&self) -> Option<bool> {
        self.player.end().map(|end| end.end.is_failure())
    }

    /// Starts the session, at its arrival.
    pub(crate) fn start(&mut self, world: &mut SharedState, at: Instant, now: Instant) {
        self.player.handle_start(self.kind(world).viewer_time(at));
        self.settle(world, at);
        self.go_on(world, now);
    }

    /// Handles a timer, which may belong to an earlier user of the slot.
    pub(crate) fn ring(&mut self, world: &mut SharedState, at: Instant, now: Instant) {
        if self.armed.pop_if(|armed| *armed == at).is_some() {
            self.go_on(world, now);
        }
    }

    /// Handles a readiness event of a connection.
    pub(crate) fn ready(
        &mut self,
        world: &mut SharedState,
        generation: u32,
        connection: usize,
        now: Instant,
    ) {
        let Some(ready) = self.connections.get_mut(connection) else {
            return;
        };
        if generation != self.generation & 0xff_ffff {
            return;
        }
        ready.armed = false;
        match ready.stage {
            ConnectionStage::Connecting => match ready.connect_error() {
                None => self.connected(world, connection, now),
                Some(error) => self.connect_failed(world, connection, now, &error),
            },
            ConnectionStage::Sending => {
                if ready.send_more().is_err() {
                    self.broken(world, connection, now);
                } else {
                    self.arm(world, connection, now);
                }
            }
            _ => {}
        }
        self.go_on(world, now);
    }

    fn kind<'a>(&self, world: &'a SharedState) -> &'a LineKind {
        &world.lines[self.class as usize]
    }

    /// Handles everything that is due, in order, and sets the timer for the next event.
    fn go_on(&mut self, world: &mut SharedState, now: Instant) {
        let mut reads = 0;
        while self.player.end().is_none() {
            let Some((at, due)) = self.next_due(world).filter(|(at, _)| *at <= now) else {
                if self.held.is_none() && reads < READS_MAX && self.read(world, now, now) {
                    reads += 1;
                    continue;
                }
                break;
            };
            match due {
                TimerEvent::Held => {
                    self.deliver(world, at);
                    // Data received meanwhile goes on the line at once, however late this thread
                    // is.
                    if self.held.is_none() && self.player.end().is_none() {
                        self.read(world, at, now);
                    }
                }
                TimerEvent::Player => {
                    let time = self.kind(world).viewer_time(at);
                    self.player.handle_timeout(time);
                    self.settle(world, at);
                }
                TimerEvent::Departure(connection) => self.depart(world, connection, at, now),
                TimerEvent::Room(connection) => self.connections[connection].paused_until = None,
            }
        }
        self.set_timer(world, now, reads);
    }

    /// The next event and its time.
    fn next_due(&self, world: &SharedState) -> Option<(Instant, TimerEvent)> {
        let held = self
            .held
            .map(|_| (self.line.busy_until(), TimerEvent::Held));
        let kind = self.kind(world);
        let player = self.player.poll_timeout();
        let player = player.map(|at| (kind.run_time(at), TimerEvent::Player));
        let departures = self.connections.iter().enumerate();
        let departures = departures.filter_map(|(index, connection)| match connection.stage {
            ConnectionStage::Departing(at) => Some((at, TimerEvent::Departure(index))),
            _ => None,
        });
        let pauses = self.connections.iter().enumerate();
        let pauses = pauses.filter_map(|(index, connection)| {
            let at = connection.paused_until.filter(|at| *at < Instant::NEVER)?;
            Some((at, TimerEvent::Room(index)))
        });
        let others = held.into_iter().chain(player).chain(pauses);
        others.chain(departures).min_by_key(|(at, _)| *at)
    }

    fn set_timer(&mut self, world: &mut SharedState, now: Instant, reads: u32) {
        let Some((mut next, _)) = self.next_due(world) else {
            return;
        };
        if reads >= READS_MAX && self.connections.iter().any(Connection::is_hungry) {
            next = now;
        }
        // A timer that fires early only sets the next one.
        if self.armed.last().is_none_or(|armed| next < *armed) {
            self.armed.push(next);
            world.timers.arm(next, self.slot);
        }
    }
}

/// Kinds of events.
#[derive(Debug, Clone, Copy)]
enum TimerEvent {
    /// The data on the line is delivered.
    Held,
    /// A timer of the player.
    Player,
    /// A request of a connection reaches the socket.
    Departure(usize),
    /// The viewer has room for more of a reply.
    Room(usize),
}
