//! The state machine of one session, as its caller (the shell) uses it.
//!
//! The caller reports all events, in any order, and carries out the commands. Events that arrive
//! too late, or for a call that has ended, change nothing.

use alloc::boxed::Box;
use core::borrow::Borrow;

use headlong_units::{BitRate, ByteRange, Instant};

use crate::adaptive::{AdaptivePlayer, EventContext, EventTime};
use crate::call_table::CallTable;
use crate::phases::PhasedPlayer;
use crate::record::ViewingOutcome;
use crate::script::ScriptPlayer;
use crate::{
    AdaptivePlan, CallEnd, CallId, CallRecord, Command, ObjectId, PhasedPlan, Script, SessionEnd,
    SessionPlan, TransportEnd,
};

/// The state of the plan.
#[derive(Debug, Clone)]
enum PlayerState {
    Script(ScriptPlayer),
    // Boxed: much larger and rarer.
    Adaptive(Box<AdaptivePlayer>),
    Phases(PhasedPlayer),
}

/// A state together with the plan it belongs to.
enum PlannedState<'a> {
    Script(&'a mut ScriptPlayer, &'a Script),
    Adaptive(&'a mut AdaptivePlayer, &'a AdaptivePlan),
    Phases(&'a mut PhasedPlayer, &'a PhasedPlan),
    /// The caller's plan has changed its kind.
    Nothing,
}

/// One viewer.
///
/// A shell creates one per session, calls [`handle_start`](Self::handle_start) when the session
/// begins, and reports the events of its calls. After every `handle_*` it fetches commands and
/// records until there are none, and asks for the time of the next
/// [`handle_timeout`](Self::handle_timeout). The session is over when [`end`](Self::end) is set;
/// [`Command::Close`] is its last command.
///
/// The plan may be owned, borrowed or shared (`SessionPlan`, `&SessionPlan`, `Arc<SessionPlan>`):
/// it is only read.
///
/// Time may be reported late, but never goes back: an earlier `now` counts as the latest one
/// reported.
#[derive(Debug, Clone)]
pub struct Player<P = SessionPlan> {
    plan: P,
    intended_start: Instant,
    started: bool,
    now: Instant,
    calls: CallTable,
    machine: PlayerState,
    end: Option<SessionEnd>,
}

impl<P: Borrow<SessionPlan>> Player<P> {
    /// A viewer that will arrive at `intended_start`.
    pub fn new(plan: P, intended_start: Instant) -> Self {
        let machine = match plan.borrow() {
            SessionPlan::Script(_) => PlayerState::Script(ScriptPlayer::new()),
            SessionPlan::Adaptive(plan) => {
                PlayerState::Adaptive(Box::new(AdaptivePlayer::new(plan)))
            }
            SessionPlan::Phases(plan) => PlayerState::Phases(PhasedPlayer::new(plan)),
        };
        Self {
            plan,
            intended_start,
            started: false,
            now: Instant::ZERO,
            calls: CallTable::default(),
            machine,
            end: None,
        }
    }

    /// The viewer arrives. If called before the intended start, it waits until then; if later, all
    /// calls are late, and their records show it. Further calls have no effect.
    pub fn handle_start(&mut self, now: Instant) {
        if self.started || self.end.is_some() {
            return;
        }
        self.started = true;
        match &mut self.machine {
            PlayerState::Script(player) => player.start(self.intended_start),
            PlayerState::Adaptive(player) => player.start(self.intended_start),
            PlayerState::Phases(player) => player.start(self.intended_start),
        }
        self.handle_timeout(now);
    }

    /// The head of a reply arrived: its status, and the length of its body if present.
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
            self.end_call(EventTime { at: now, now }, call, end, true);
        }
    }

    /// `count` more bytes of a reply's body arrived.
    pub fn handle_bytes(&mut self, now: Instant, call: CallId, count: u64) {
        let Some(now) = self.catch_up(now) else {
            return;
        };
        let Some(end) = self.calls.arrive(now, call, count) else {
            return;
        };
        let moment = EventTime { at: now, now };
        let over = match playing(&self.plan, &mut self.machine) {
            PlannedState::Script(player, script) => {
                player.arrive(now, count, script);
                None
            }
            PlannedState::Adaptive(player, plan) => player.arrive(
                &mut EventContext::new(moment, plan, &mut self.calls),
                call,
                count,
            ),
            PlannedState::Phases(player, plan) => match end {
                Some(_) => None,
                None => player.arrive(now, (call, count), plan, &mut self.calls),
            },
            PlannedState::Nothing => None,
        };
        if let Some(end) = end {
            self.end_call(moment, call, end, true);
        }
        if let Some(end) = over {
            self.finish(moment, end);
        }
    }

    /// The transfer of a call has ended. Bytes that came with the end must be reported before.
    pub fn handle_end(&mut self, now: Instant, call: CallId, end: TransportEnd) {
        let Some(now) = self.catch_up(now) else {
            return;
        };
        if let Some(end) = self.calls.judge_end(call, end) {
            self.end_call(EventTime { at: now, now }, call, end, false);
        }
    }

    /// Time has passed: handles due events.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some(now) = self.catch_up(now) {
            self.ring_until(now, now);
        }
    }

    /// The viewer leaves early, for example at the end of a run.
    pub fn handle_leave(&mut self, now: Instant) {
        if self.end.is_none() {
            self.now = self.now.max(now);
            let now = self.now;
            self.catch_up(now);
            self.finish(EventTime { at: now, now }, CallEnd::Abandoned);
        }
    }

    /// The next command. Call it after every `handle_*` until it returns `None`.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.calls.poll_command()
    }

    /// The next record. Call it after every `handle_*` until it returns `None`.
    pub fn poll_record(&mut self) -> Option<CallRecord> {
        self.calls.poll_record()
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called next; `None` if not at all, as
    /// before the start and after the end. Changes with every `handle_*`.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.started || self.end.is_some() {
            return None;
        }
        Some(self.due()).filter(|due| *due < Instant::NEVER)
    }

    /// The next request after those in progress, as far as known: what players announce by `nor`
    /// and `nrr` of CMCD.
    pub fn upcoming(&self) -> Option<(ObjectId, Option<ByteRange>)> {
        if self.end.is_some() {
            return None;
        }
        match (&self.machine, self.plan.borrow()) {
            (PlayerState::Script(player), SessionPlan::Script(script)) => player.upcoming(script),
            (PlayerState::Adaptive(player), SessionPlan::Adaptive(plan)) => player.upcoming(plan),
            (PlayerState::Phases(player), SessionPlan::Phases(plan)) => player.upcoming(plan),
            _ => None,
        }
    }

    /// The bit rate of an object, as far as the plan defines it.
    pub fn bit_rate_of(&self, object: ObjectId) -> Option<BitRate> {
        match self.plan.borrow() {
            SessionPlan::Script(script) => script.playback.map(|playback| playback.bit_rate),
            SessionPlan::Adaptive(plan) => plan.title.bit_rate_of(object),
            SessionPlan::Phases(_) => None,
        }
    }

    /// The end of the session, once it has ended.
    pub fn end(&self) -> Option<SessionEnd> {
        self.end
    }

    /// Handles all events due before `now`, each at its own time, so that an event at `now` finds
    /// the session in the correct state: a byte after a deadline is late, even if bytes keep
    /// arriving. Returns the current time, if the session is still active.
    fn catch_up(&mut self, now: Instant) -> Option<Instant> {
        let now = now.max(self.now);
        self.now = now;
        if self.started && now > Instant::ZERO {
            self.ring_until(Instant(now.0 - 1), now);
        }
        (self.started && self.end.is_none()).then_some(now)
    }

    /// Handles due events up to `until`, in order of time.
    fn ring_until(&mut self, until: Instant, now: Instant) {
        while self.end.is_none() {
            let at = self.due();
            if at > until || at == Instant::NEVER {
                return;
            }
            let moment = EventTime { at, now };
            if let Some(call) = self.calls.expired(at) {
                self.end_call(moment, call, CallEnd::TimedOut, true);
                continue;
            }
            let over = match playing(&self.plan, &mut self.machine) {
                PlannedState::Script(player, script) => player.ring(now, script, &mut self.calls),
                PlannedState::Adaptive(player, plan) => {
                    player.ring(&mut EventContext::new(moment, plan, &mut self.calls))
                }
                PlannedState::Phases(player, plan) => player.ring(now, plan, &mut self.calls),
                PlannedState::Nothing => Some(CallEnd::Abandoned),
            };
            if let Some(end) = over {
                self.finish(moment, end);
            }
        }
    }

    /// Time of the next event.
    fn due(&self) -> Instant {
        let due = match (&self.machine, self.plan.borrow()) {
            (PlayerState::Script(player), _) => player.due(),
            (PlayerState::Adaptive(player), SessionPlan::Adaptive(plan)) => player.due(plan),
            (PlayerState::Phases(player), SessionPlan::Phases(plan)) => player.due(plan),
            _ => self.now,
        };
        due.min(self.calls.deadline())
    }

    /// Ends a call; `stop` notifies the shell.
    fn end_call(&mut self, moment: EventTime, call: CallId, end: CallEnd, stop: bool) {
        let now = moment.now;
        self.calls.finish(now, call, end, stop);
        let over = match playing(&self.plan, &mut self.machine) {
            PlannedState::Script(player, script) => {
                player.call_ended(now, call, end, script, &self.calls)
            }
            PlannedState::Adaptive(player, plan) => player.call_ended(
                &mut EventContext::new(moment, plan, &mut self.calls),
                call,
                end,
            ),
            PlannedState::Phases(player, _) => player.call_ended(now, call, end),
            PlannedState::Nothing => Some(end),
        };
        match over {
            Some(end) => self.finish(moment, end),
            None => self.ring_at_once(now),
        }
    }

    /// Sends calls that are due after the end of another at once, not only at the next timeout.
    fn ring_at_once(&mut self, now: Instant) {
        let over = match playing(&self.plan, &mut self.machine) {
            PlannedState::Script(player, script) => player.ring(now, script, &mut self.calls),
            PlannedState::Phases(player, plan) => player.ring(now, plan, &mut self.calls),
            PlannedState::Adaptive(..) | PlannedState::Nothing => None,
        };
        if let Some(end) = over {
            self.finish(EventTime { at: now, now }, end);
        }
    }

    fn finish(&mut self, moment: EventTime, end: CallEnd) {
        let now = moment.now;
        if self.end.is_some() {
            return;
        }
        self.calls.close(now);
        let outcome = match playing(&self.plan, &mut self.machine) {
            PlannedState::Script(player, script) => {
                player.outcome(now, end, script, self.intended_start)
            }
            PlannedState::Adaptive(player, _) => player.outcome(moment.at, self.intended_start),
            PlannedState::Phases(player, _) => player.outcome(self.intended_start),
            PlannedState::Nothing => ViewingOutcome::default(),
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

fn playing<'a, P: Borrow<SessionPlan>>(
    plan: &'a P,
    machine: &'a mut PlayerState,
) -> PlannedState<'a> {
    match (machine, plan.borrow()) {
        (PlayerState::Script(player), SessionPlan::Script(script)) => {
            PlannedState::Script(player, script)
        }
        (PlayerState::Adaptive(player), SessionPlan::Adaptive(plan)) => {
            PlannedState::Adaptive(player, plan)
        }
        (PlayerState::Phases(player), SessionPlan::Phases(plan)) => {
            PlannedState::Phases(player, plan)
        }
        _ => PlannedState::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn player_state_stays_small() {
        // Apart from calls in progress, which are few, and the plan, which may be shared.
        assert!(
            size_of::<Player<&SessionPlan>>() <= 512,
            "{}",
            size_of::<Player<&SessionPlan>>()
        );
        assert!(
            size_of::<AdaptivePlayer>() <= 768,
            "{}",
            size_of::<AdaptivePlayer>()
        );
    }
}
