//! The state machine of one session: what a shell talks to.
//!
//! The one idea: tell it everything that happens, in any order, and do what it says. What comes too
//! late, or is about a call that is over, changes nothing.

use alloc::boxed::Box;
use core::borrow::Borrow;

use headlong_units::{BitRate, ByteRange, Instant};

use crate::adaptive::{AdaptivePlayer, Moment, Turn};
use crate::calls::Calls;
use crate::record::Outcome;
use crate::script::ScriptPlayer;
use crate::{
    AdaptivePlan, CallEnd, CallId, CallRecord, Command, ObjectId, Plan, Script, SessionEnd,
    TransportEnd,
};

/// What plays the plan.
#[derive(Debug, Clone)]
enum Machine {
    Script(ScriptPlayer),
    // Much larger, and rarer.
    Adaptive(Box<AdaptivePlayer>),
}

/// A machine together with the plan it plays.
enum Playing<'a> {
    Script(&'a mut ScriptPlayer, &'a Script),
    Adaptive(&'a mut AdaptivePlayer, &'a AdaptivePlan),
    /// The caller's plan is another than before.
    Nothing,
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
            Plan::Adaptive(plan) => Machine::Adaptive(Box::new(AdaptivePlayer::new(plan))),
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
            Machine::Adaptive(player) => player.start(self.intended_start),
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
        let Some(now) = self.catch_up(now) else {
            return;
        };
        if let Some(end) = self.calls.head(call, status, content_length) {
            self.end_call(Moment { at: now, now }, call, end, true);
        }
    }

    /// So many more bytes of a reply's body arrived.
    pub fn handle_bytes(&mut self, now: Instant, call: CallId, count: u64) {
        let Some(now) = self.catch_up(now) else {
            return;
        };
        let Some(end) = self.calls.arrive(now, call, count) else {
            return;
        };
        let moment = Moment { at: now, now };
        let over = match playing(&self.plan, &mut self.machine) {
            Playing::Script(player, script) => {
                player.arrive(now, count, script);
                None
            }
            Playing::Adaptive(player, plan) => {
                player.arrive(&mut Turn::new(moment, plan, &mut self.calls), call, count)
            }
            Playing::Nothing => None,
        };
        if let Some(end) = end {
            self.end_call(moment, call, end, true);
        }
        if let Some(end) = over {
            self.finish(moment, end);
        }
    }

    /// A call's transfer is over. The bytes that came with the end are to be told before it.
    pub fn handle_end(&mut self, now: Instant, call: CallId, end: TransportEnd) {
        let Some(now) = self.catch_up(now) else {
            return;
        };
        if let Some(end) = self.calls.judge_end(call, end) {
            self.end_call(Moment { at: now, now }, call, end, false);
        }
    }

    /// Time has passed: does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some(now) = self.catch_up(now) {
            self.ring_until(now, now);
        }
    }

    /// The viewer leaves, whatever was planned: a run is over, or somebody has had enough.
    pub fn handle_leave(&mut self, now: Instant) {
        if self.end.is_none() {
            self.now = self.now.max(now);
            let now = self.now;
            self.catch_up(now);
            self.finish(Moment { at: now, now }, CallEnd::Abandoned);
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
        if !self.started || self.end.is_some() {
            return None;
        }
        Some(self.due()).filter(|due| *due < Instant::NEVER)
    }

    /// What it will ask for next as far as it knows, beyond what is under way: what players say by
    /// `nor` and `nrr` of CMCD.
    pub fn upcoming(&self) -> Option<(ObjectId, Option<ByteRange>)> {
        if self.end.is_some() {
            return None;
        }
        match (&self.machine, self.plan.borrow()) {
            (Machine::Script(player), Plan::Script(script)) => player.upcoming(script),
            (Machine::Adaptive(player), Plan::Adaptive(plan)) => player.upcoming(plan),
            _ => None,
        }
    }

    /// The bit rate of an object that it asks for, as far as its plan tells.
    pub fn bit_rate_of(&self, object: ObjectId) -> Option<BitRate> {
        match self.plan.borrow() {
            Plan::Script(script) => script.playback.map(|playback| playback.bit_rate),
            Plan::Adaptive(plan) => plan.title.bit_rate_of(object),
        }
    }

    /// How it ended, once it has.
    pub fn end(&self) -> Option<SessionEnd> {
        self.end
    }

    /// Does what was due before `now`, each thing at its own time, so that what is told at `now` finds
    /// the session as it should be: a byte that comes after a deadline, however often one does,
    /// comes too late. The time as it is now, if the session still goes on.
    fn catch_up(&mut self, now: Instant) -> Option<Instant> {
        let now = now.max(self.now);
        self.now = now;
        if self.started && now > Instant::ZERO {
            self.ring_until(Instant(now.0 - 1), now);
        }
        (self.started && self.end.is_none()).then_some(now)
    }

    /// Does what is due until then, in order of time.
    fn ring_until(&mut self, until: Instant, now: Instant) {
        while self.end.is_none() {
            let at = self.due();
            if at > until || at == Instant::NEVER {
                return;
            }
            let moment = Moment { at, now };
            if let Some(call) = self.calls.expired(at) {
                self.end_call(moment, call, CallEnd::TimedOut, true);
                continue;
            }
            let over = match playing(&self.plan, &mut self.machine) {
                Playing::Script(player, script) => player.ring(now, script, &mut self.calls),
                Playing::Adaptive(player, plan) => {
                    player.ring(&mut Turn::new(moment, plan, &mut self.calls))
                }
                Playing::Nothing => Some(CallEnd::Abandoned),
            };
            if let Some(end) = over {
                self.finish(moment, end);
            }
        }
    }

    /// When something is to be done.
    fn due(&self) -> Instant {
        let due = match (&self.machine, self.plan.borrow()) {
            (Machine::Script(player), _) => player.due(),
            (Machine::Adaptive(player), Plan::Adaptive(plan)) => player.due(plan),
            (Machine::Adaptive(_), Plan::Script(_)) => self.now,
        };
        due.min(self.calls.deadline())
    }

    /// Ends a call; `stop` if the shell does not know yet.
    fn end_call(&mut self, moment: Moment, call: CallId, end: CallEnd, stop: bool) {
        let now = moment.now;
        self.calls.finish(now, call, end, stop);
        let over = match playing(&self.plan, &mut self.machine) {
            Playing::Script(player, script) => {
                player.call_ended(now, call, end, script, &self.calls)
            }
            Playing::Adaptive(player, plan) => {
                player.call_ended(&mut Turn::new(moment, plan, &mut self.calls), call, end)
            }
            Playing::Nothing => Some(end),
        };
        match over {
            Some(end) => self.finish(moment, end),
            None => self.ring_scripts(now),
        }
    }

    /// What a script may send at once is sent at once, not when somebody next asks for the time.
    fn ring_scripts(&mut self, now: Instant) {
        if let Playing::Script(player, script) = playing(&self.plan, &mut self.machine)
            && let Some(end) = player.ring(now, script, &mut self.calls)
        {
            self.finish(Moment { at: now, now }, end);
        }
    }

    fn finish(&mut self, moment: Moment, end: CallEnd) {
        let now = moment.now;
        if self.end.is_some() {
            return;
        }
        self.calls.close(now);
        let outcome = match playing(&self.plan, &mut self.machine) {
            Playing::Script(player, script) => {
                player.outcome(now, end, script, self.intended_start)
            }
            Playing::Adaptive(player, _) => player.outcome(moment.at, self.intended_start),
            Playing::Nothing => Outcome::default(),
        };
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

fn playing<'a, P: Borrow<Plan>>(plan: &'a P, machine: &'a mut Machine) -> Playing<'a> {
    match (machine, plan.borrow()) {
        (Machine::Script(player), Plan::Script(script)) => Playing::Script(player, script),
        (Machine::Adaptive(player), Plan::Adaptive(plan)) => Playing::Adaptive(player, plan),
        _ => Playing::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_sessions_fit_in_a_process() {
        // Besides what is under way, which is little, and the plan, which may be shared.
        assert!(
            size_of::<Player<&Plan>>() <= 512,
            "{}",
            size_of::<Player<&Plan>>()
        );
        assert!(
            size_of::<AdaptivePlayer>() <= 768,
            "{}",
            size_of::<AdaptivePlayer>()
        );
    }
}
