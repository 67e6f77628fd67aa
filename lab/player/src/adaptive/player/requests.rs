//! Requests: which bytes of which rendition to request next, and when.

use headlong_units::{ByteRange, Duration, Instant};

use super::{AdaptivePlayer, CallPurpose, EventContext, OpenCall, SegmentRun};
use crate::CallEnd;
use crate::adaptive::plan::{AdaptivePlan, RequestExtent};
use crate::adaptive::playback::PictureState;
use crate::adaptive::rule::{self, RuleInput};
use crate::adaptive::title::{ObjectRange, SegmentTable};
use crate::adaptive::window::WINDOW;
use crate::call_table::CallRequest;

/// Result of an attempt to request a segment.
#[derive(Debug, Clone, Copy)]
enum RequestAttempt {
    Sent,
    /// Another call must end first.
    NotYet,
    /// The title has no such segment.
    Nowhere,
}

impl AdaptivePlayer {
    pub(super) fn choice(&self, at: Instant, plan: &AdaptivePlan) -> usize {
        let picture = self.screen.picture();
        let sight = RuleInput {
            estimate: self.meter.estimate(),
            buffer: self.buffered(at, plan),
            present: self.rendition,
            moving: matches!(picture, PictureState::Moving { .. }),
            dry: matches!(picture, PictureState::Filling { dry: true, .. }),
        };
        rule::choose(&plan.title, &plan.make, sight)
    }

    /// The first segment that is neither received nor in progress.
    fn first_missing(&self, plan: &AdaptivePlan) -> Option<u32> {
        let end = self.here.end();
        let behind = end.saturating_add(WINDOW).min(plan.title.segments);
        (end..behind).find(|segment| !self.here.has(*segment) && !self.is_coming(*segment))
    }

    fn is_coming(&self, segment: u32) -> bool {
        self.going.iter().any(|going| match going.job {
            CallPurpose::Run(run) => run.next <= segment && segment < run.until,
            CallPurpose::Header { .. } => false,
        })
    }

    /// The level at which a player that has stopped requesting continues; always below the level at
    /// which it stops, otherwise it would alternate endlessly.
    fn low(plan: &AdaptivePlan) -> Duration {
        let below_high = plan.make.buffer_high - Duration(1);
        plan.make.buffer_low.min(below_high)
    }

    /// When the buffer will be down to that level.
    pub(super) fn ask_due(&self, plan: &AdaptivePlan) -> Instant {
        if self.filling || self.retry_at.is_some() || !self.running {
            return Instant::NEVER;
        }
        let Some(missing) = self.first_missing(plan) else {
            return Instant::NEVER;
        };
        self.screen
            .reaches(plan.title.begin(missing) - Self::low(plan))
    }

    /// The first missing segment, if it should be requested now.
    fn wanted(&mut self, at: Instant, plan: &AdaptivePlan) -> Option<u32> {
        let missing = self.first_missing(plan)?;
        let ahead = plan.title.begin(missing) - self.screen.position(at);
        let waiting = matches!(self.screen.picture(), PictureState::Filling { .. });
        if ahead <= Self::low(plan) || waiting {
            self.filling = true;
        }
        if ahead >= plan.make.buffer_high && ahead > Duration::ZERO {
            self.filling = false;
        }
        self.filling.then_some(missing)
    }

    /// Sends all requests that are wanted and possible. Returns the end of the session, if a
    /// segment has no place in the title.
    pub(super) fn ask(&mut self, turn: &mut EventContext<'_>) -> Option<CallEnd> {
        if self.retry_at.is_some() {
            return None;
        }
        while let Some(segment) = self.wanted(turn.at, turn.plan) {
            match self.ask_segments(turn, segment) {
                RequestAttempt::Sent => {}
                RequestAttempt::NotYet => return None,
                RequestAttempt::Nowhere => return Some(CallEnd::Wrong),
            }
        }
        None
    }

    /// Requests segments of the rendition chosen by the rule, if a connection is free.
    fn ask_segments(&mut self, turn: &mut EventContext<'_>, segment: u32) -> RequestAttempt {
        let most = usize::try_from(turn.plan.make.connections).unwrap_or(usize::MAX);
        if self.going.len() >= most.max(1) {
            return RequestAttempt::NotYet;
        }
        let rendition = self.choice(turn.at, turn.plan);
        if self.is_header_sent(turn, rendition) {
            return RequestAttempt::NotYet;
        }
        self.rendition = rendition;
        self.send_run(turn, rendition, segment)
    }

    /// Requests the header of a rendition if it has not been read. Returns whether the caller must
    /// wait for it.
    fn is_header_sent(&mut self, turn: &mut EventContext<'_>, rendition: usize) -> bool {
        let read = u32::try_from(rendition)
            .ok()
            .and_then(|bit| 1_u64.checked_shl(bit));
        let Some(header) = turn
            .plan
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
        let coming = |going: &OpenCall| matches!(going.job, CallPurpose::Header { rendition: of } if of == rendition);
        if !self.going.iter().any(coming) {
            self.send(turn, header, CallPurpose::Header { rendition });
        }
        true
    }

    /// Requests segments from `segment` on.
    fn send_run(
        &mut self,
        turn: &mut EventContext<'_>,
        rendition: usize,
        segment: u32,
    ) -> RequestAttempt {
        let Some((place, run)) = self.plan_run(rendition, segment, turn.plan) else {
            return RequestAttempt::Nowhere;
        };
        if self.asked_of.is_some_and(|before| before != rendition) {
            self.switches = self.switches.saturating_add(1);
        }
        self.asked_of = Some(rendition);
        self.send(turn, place, CallPurpose::Run(run));
        RequestAttempt::Sent
    }

    /// The extent of a request for `segment`.
    fn plan_run(
        &self,
        rendition: usize,
        segment: u32,
        plan: &AdaptivePlan,
    ) -> Option<(ObjectRange, SegmentRun)> {
        let mut place = plan.title.place(rendition, segment)?;
        let mut run = SegmentRun {
            rendition,
            next: segment,
            until: segment + 1,
            start: place.range.map_or(0, |range| range.start),
            received: 0,
            open_ended: false,
        };
        match plan.make.shape {
            RequestExtent::Segments(most) => {
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
            RequestExtent::OpenEnded => {
                let found = plan.title.renditions.get(rendition)?;
                if let SegmentTable::OneFile { file_bytes, .. } = &found.segments {
                    place.range = Some(ByteRange::new(run.start, u64::MAX));
                    place.bytes = Some(file_bytes.saturating_sub(run.start));
                    run.until = plan.title.segments;
                    run.open_ended = true;
                }
            }
        }
        Some((place, run))
    }

    fn send(&mut self, turn: &mut EventContext<'_>, place: ObjectRange, job: CallPurpose) {
        let taken = |connection: &u32| self.going.iter().any(|g| g.connection == *connection);
        let connection = (0..u32::MAX)
            .find(|connection| !taken(connection))
            .unwrap_or(0);
        let ask = CallRequest {
            object: place.object,
            range: place.range,
            expected_bytes: place.bytes,
            timeout: turn.plan.make.timeout,
            reading: None,
        };
        let call = turn.calls.send(turn.now, turn.at, connection, ask);
        self.going.push(OpenCall {
            call,
            connection,
            job,
        });
        self.meter.set_busy(turn.at, true);
    }
}

/// Two places as one, if the second follows the first in the same file.
fn join(first: ObjectRange, second: ObjectRange) -> Option<ObjectRange> {
    let (left, right) = (first.range?, second.range?);
    let follows = first.object == second.object && left.end == right.start;
    follows.then(|| ObjectRange::part(first.object, ByteRange::new(left.start, right.end)))
}
