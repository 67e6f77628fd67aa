//! The adaptive player: keeps a buffer full enough, at a bit rate the network bears, for a viewer who
//! watches, pauses, skips and leaves.
//!
//! The one idea: everything follows from three things, the first segment that is missing, the
//! position of the picture, and what is under way. Nothing is remembered of segments once played.

use alloc::vec::Vec;

use headlong_units::{BitRate, ByteRange, Duration, Instant};

use super::meter::Meter;
use super::plan::{Act, AdaptivePlan, Probing, Shape};
use super::rule::{self, Sight};
use super::screen::{Picture, Screen};
use super::title::{Place, Segments};
use super::window::{WINDOW, Window};
use crate::calls::{Ask, Calls};
use crate::record::Outcome;
use crate::{CallEnd, CallId};

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
    pub(crate) fn ring(
        &mut self,
        moment: Moment,
        plan: &AdaptivePlan,
        calls: &mut Calls,
    ) -> Option<CallEnd> {
        let Moment { at, .. } = moment;
        if self.begins.take_if(|begins| *begins <= at).is_some() {
            self.running = true;
            self.screen = Screen::new(at);
            if let Some(end) = self.next_act(moment, plan, calls) {
                return Some(end);
            }
        }
        self.retry_at.take_if(|again| *again <= at);
        if self.picture_due(plan) <= at
            && let Some(end) = self.turn_picture(moment, plan, calls)
        {
            return Some(end);
        }
        self.ask(moment, plan, calls)
    }

    /// Bytes of a call arrived. The end of the session, if this is one.
    pub(crate) fn arrive(
        &mut self,
        moment: Moment,
        call: CallId,
        count: u64,
        plan: &AdaptivePlan,
        calls: &mut Calls,
    ) -> Option<CallEnd> {
        self.meter.arrive(count);
        let index = self.going.iter().position(|going| going.call == call)?;
        let Job::Run(mut run) = self.going[index].job else {
            return None;
        };
        run.received = run.received.saturating_add(count);
        let before = run.next;
        // The last segment of a run is here when the reply is whole.
        while run.next + 1 < run.until && run.has_next(plan) {
            self.put(run.rendition, run.next, plan);
            run.next += 1;
        }
        self.going[index].job = Job::Run(run);
        if run.next == before {
            return None;
        }
        self.meter.sample(moment.at, false);
        self.roll_if_possible(moment.at, plan);
        if run.open_ended && self.is_enough(moment.at, run, plan) {
            self.going.remove(index);
            calls.finish(moment.now, call, CallEnd::Abandoned, true);
            self.meter.set_busy(moment.at, !self.going.is_empty());
            return self.ask(moment, plan, calls);
        }
        if let Some(timeout) = plan.make.timeout.filter(|_| run.open_ended) {
            // How long an open-ended call lasts says nothing; how long its next segment takes does.
            calls.set_deadline(call, moment.at + timeout);
        }
        None
    }

    /// A call has ended. The end of the session, if this is one.
    pub(crate) fn call_ended(
        &mut self,
        moment: Moment,
        call: CallId,
        end: CallEnd,
        plan: &AdaptivePlan,
        calls: &mut Calls,
    ) -> Option<CallEnd> {
        let index = self.going.iter().position(|going| going.call == call)?;
        let job = self.going.remove(index).job;
        self.meter.sample(moment.at, end != CallEnd::Whole);
        self.meter.set_busy(moment.at, !self.going.is_empty());
        if end == CallEnd::Whole {
            self.failures = 0;
            self.take(job, plan);
        } else if matches!(job, Job::Probe) {
            self.settle(moment.at);
        } else {
            self.failures = self.failures.saturating_add(1);
            if self.failures > plan.make.retries {
                return Some(end);
            }
            self.retry_at = Some(moment.at + plan.make.retry_after);
            self.filling = true;
        }
        self.roll_if_possible(moment.at, plan);
        self.retry_at.take_if(|again| *again <= moment.at);
        self.ask(moment, plan, calls)
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

    // The picture.

    /// How much of the title behind the picture's position is here.
    fn buffered(&self, at: Instant, plan: &AdaptivePlan) -> Duration {
        plan.title.begin(self.here.end()) - self.screen.position(at)
    }

    fn picture_due(&self, plan: &AdaptivePlan) -> Instant {
        match self.screen.picture() {
            _ if !self.running => Instant::NEVER,
            Picture::Filling { since, .. } => plan
                .make
                .patience
                .map_or(Instant::NEVER, |patience| since + patience),
            Picture::Moving { .. } => {
                let end = plan.title.begin(self.here.end()).min(self.watch_end);
                self.screen.reaches(end)
            }
            Picture::Paused { until } => until,
        }
    }

    fn turn_picture(
        &mut self,
        moment: Moment,
        plan: &AdaptivePlan,
        calls: &mut Calls,
    ) -> Option<CallEnd> {
        match self.screen.picture() {
            Picture::Filling { .. } => Some(CallEnd::Abandoned),
            Picture::Moving { .. } if self.screen.position(moment.at) < self.watch_end => {
                self.screen.fill(moment.at, true);
                self.threshold = plan.make.resume_buffer;
                None
            }
            Picture::Moving { .. } | Picture::Paused { .. } => self.next_act(moment, plan, calls),
        }
    }

    /// The viewer does the next thing. The end of the session, if there is none.
    fn next_act(
        &mut self,
        moment: Moment,
        plan: &AdaptivePlan,
        calls: &mut Calls,
    ) -> Option<CallEnd> {
        let Moment { at, now } = moment;
        let end = plan.title.length();
        while let Some(act) = plan.acts.get(self.act) {
            self.act += 1;
            match *act {
                Act::Watch(length) => {
                    let position = self.screen.position(at);
                    self.watch_end = (position + length).min(end);
                    if self.watch_end > position {
                        self.screen.fill(at, false);
                        self.roll_if_possible(at, plan);
                        return None;
                    }
                }
                Act::Pause(length) => {
                    let again = |probing: &Probing| length >= probing.after_pause;
                    if plan.make.probing.as_ref().is_some_and(again) && self.asked_of.is_some() {
                        self.probe(plan);
                    }
                    self.screen.pause(at, length);
                    return None;
                }
                Act::Skip(segment) => self.skip(at, now, segment, plan, calls),
            }
        }
        Some(CallEnd::Whole)
    }

    fn skip(
        &mut self,
        at: Instant,
        now: Instant,
        segment: u32,
        plan: &AdaptivePlan,
        calls: &mut Calls,
    ) {
        let target = plan.title.begin(segment.min(plan.title.segments));
        let kept = target >= self.screen.position(at) && segment < self.here.end();
        self.screen.jump(at, target);
        if kept {
            return;
        }
        for going in core::mem::take(&mut self.going) {
            calls.finish(now, going.call, CallEnd::Abandoned, true);
        }
        self.meter.set_busy(at, false);
        self.here = Window::starting_at(segment.min(plan.title.segments));
        self.filling = true;
        if self.screen.started().is_some() {
            self.threshold = plan.make.resume_buffer;
        }
        if self.asked_of.is_some() {
            self.probe(plan);
        }
    }

    fn roll_if_possible(&mut self, at: Instant, plan: &AdaptivePlan) {
        if !matches!(self.screen.picture(), Picture::Filling { .. }) {
            return;
        }
        // More than the buffer is meant to hold would be waited for in vain.
        let wanted = self.threshold.min(plan.make.buffer_high).max(Duration(1));
        let all = self.here.end() >= plan.title.segments;
        if all || self.buffered(at, plan) >= wanted {
            self.threshold = Duration::ZERO;
            self.screen.roll(at);
        }
    }

    // Phases.

    /// A transient phase begins, a little below the present bit rate.
    fn probe(&mut self, plan: &AdaptivePlan) {
        if let Some(probing) = plan.make.probing {
            self.phase = Phase::Transient {
                rendition: self.rendition.saturating_sub(1),
                left: probing.segments.max(1),
            };
        }
    }

    fn settle(&mut self, at: Instant) {
        self.phase = Phase::Stable { since: at };
    }

    /// The next step of a transient phase: one rendition upwards if that would work.
    fn step(&mut self, at: Instant, rendition: usize, plan: &AdaptivePlan) {
        let above = rendition + 1;
        let estimate = self.meter.estimate();
        self.rendition = rendition;
        if above < plan.title.renditions.len()
            && rule::supports(&plan.title, &plan.make, estimate, above)
        {
            let segments = plan.make.probing.map_or(1, |probing| probing.segments);
            self.phase = Phase::Transient {
                rendition: above,
                left: segments.max(1),
            };
        } else {
            self.settle(at);
        }
    }

    fn choice(&self, at: Instant, plan: &AdaptivePlan) -> usize {
        let picture = self.screen.picture();
        let sight = Sight {
            estimate: self.meter.estimate(),
            buffer: self.buffered(at, plan),
            present: self.rendition,
            moving: matches!(picture, Picture::Moving { .. }),
            dry: matches!(picture, Picture::Filling { dry: true, .. }),
        };
        rule::choose(&plan.title, &plan.make, sight)
    }

    // What is asked for.

    /// The first segment that is neither here nor on its way.
    fn first_missing(&self, plan: &AdaptivePlan) -> Option<u32> {
        let end = self.here.end();
        let behind = end.saturating_add(WINDOW).min(plan.title.segments);
        (end..behind).find(|segment| !self.here.has(*segment) && !self.is_coming(*segment))
    }

    fn is_coming(&self, segment: u32) -> bool {
        self.going.iter().any(|going| match going.job {
            Job::Run(run) => run.next <= segment && segment < run.until,
            Job::Header { .. } | Job::Probe => false,
        })
    }

    /// The level at which a player that has stopped asking goes on; always below the one at which
    /// it stops, or it would do both at once for ever.
    fn low(plan: &AdaptivePlan) -> Duration {
        let below_high = plan.make.buffer_high - Duration(1);
        plan.make.buffer_low.min(below_high)
    }

    /// When the buffer will be down to where the player goes on asking.
    fn ask_due(&self, plan: &AdaptivePlan) -> Instant {
        if self.filling || self.retry_at.is_some() || !self.running {
            return Instant::NEVER;
        }
        let Some(missing) = self.first_missing(plan) else {
            return Instant::NEVER;
        };
        self.screen
            .reaches(plan.title.begin(missing) - Self::low(plan))
    }

    /// The first missing segment, if it is to be asked for now.
    fn wanted(&mut self, at: Instant, plan: &AdaptivePlan) -> Option<u32> {
        let missing = self.first_missing(plan)?;
        let ahead = plan.title.begin(missing) - self.screen.position(at);
        let waiting = matches!(self.screen.picture(), Picture::Filling { .. });
        if ahead <= Self::low(plan) || waiting {
            self.filling = true;
        }
        if ahead >= plan.make.buffer_high && ahead > Duration::ZERO {
            self.filling = false;
        }
        self.filling.then_some(missing)
    }

    /// Asks for whatever is wanted and possible. The end of the session, if the title is not where
    /// the plan says.
    fn ask(&mut self, moment: Moment, plan: &AdaptivePlan, calls: &mut Calls) -> Option<CallEnd> {
        if self.retry_at.is_some() {
            return None;
        }
        while let Some(segment) = self.wanted(moment.at, plan) {
            match self.phase {
                Phase::Transient { rendition, left } => {
                    if !self.going.is_empty() {
                        return None;
                    }
                    if left == 0 {
                        self.step(moment.at, rendition, plan);
                        continue;
                    }
                    if self.is_header_sent(moment, rendition, plan, calls) {
                        return None;
                    }
                    let duplicate = plan.make.probing.is_some_and(|probing| probing.duplicate);
                    let twin = (duplicate && rendition + 1 < plan.title.renditions.len())
                        .then_some(rendition + 1);
                    if twin.is_some_and(|above| self.is_header_sent(moment, above, plan, calls)) {
                        return None;
                    }
                    let left = left - 1;
                    self.phase = Phase::Transient { rendition, left };
                    if !self.send_run(moment, rendition, segment, plan, calls) {
                        return Some(CallEnd::Wrong);
                    }
                    if let Some(place) = twin.and_then(|above| plan.title.place(above, segment)) {
                        self.send(moment, place, Job::Probe, plan, calls);
                    }
                }
                Phase::Stable { since } => {
                    let most = usize::try_from(plan.make.connections).unwrap_or(usize::MAX);
                    if self.going.len() >= most.max(1) {
                        return None;
                    }
                    let every = plan.make.probing.and_then(|probing| probing.every);
                    if every.is_some_and(|every| moment.at.since(since) >= every) {
                        self.probe(plan);
                        continue;
                    }
                    let rendition = self.choice(moment.at, plan);
                    if self.is_header_sent(moment, rendition, plan, calls) {
                        return None;
                    }
                    self.rendition = rendition;
                    if !self.send_run(moment, rendition, segment, plan, calls) {
                        return Some(CallEnd::Wrong);
                    }
                }
            }
        }
        None
    }

    /// Asks for the header of a rendition if it was not read. Whether it is to be waited for.
    fn is_header_sent(
        &mut self,
        moment: Moment,
        rendition: usize,
        plan: &AdaptivePlan,
        calls: &mut Calls,
    ) -> bool {
        let read = u32::try_from(rendition)
            .ok()
            .and_then(|bit| 1_u64.checked_shl(bit));
        let Some(header) = plan
            .title
            .renditions
            .get(rendition)
            .and_then(|found| found.header)
        else {
            return false;
        };
        if read.is_none_or(|bit| self.headers & bit != 0) {
            return false;
        }
        let coming =
            |going: &Going| matches!(going.job, Job::Header { rendition: of } if of == rendition);
        if !self.going.iter().any(coming) {
            self.send(moment, header, Job::Header { rendition }, plan, calls);
        }
        true
    }

    /// Asks for segments from `segment` on; `false` if they are nowhere.
    fn send_run(
        &mut self,
        moment: Moment,
        rendition: usize,
        segment: u32,
        plan: &AdaptivePlan,
        calls: &mut Calls,
    ) -> bool {
        let Some((place, run)) = self.plan_run(rendition, segment, plan) else {
            return false;
        };
        if self.asked_of.is_some_and(|before| before != rendition) {
            self.switches = self.switches.saturating_add(1);
        }
        self.asked_of = Some(rendition);
        self.send(moment, place, Job::Run(run), plan, calls);
        true
    }

    /// What one request for `segment` covers.
    fn plan_run(
        &self,
        rendition: usize,
        segment: u32,
        plan: &AdaptivePlan,
    ) -> Option<(Place, Run)> {
        let mut place = plan.title.place(rendition, segment)?;
        let mut run = Run {
            rendition,
            next: segment,
            until: segment + 1,
            start: place.range.map_or(0, |range| range.start),
            received: 0,
            open_ended: false,
        };
        if matches!(self.phase, Phase::Transient { .. }) {
            return Some((place, run));
        }
        match plan.make.shape {
            Shape::Segments(most) => {
                while run.until - segment < most
                    && !self.here.has(run.until)
                    && !self.is_coming(run.until)
                    && let Some(next) = plan.title.place(rendition, run.until)
                    && let Some(joined) = join(place, next)
                {
                    place = joined;
                    run.until += 1;
                }
            }
            Shape::OpenEnded => {
                let found = plan.title.renditions.get(rendition)?;
                if let Segments::OneFile { file_bytes, .. } = &found.segments {
                    place.range = Some(ByteRange::new(run.start, u64::MAX));
                    place.bytes = Some(file_bytes.saturating_sub(run.start));
                    run.until = plan.title.segments;
                    run.open_ended = true;
                }
            }
        }
        Some((place, run))
    }

    fn send(
        &mut self,
        moment: Moment,
        place: Place,
        job: Job,
        plan: &AdaptivePlan,
        calls: &mut Calls,
    ) {
        let taken = |connection: &u32| self.going.iter().any(|g| g.connection == *connection);
        let connection = (0..u32::MAX)
            .find(|connection| !taken(connection))
            .unwrap_or(0);
        let ask = Ask {
            object: place.object,
            range: place.range,
            expected_bytes: place.bytes,
            timeout: plan.make.timeout,
        };
        let call = calls.send(moment.now, moment.at, connection, ask);
        self.going.push(Going {
            call,
            connection,
            job,
        });
        self.meter.set_busy(moment.at, true);
    }

    // What came.

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

/// Two places as one, if the second follows the first in the same file.
fn join(first: Place, second: Place) -> Option<Place> {
    let (left, right) = (first.range?, second.range?);
    let follows = first.object == second.object && left.end == right.start;
    follows.then(|| Place::part(first.object, ByteRange::new(left.start, right.end)))
}
