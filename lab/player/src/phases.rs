//! A device of a phased workload (thesis chapter 5): it sends the requests of a session at their
//! times, on parallel connections, and closes those replies that it does not need to the end.
//!
//! The phases themselves (transient, stable, inactive), skips and pauses are decided before the
//! session starts: they determine which requests a plan has, and when. A server only delays them.
//!
//! Invariants: the same requests in the same order on each connection, whatever the server does;
//! with an instantaneous server, each is sent at its planned time.

use alloc::vec::Vec;

use headlong_units::{ByteRange, Duration, Instant};

use crate::call_table::{CallRequest, CallTable};
use crate::phased_plan::{PartialRead, PhasedPlan};
use crate::record::ViewingOutcome;
use crate::{CallEnd, CallId, ObjectId};

/// A call in progress.
#[derive(Debug, Clone, Copy)]
struct OpenCall {
    call: CallId,
    sent: Instant,
    /// When it is closed, if the needed bytes are there; [`Instant::NEVER`] if its reply is read to
    /// the end.
    closes: Instant,
    received: u64,
    reading: Option<PartialRead>,
}

impl OpenCall {
    fn has_needed(&self) -> bool {
        let needed = self
            .reading
            .map_or(u64::MAX, |reading| reading.needed_bytes);
        self.received >= needed
    }

    /// When the next byte is too late.
    fn deadline(&self, timeout: Duration) -> Option<Instant> {
        let reading = self.reading?;
        Some(match self.has_needed() {
            true => Instant::NEVER,
            false => self.sent + reading.planned(self.received + 1) + timeout,
        })
    }
}

/// A connection and its calls.
#[derive(Debug, Clone, Copy)]
struct Lane {
    /// Index of its next call in the plan; the number of calls at its end.
    next: usize,
    /// When its last call ended.
    free: Instant,
    open: Option<OpenCall>,
}

/// State of a session.
#[derive(Debug, Clone)]
pub(crate) struct PhasedPlayer {
    lanes: Vec<Lane>,
    arrival: Instant,
    first_whole: Option<Instant>,
}

impl PhasedPlayer {
    pub(crate) fn new(plan: &PhasedPlan) -> Self {
        let lane = |connection| Lane {
            next: next_on(plan, connection, 0),
            free: Instant::ZERO,
            open: None,
        };
        Self {
            lanes: (0..plan.connections()).map(lane).collect(),
            arrival: Instant::NEVER,
            first_whole: None,
        }
    }

    /// The session begins.
    pub(crate) fn start(&mut self, intended: Instant) {
        self.arrival = intended;
    }

    /// Time of the next event, except for deadlines.
    pub(crate) fn due(&self, plan: &PhasedPlan) -> Instant {
        if self.lanes.is_empty() {
            return self.arrival;
        }
        let due = self.lanes.iter().map(|lane| match &lane.open {
            Some(open) if open.has_needed() => open.closes,
            Some(_) => Instant::NEVER,
            None => self.planned(plan, lane).unwrap_or(Instant::NEVER),
        });
        due.min().unwrap_or(Instant::NEVER)
    }

    /// Planned time of a lane's next call.
    fn planned(&self, plan: &PhasedPlan, lane: &Lane) -> Option<Instant> {
        let call = plan.calls.get(lane.next)?;
        Some(self.arrival + call.at)
    }

    /// The first call that has not been sent.
    pub(crate) fn upcoming(&self, plan: &PhasedPlan) -> Option<(ObjectId, Option<ByteRange>)> {
        let next = self.lanes.iter().map(|lane| lane.next).min()?;
        let call = plan.calls.get(next)?;
        Some((call.object, Some(call.range)))
    }

    /// Closes and sends what is due. Returns the end of the session, if nothing is left.
    pub(crate) fn ring(
        &mut self,
        now: Instant,
        plan: &PhasedPlan,
        calls: &mut CallTable,
    ) -> Option<CallEnd> {
        for number in 0..self.lanes.len() {
            let lane = &mut self.lanes[number];
            if let Some(open) = lane
                .open
                .filter(|open| open.has_needed() && open.closes <= now)
            {
                calls.finish(now, open.call, CallEnd::Whole, true);
                lane.open = None;
                lane.free = now;
                self.first_whole.get_or_insert(now);
            }
            self.send(now, number, plan, calls);
        }
        let is_idle = |lane: &Lane| lane.open.is_none() && lane.next >= plan.calls.len();
        (self.arrival <= now && self.lanes.iter().all(is_idle)).then_some(CallEnd::Whole)
    }

    /// Sends the next call of a lane, if it is due.
    fn send(&mut self, now: Instant, number: usize, plan: &PhasedPlan, calls: &mut CallTable) {
        let lane = self.lanes[number];
        let planned = self.planned(plan, &lane).filter(|at| *at <= now);
        let Some(planned) = planned.filter(|_| lane.open.is_none()) else {
            return;
        };
        let call = &plan.calls[lane.next];
        let reading = call.reading.as_deref();
        let reading = reading.map(|reading| reading.sent_late(now.since(planned)));
        let request = CallRequest {
            object: call.object,
            range: Some(call.range),
            expected_bytes: Some(reading.map_or(call.range.len(), |reading| reading.reply_bytes)),
            timeout: Some(call.takes + plan.timeout),
            reading,
        };
        let sent = calls.send(now, planned.max(lane.free), number as u32, request);
        let open = OpenCall {
            call: sent,
            sent: now,
            closes: match reading {
                Some(_) => planned + call.takes,
                None => Instant::NEVER,
            },
            received: 0,
            reading,
        };
        if let Some(deadline) = open.deadline(plan.timeout) {
            calls.set_deadline(sent, deadline);
        }
        self.lanes[number] = Lane {
            next: next_on(plan, number as u32, lane.next + 1),
            open: Some(open),
            ..lane
        };
    }

    /// Bytes arrived.
    pub(crate) fn arrive(
        &mut self,
        now: Instant,
        (call, count): (CallId, u64),
        plan: &PhasedPlan,
        calls: &mut CallTable,
    ) -> Option<CallEnd> {
        let mut open = self.lanes.iter_mut().filter_map(|lane| lane.open.as_mut());
        let open = open.find(|open| open.call == call)?;
        open.received = open.received.saturating_add(count);
        let deadline = open.deadline(plan.timeout)?;
        let is_due = open.has_needed() && open.closes <= now;
        calls.set_deadline(call, deadline);
        is_due.then(|| self.ring(now, plan, calls)).flatten()
    }

    /// A call has ended. Returns the end of the session, if this causes it.
    pub(crate) fn call_ended(
        &mut self,
        now: Instant,
        call: CallId,
        end: CallEnd,
    ) -> Option<CallEnd> {
        let is_it = |lane: &&mut Lane| lane.open.is_some_and(|open| open.call == call);
        let lane = self.lanes.iter_mut().find(is_it)?;
        (lane.open, lane.free) = (None, now);
        if end != CallEnd::Whole {
            return Some(end);
        }
        self.first_whole.get_or_insert(now);
        None
    }

    /// The viewer's experience: the start-up delay is that of a script, until the first call was
    /// whole.
    pub(crate) fn outcome(&self, intended_start: Instant) -> ViewingOutcome {
        ViewingOutcome {
            startup_delay: self.first_whole.map(|whole| whole.since(intended_start)),
            ..ViewingOutcome::default()
        }
    }
}

/// Index of the first call of a connection, from `from` on.
fn next_on(plan: &PhasedPlan, connection: u32, from: usize) -> usize {
    let rest = plan.calls.get(from..).unwrap_or_default();
    let place = rest.iter().position(|call| call.connection == connection);
    place.map_or(plan.calls.len(), |place| from + place)
}
