//! The state machine of one session: what a shell talks to.
//!
//! The one idea: tell it everything that happens, in any order, and do what it says. What comes too
//! late, or is about a call that is over, changes nothing.

use core::borrow::Borrow;

use headlong_units::Instant;

use crate::calls::Calls;
use crate::record::Outcome;
use crate::script::ScriptPlayer;
use crate::{CallEnd, CallId, CallRecord, Command, Plan, SessionEnd, TransportEnd};

/// What plays the plan.
#[derive(Debug, Clone)]
enum Machine {
    Script(ScriptPlayer),
}

/// One viewer.
///
/// A shell makes one per session, calls [`handle_start`](Self::handle_start) when the session is to
/// begin, and tells it what becomes of its calls. After every `handle_*` it fetches commands and
/// records until there are none, and asks for the time at which
/// [`handle_timeout`](Self::handle_timeout) is to be called. It is over when [`end`](Self::end) says
/// so; [`Command::Close`] is its last command.
///
/// The plan may be owned, borrowed or shared (`Plan`, `&Plan`, `Arc<Plan>`): it is only read.
///
/// Time may be told late, never back: an earlier `now` than before is taken for the latest one.
#[derive(Debug, Clone)]
pub struct Player<P = Plan> {
    plan: P,
    intended_start: Instant,
    started: bool,
    now: Instant,
    calls: Calls,
    machine: Machine,
    end: Option<SessionEnd>,
}

impl<P: Borrow<Plan>> Player<P> {
    /// A viewer who is to arrive at `intended_start`, and has not yet.
    pub fn new(plan: P, intended_start: Instant) -> Self {
        let machine = match plan.borrow() {
            Plan::Script(_) => Machine::Script(ScriptPlayer::new()),
        };
        Self {
            plan,
            intended_start,
            started: false,
            now: Instant::ZERO,
            calls: Calls::default(),
            machine,
            end: None,
        }
    }

    /// The viewer arrives. Told before the intended start, it waits until then; told later, all
    /// that it sends is late, and its records say so. A second time changes nothing.
    pub fn handle_start(&mut self, now: Instant) {
        if self.started || self.end.is_some() {
            return;
        }
        self.started = true;
        match &mut self.machine {
            Machine::Script(player) => player.start(self.intended_start),
        }
        self.handle_timeout(now);
    }

    /// The head of a reply arrived: its status, and the length of its body if it says so.
    pub fn handle_head(
        &mut self,
        now: Instant,
        call: CallId,
        status: u16,
        content_length: Option<u64>,
    ) {
        let Some(now) = self.in_time(now, call) else {
            return;
        };
        if let Some(end) = self.calls.head(call, status, content_length) {
            self.end_call(now, call, end);
        }
    }

    /// So many more bytes of a reply's body arrived.
    pub fn handle_bytes(&mut self, now: Instant, call: CallId, count: u64) {
        let Some(now) = self.in_time(now, call) else {
            return;
        };
        let Some(end) = self.calls.arrive(now, call, count) else {
            return;
        };
        let (Plan::Script(script), Machine::Script(player)) =
            (self.plan.borrow(), &mut self.machine);
        player.arrive(now, count, script);
        if let Some(end) = end {
            self.end_call(now, call, end);
        }
    }

    /// A call's transfer is over. The bytes that came with the end are to be told before it.
    pub fn handle_end(&mut self, now: Instant, call: CallId, end: TransportEnd) {
        let Some(now) = self.in_time(now, call) else {
            return;
        };
        if let Some(end) = self.calls.judge_end(call, end) {
            self.end_call(now, call, end);
        }
    }

    /// Time has passed: does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let Some(now) = self.passes(now) else {
            return;
        };
        if let Some(call) = self.calls.expired(now) {
            self.end_call(now, call, CallEnd::TimedOut);
        }
        self.send_due(now);
    }

    /// The viewer leaves, whatever was planned: a run is over, or somebody has had enough.
    pub fn handle_leave(&mut self, now: Instant) {
        if self.end.is_none() {
            self.now = self.now.max(now);
            self.finish(self.now, CallEnd::Abandoned);
        }
    }

    /// The next thing to do. Worth asking again after every `handle_*`, until there is nothing.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.calls.poll_command()
    }

    /// What became of a call. Worth asking again after every `handle_*`, until there is nothing.
    pub fn poll_record(&mut self) -> Option<CallRecord> {
        self.calls.poll_record()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next; `None` if it need not be,
    /// as before the start and after the end. It changes with every `handle_*`.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.end.is_some() {
            return None;
        }
        let due = match &self.machine {
            Machine::Script(player) => player.due().unwrap_or(Instant::NEVER),
        };
        let next = self.calls.deadline().min(due);
        (next < Instant::NEVER).then_some(next)
    }

    /// How it ended, once it has.
    pub fn end(&self) -> Option<SessionEnd> {
        self.end
    }

    /// The time as it is now, if there still is something to be done at it.
    fn passes(&mut self, now: Instant) -> Option<Instant> {
        self.now = self.now.max(now);
        (self.started && self.end.is_none()).then_some(self.now)
    }

    /// The time as it is now, if `call` is still under way at it. What arrives after a deadline
    /// is what the timer should have stopped: however little and often, it puts nothing off.
    fn in_time(&mut self, now: Instant, call: CallId) -> Option<Instant> {
        let now = self.passes(now)?;
        if self.calls.is_late(now, call) {
            self.handle_timeout(now);
            return None;
        }
        Some(now)
    }

    fn end_call(&mut self, now: Instant, call: CallId, end: CallEnd) {
        self.calls.finish(now, call, end);
        let (Plan::Script(script), Machine::Script(player)) =
            (self.plan.borrow(), &mut self.machine);
        match player.call_ended(now, call, end, script, &self.calls) {
            Some(end) => self.finish(now, end),
            None => self.send_due(now),
        }
    }

    fn send_due(&mut self, now: Instant) {
        if self.end.is_some() {
            return;
        }
        let (Plan::Script(script), Machine::Script(player)) =
            (self.plan.borrow(), &mut self.machine);
        if let Some(end) = player.send_due(now, script, &mut self.calls) {
            self.finish(now, end);
        }
    }

    fn finish(&mut self, now: Instant, end: CallEnd) {
        self.calls.close(now);
        let (Plan::Script(script), Machine::Script(player)) =
            (self.plan.borrow(), &mut self.machine);
        let outcome: Outcome = player.outcome(now, end, script, self.intended_start);
        self.end = Some(SessionEnd {
            end,
            ended: now,
            startup_delay: outcome.startup_delay,
            stalls: outcome.stalls,
            stall_time: outcome.stall_time,
            played: outcome.played,
            bit_rate: outcome.bit_rate,
            switches: outcome.switches,
            bytes: self.calls.bytes(),
        });
    }
}
