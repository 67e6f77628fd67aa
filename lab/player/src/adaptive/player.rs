//! The adaptive player: keeps the buffer filled, at a bit rate that the network sustains, for a
//! viewer that watches, pauses, skips and leaves.
//!
//! The state is the first missing segment, the playback position, and the calls in progress.
//! Segments are forgotten once played.

mod requests;
mod viewer;

use alloc::vec::Vec;

use headlong_units::{BitRate, ByteRange, Duration, Instant};

use super::meter::ThroughputMeter;
use super::plan::AdaptivePlan;
use super::playback::PlaybackState;
use super::window::ReceivedSegments;
use crate::call_table::CallTable;
use crate::record::ViewingOutcome;
use crate::{CallEnd, CallId, ObjectId};

/// Purpose of a call.
#[derive(Debug, Clone, Copy)]
enum CallPurpose {
    Header { rendition: usize },
    Run(SegmentRun),
}

/// Adjacent segments in one reply.
#[derive(Debug, Clone, Copy)]
struct SegmentRun {
    rendition: usize,
    /// The first that has not arrived.
    next: u32,
    /// The segment after the last.
    until: u32,
    /// Offset of the run in the file.
    start: u64,
    received: u64,
    open_ended: bool,
}

/// A call of this player.
#[derive(Debug, Clone, Copy)]
struct OpenCall {
    call: CallId,
    connection: u32,
    job: CallPurpose,
}

/// Time of an event: `at` by the rules of the session, `now` as reported by the caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventTime {
    pub(crate) at: Instant,
    pub(crate) now: Instant,
}

/// Context of an event.
pub(crate) struct EventContext<'a> {
    pub(crate) at: Instant,
    pub(crate) now: Instant,
    pub(crate) plan: &'a AdaptivePlan,
    pub(crate) calls: &'a mut CallTable,
}

impl<'a> EventContext<'a> {
    pub(crate) fn new(moment: EventTime, plan: &'a AdaptivePlan, calls: &'a mut CallTable) -> Self {
        let EventTime { at, now } = moment;
        Self {
            at,
            now,
            plan,
            calls,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct AdaptivePlayer {
    /// Planned arrival of the viewer, until it has arrived.
    begins: Option<Instant>,
    running: bool,
    screen: PlaybackState,
    /// Index of the next act.
    act: usize,
    /// Position in the title where the current act ends.
    watch_end: Duration,
    /// Buffer level required to start playback.
    threshold: Duration,
    here: ReceivedSegments,
    /// Whether the player requests segments, or plays from a full buffer.
    filling: bool,
    going: Vec<OpenCall>,
    meter: ThroughputMeter,
    rendition: usize,
    asked_of: Option<usize>,
    switches: u32,
    /// One bit for each rendition whose header was read.
    headers: u64,
    failures: u32,
    retry_at: Option<Instant>,
    /// Sum of the bit rates of received segments, and their number.
    rates: (u128, u32),
}

impl AdaptivePlayer {
    pub(crate) fn new(plan: &AdaptivePlan) -> Self {
        let make = &plan.make;
        let top = plan.title.renditions.len().saturating_sub(1);
        let rendition = usize::try_from(make.start_rendition)
            .unwrap_or(top)
            .min(top);
        Self {
            begins: None,
            running: false,
            screen: PlaybackState::new(Instant::ZERO),
            act: 0,
            watch_end: Duration::ZERO,
            threshold: make.start_buffer,
            here: ReceivedSegments::starting_at(0),
            filling: true,
            going: Vec::new(),
            meter: ThroughputMeter::new(make.estimate_fast, make.estimate_slow),
            rendition,
            asked_of: None,
            switches: 0,
            headers: 0,
            failures: 0,
            retry_at: None,
            rates: (0, 0),
        }
    }

    /// Schedules the start of the session.
    pub(crate) fn start(&mut self, intended: Instant) {
        self.begins = Some(intended);
    }

    /// When [`ring`](Self::ring) must be called; [`Instant::NEVER`] if not at all.
    pub(crate) fn due(&self, plan: &AdaptivePlan) -> Instant {
        if let Some(begins) = self.begins {
            return begins;
        }
        let again = self.retry_at.unwrap_or(Instant::NEVER);
        again.min(self.picture_due(plan)).min(self.ask_due(plan))
    }

    /// Handles due events. Returns the end of the session, if it is due.
    pub(crate) fn ring(&mut self, turn: &mut EventContext<'_>) -> Option<CallEnd> {
        if self.begins.take_if(|begins| *begins <= turn.at).is_some() {
            self.running = true;
            self.screen = PlaybackState::new(turn.at);
            if let Some(end) = self.next_act(turn) {
                return Some(end);
            }
        }
        self.retry_at.take_if(|again| *again <= turn.at);
        if self.picture_due(turn.plan) <= turn.at
            && let Some(end) = self.turn_picture(turn)
        {
            return Some(end);
        }
        self.ask(turn)
    }

    /// Bytes of a call arrived. Returns the end of the session, if this causes it.
    pub(crate) fn arrive(
        &mut self,
        turn: &mut EventContext<'_>,
        call: CallId,
        count: u64,
    ) -> Option<CallEnd> {
        self.meter.arrive(count);
        let index = self.going.iter().position(|going| going.call == call)?;
        let CallPurpose::Run(mut run) = self.going[index].job else {
            return None;
        };
        run.received = run.received.saturating_add(count);
        let before = run.next;
        // The last segment of a run counts only when the reply is complete.
        while run.next + 1 < run.until && run.has_next(turn.plan) {
            self.put(run.rendition, run.next, turn.plan);
            run.next += 1;
        }
        self.going[index].job = CallPurpose::Run(run);
        if run.next == before {
            return None;
        }
        if run.open_ended {
            // Such a call always ends as abandoned, so received segments count as its success.
            self.failures = 0;
        }
        self.meter.sample(turn.at, false);
        self.roll_if_possible(turn.at, turn.plan);
        if run.open_ended && self.is_enough(turn.at, run, turn.plan) {
            self.going.remove(index);
            turn.calls.finish(turn.now, call, CallEnd::Abandoned, true);
            self.meter.set_busy(turn.at, !self.going.is_empty());
            return self.ask(turn);
        }
        if let Some(timeout) = turn.plan.make.timeout.filter(|_| run.open_ended) {
            // An open-ended call has no natural duration; the timeout applies to each segment.
            turn.calls.set_deadline(call, turn.at + timeout);
        }
        None
    }

    /// A call has ended. Returns the end of the session, if this causes it.
    pub(crate) fn call_ended(
        &mut self,
        turn: &mut EventContext<'_>,
        call: CallId,
        end: CallEnd,
    ) -> Option<CallEnd> {
        let index = self.going.iter().position(|going| going.call == call)?;
        let job = self.going.remove(index).job;
        self.meter.sample(turn.at, end != CallEnd::Whole);
        self.meter.set_busy(turn.at, !self.going.is_empty());
        if end == CallEnd::Whole {
            self.failures = 0;
            self.take(job, turn.plan);
        } else {
            self.failures = self.failures.saturating_add(1);
            if self.failures > turn.plan.make.retries {
                return Some(end);
            }
            self.retry_at = Some(turn.at + turn.plan.make.retry_after);
            self.filling = true;
        }
        self.roll_if_possible(turn.at, turn.plan);
        self.retry_at.take_if(|again| *again <= turn.at);
        self.ask(turn)
    }

    /// The session is over: the viewer's experience.
    pub(crate) fn outcome(&mut self, at: Instant, intended_start: Instant) -> ViewingOutcome {
        self.screen.fill(at, false);
        let started = self.screen.started();
        let (sum, count) = self.rates;
        let mean = sum.checked_div(u128::from(count));
        ViewingOutcome {
            startup_delay: started.map(|started| started.since(intended_start)),
            stalls: self.screen.stalls(),
            stall_time: self.screen.stall_time(),
            played: self.screen.played(),
            bit_rate: mean.map(|rate| BitRate(u64::try_from(rate).unwrap_or(u64::MAX))),
            switches: self.switches,
        }
    }

    /// The segment after the last one in progress, of the same rendition.
    pub(crate) fn upcoming(&self, plan: &AdaptivePlan) -> Option<(ObjectId, Option<ByteRange>)> {
        let runs = self.going.iter().filter_map(|going| match going.job {
            CallPurpose::Run(run) if !run.open_ended => Some(run),
            _ => None,
        });
        let last = runs.max_by_key(|run| run.until)?;
        let place = plan.title.place(last.rendition, last.until)?;
        Some((place.object, place.range))
    }

    fn take(&mut self, job: CallPurpose, plan: &AdaptivePlan) {
        match job {
            CallPurpose::Header { rendition } => {
                let bit = u32::try_from(rendition)
                    .ok()
                    .and_then(|bit| 1_u64.checked_shl(bit));
                self.headers |= bit.unwrap_or(0);
            }
            CallPurpose::Run(run) => {
                (run.next..run.until).for_each(|segment| self.put(run.rendition, segment, plan));
            }
        }
    }

    fn put(&mut self, rendition: usize, segment: u32, plan: &AdaptivePlan) {
        self.here.put(segment);
        self.rates.0 += u128::from(plan.title.bit_rate(rendition).0);
        self.rates.1 = self.rates.1.saturating_add(1);
    }

    /// Whether an open-ended call can be abandoned: the buffer is full, or another rendition is
    /// chosen.
    fn is_enough(&self, at: Instant, run: SegmentRun, plan: &AdaptivePlan) -> bool {
        self.buffered(at, plan) >= plan.make.buffer_high || self.choice(at, plan) != run.rendition
    }
}

impl SegmentRun {
    /// Whether the received bytes complete the next segment.
    fn has_next(&self, plan: &AdaptivePlan) -> bool {
        let place = plan.title.place(self.rendition, self.next);
        let range = place.and_then(|place| place.range);
        range.is_some_and(|range| range.end.saturating_sub(self.start) <= self.received)
    }
}
