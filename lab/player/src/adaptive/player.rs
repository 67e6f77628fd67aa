//! The adaptive player: keeps a buffer full enough, at a bit rate the network bears, for a viewer who
//! watches, pauses, skips and leaves.
//!
//! The one idea: everything follows from three things, the first segment that is missing, the
//! position of the picture, and what is under way. Nothing is remembered of segments once played.

mod asking;
mod watching;

use alloc::vec::Vec;

use headlong_units::{BitRate, ByteRange, Duration, Instant};

use super::meter::Meter;
use super::plan::{AdaptivePlan, Probing};
use super::screen::Screen;
use super::window::Window;
use crate::calls::Calls;
use crate::record::Outcome;
use crate::{CallEnd, CallId, ObjectId};

/// What a call is for.
#[derive(Debug, Clone, Copy)]
enum Job {
    Header {
        rendition: usize,
    },
    Run(Run),
    /// Measured and thrown away.
    Probe,
}

/// Segments that come in one reply, one after another.
#[derive(Debug, Clone, Copy)]
struct Run {
    rendition: usize,
    /// The first that has not come.
    next: u32,
    /// Behind the last.
    until: u32,
    /// Where in the file it begins.
    start: u64,
    received: u64,
    open_ended: bool,
}

/// A call of this player's.
#[derive(Debug, Clone, Copy)]
struct Going {
    call: CallId,
    connection: u32,
    job: Job,
}

/// The phase a player is in (thesis 5.4.1); the inactive one is a buffer that is full or a viewer who
/// pauses.
#[derive(Debug, Clone, Copy)]
enum Phase {
    Transient {
        rendition: usize,
        /// Segments to be read of it before the next step.
        left: u32,
    },
    Stable {
        since: Instant,
    },
}

/// When something happens: as the session has it, and as the shell tells it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    pub(crate) now: Instant,
}

/// What something is done with, and when.
pub(crate) struct Turn<'a> {
    pub(crate) at: Instant,
    pub(crate) now: Instant,
    pub(crate) plan: &'a AdaptivePlan,
    pub(crate) calls: &'a mut Calls,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(moment: Moment, plan: &'a AdaptivePlan, calls: &'a mut Calls) -> Self {
        let Moment { at, now } = moment;
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
    /// When the viewer arrives, until it has.
    begins: Option<Instant>,
    running: bool,
    screen: Screen,
    /// The next act.
    act: usize,
    /// Where in the title the present act ends.
    watch_end: Duration,
    /// Wanted in the buffer before the picture moves.
    threshold: Duration,
    here: Window,
    /// Whether the buffer is being filled, or was full and is played from.
    filling: bool,
    going: Vec<Going>,
    meter: Meter,
    phase: Phase,
    rendition: usize,
    asked_of: Option<usize>,
    switches: u32,
    /// One bit for each rendition whose header was read.
    headers: u64,
    failures: u32,
    retry_at: Option<Instant>,
    /// Sum of the bit rates of segments that came, and how many they are.
    rates: (u128, u32),
}

impl AdaptivePlayer {
    pub(crate) fn new(plan: &AdaptivePlan) -> Self {
        let make = &plan.make;
        let top = plan.title.renditions.len().saturating_sub(1);
        let rendition = usize::try_from(make.start_rendition)
            .unwrap_or(top)
            .min(top);
        let left = |probing: Probing| probing.segments.max(1);
        Self {
            begins: None,
            running: false,
            screen: Screen::new(Instant::ZERO),
            act: 0,
            watch_end: Duration::ZERO,
            threshold: make.start_buffer,
            here: Window::starting_at(0),
            filling: true,
            going: Vec::new(),
            meter: Meter::new(make.estimate),
            phase: match make.probing.map(left) {
                Some(left) => Phase::Transient { rendition, left },
                None => Phase::Stable {
                    since: Instant::ZERO,
                },
            },
            rendition,
            asked_of: None,
            switches: 0,
            headers: 0,
            failures: 0,
            retry_at: None,
            rates: (0, 0),
        }
    }

    /// The session is to begin.
    pub(crate) fn start(&mut self, intended: Instant) {
        self.begins = Some(intended);
    }

    /// When [`ring`](Self::ring) is to be called; [`Instant::NEVER`] if it need not be.
    pub(crate) fn due(&self, plan: &AdaptivePlan) -> Instant {
        if let Some(begins) = self.begins {
            return begins;
        }
        let again = self.retry_at.unwrap_or(Instant::NEVER);
        again.min(self.picture_due(plan)).min(self.ask_due(plan))
    }

    /// Does what is due. The end of the session, if that is due.
    pub(crate) fn ring(&mut self, turn: &mut Turn<'_>) -> Option<CallEnd> {
        if self.begins.take_if(|begins| *begins <= turn.at).is_some() {
            self.running = true;
            self.screen = Screen::new(turn.at);
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

    /// Bytes of a call arrived. The end of the session, if this is one.
    pub(crate) fn arrive(
        &mut self,
        turn: &mut Turn<'_>,
        call: CallId,
        count: u64,
    ) -> Option<CallEnd> {
        self.meter.arrive(count);
        let index = self.going.iter().position(|going| going.call == call)?;
        let Job::Run(mut run) = self.going[index].job else {
            return None;
        };
        run.received = run.received.saturating_add(count);
        let before = run.next;
        // The last segment of a run is here when the reply is whole.
        while run.next + 1 < run.until && run.has_next(turn.plan) {
            self.put(run.rendition, run.next, turn.plan);
            run.next += 1;
        }
        self.going[index].job = Job::Run(run);
        if run.next == before {
            return None;
        }
        if run.open_ended {
            // Such a call is abandoned in the end, and not whole: what it brought is what counts.
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
            // How long an open-ended call lasts says nothing; how long its next segment takes does.
            turn.calls.set_deadline(call, turn.at + timeout);
        }
        None
    }

    /// A call has ended. The end of the session, if this is one.
    pub(crate) fn call_ended(
        &mut self,
        turn: &mut Turn<'_>,
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
        } else if matches!(job, Job::Probe) {
            self.settle(turn.at);
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

    /// The session is over: what the viewer saw.
    pub(crate) fn outcome(&mut self, at: Instant, intended_start: Instant) -> Outcome {
        self.screen.fill(at, false);
        let started = self.screen.started();
        let (sum, count) = self.rates;
        let mean = sum.checked_div(u128::from(count));
        Outcome {
            startup_delay: started.map(|started| started.since(intended_start)),
            stalls: self.screen.stalls(),
            stall_time: self.screen.stall_time(),
            played: self.screen.played(),
            bit_rate: mean.map(|rate| BitRate(u64::try_from(rate).unwrap_or(u64::MAX))),
            switches: self.switches,
        }
    }

    /// The segment behind those that are under way, of their rendition; none while several are tried.
    pub(crate) fn upcoming(&self, plan: &AdaptivePlan) -> Option<(ObjectId, Option<ByteRange>)> {
        if matches!(self.phase, Phase::Transient { .. }) {
            return None;
        }
        let runs = self.going.iter().filter_map(|going| match going.job {
            Job::Run(run) if !run.open_ended => Some(run),
            _ => None,
        });
        let last = runs.max_by_key(|run| run.until)?;
        let place = plan.title.place(last.rendition, last.until)?;
        Some((place.object, place.range))
    }

    fn take(&mut self, job: Job, plan: &AdaptivePlan) {
        match job {
            Job::Header { rendition } => {
                let bit = u32::try_from(rendition)
                    .ok()
                    .and_then(|bit| 1_u64.checked_shl(bit));
                self.headers |= bit.unwrap_or(0);
            }
            Job::Run(run) => {
                (run.next..run.until).for_each(|segment| self.put(run.rendition, segment, plan));
            }
            Job::Probe => {}
        }
    }

    fn put(&mut self, rendition: usize, segment: u32, plan: &AdaptivePlan) {
        self.here.put(segment);
        self.rates.0 += u128::from(plan.title.bit_rate(rendition).0);
        self.rates.1 = self.rates.1.saturating_add(1);
    }

    /// Whether an open-ended call has brought enough: the buffer is full, or something else is
    /// wanted.
    fn is_enough(&self, at: Instant, run: Run, plan: &AdaptivePlan) -> bool {
        self.buffered(at, plan) >= plan.make.buffer_high
            || matches!(self.phase, Phase::Transient { .. })
            || self.choice(at, plan) != run.rendition
    }
}

impl Run {
    /// Whether the bytes that came reach to the end of the next segment.
    fn has_next(&self, plan: &AdaptivePlan) -> bool {
        let place = plan.title.place(self.rendition, self.next);
        let range = place.and_then(|place| place.range);
        range.is_some_and(|range| range.end.saturating_sub(self.start) <= self.received)
    }
}
