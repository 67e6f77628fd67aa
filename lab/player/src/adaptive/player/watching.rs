//! The viewer's side: the picture, and what the viewer does.

use headlong_units::{Duration, Instant};

use super::{AdaptivePlayer, Moment};
use crate::CallEnd;
use crate::adaptive::plan::{Act, AdaptivePlan, Probing};
use crate::adaptive::screen::Picture;
use crate::adaptive::window::Window;
use crate::calls::Calls;

impl AdaptivePlayer {
    /// How much of the title behind the picture's position is here.
    pub(super) fn buffered(&self, at: Instant, plan: &AdaptivePlan) -> Duration {
        plan.title.begin(self.here.end()) - self.screen.position(at)
    }

    pub(super) fn picture_due(&self, plan: &AdaptivePlan) -> Instant {
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

    pub(super) fn turn_picture(
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
    pub(super) fn next_act(
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

    pub(super) fn roll_if_possible(&mut self, at: Instant, plan: &AdaptivePlan) {
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
}
