//! The papers' simple player (thesis 3.4): sends one burst of calls after another, each at its
//! time, and leaves at the first call that is not complete in time.

use headlong_units::{ByteRange, Duration, Instant};

use crate::call_table::{CallRequest, CallTable};
use crate::playout::Playout;
use crate::record::ViewingOutcome;
use crate::{CallEnd, CallId, ObjectId, Script, ScriptCall};

/// Position in the script. No state is kept for ended calls.
#[derive(Debug, Clone)]
pub(crate) struct ScriptPlayer {
    /// The first call that has not been sent.
    next: usize,
    /// When it may be sent; `None` while calls are open.
    due: Option<Instant>,
    /// When the previous calls were sent.
    sent: Instant,
    /// When the first call was complete.
    first_whole: Option<Instant>,
    playout: Playout,
}

impl ScriptPlayer {
    pub(crate) fn new() -> Self {
        Self {
            next: 0,
            due: None,
            sent: Instant::ZERO,
            first_whole: None,
            playout: Playout::new(),
        }
    }

    /// The session begins.
    pub(crate) fn start(&mut self, intended: Instant) {
        self.due = Some(intended);
    }

    /// When the next call may be sent; [`Instant::NEVER`] while others are in progress.
    pub(crate) fn due(&self) -> Instant {
        self.due.unwrap_or(Instant::NEVER)
    }

    /// The first call that has not been sent.
    pub(crate) fn upcoming(&self, script: &Script) -> Option<(ObjectId, Option<ByteRange>)> {
        let next = script.calls.get(self.next)?;
        Some((next.object, next.range))
    }

    /// Sends due calls. Returns the end of the session, if no calls are left.
    pub(crate) fn ring(
        &mut self,
        now: Instant,
        script: &Script,
        calls: &mut CallTable,
    ) -> Option<CallEnd> {
        let due = self.due.filter(|due| *due <= now)?;
        self.due = None;
        let Some(rest) = script
            .calls
            .get(self.next..)
            .filter(|rest| !rest.is_empty())
        else {
            return Some(CallEnd::Whole);
        };
        let members = rest.iter().skip(1).take_while(|call| call.with_previous);
        let count = 1 + members.count();
        for (connection, call) in (0..).zip(&rest[..count]) {
            calls.send(now, due, connection, ask(call));
        }
        self.next += count;
        self.sent = now;
        if let Some(playback) = &script.playback {
            self.playout.ask(now, true, playback);
        }
        None
    }

    /// Bytes arrived.
    pub(crate) fn arrive(&mut self, now: Instant, count: u64, script: &Script) {
        if let Some(playback) = &script.playback {
            self.playout.arrive(now, count, playback);
        }
    }

    /// A call has ended. Returns the end of the session, if this causes it.
    pub(crate) fn call_ended(
        &mut self,
        now: Instant,
        call: CallId,
        end: CallEnd,
        script: &Script,
        calls: &CallTable,
    ) -> Option<CallEnd> {
        if end != CallEnd::Whole {
            return Some(end);
        }
        if call == CallId(0) {
            self.first_whole = Some(now);
        }
        if calls.open_count() > 0 {
            return None;
        }
        let Some(call) = script.calls.get(self.next) else {
            return Some(CallEnd::Whole);
        };
        if let Some(playback) = &script.playback {
            self.playout.ask(now, false, playback);
        }
        let paced = self.sent + call.pace.unwrap_or(Duration::ZERO);
        let thought = now + call.think.unwrap_or(Duration::ZERO);
        self.due = Some(paced.max(thought));
        None
    }

    /// The session is over: the viewer's experience.
    pub(crate) fn outcome(
        &mut self,
        now: Instant,
        end: CallEnd,
        script: &Script,
        intended_start: Instant,
    ) -> ViewingOutcome {
        let Some(playback) = &script.playback else {
            return ViewingOutcome {
                startup_delay: self.first_whole.map(|whole| whole.since(intended_start)),
                ..ViewingOutcome::default()
            };
        };
        self.playout.finish(now, end == CallEnd::Whole, playback);
        let started = self.playout.started();
        ViewingOutcome {
            startup_delay: started.map(|started| started.since(intended_start)),
            stalls: self.playout.stalls(),
            stall_time: self.playout.stall_time(),
            played: self.playout.played(now, playback),
            bit_rate: Some(playback.bit_rate),
            ..ViewingOutcome::default()
        }
    }
}

fn ask(call: &ScriptCall) -> CallRequest {
    CallRequest {
        object: call.object,
        range: call.range,
        expected_bytes: call.expected_bytes,
        timeout: call.timeout,
        reading: None,
    }
}
