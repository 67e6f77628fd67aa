//! The viewer's side: playback and the viewer's actions.

use headlong_units::{Duration, Instant};

use super::{AdaptivePlayer, EventContext};
use crate::CallEnd;
use crate::adaptive::plan::{AdaptivePlan, ViewerAction};
use crate::adaptive::playback::PictureState;
use crate::adaptive::window::ReceivedSegments;

impl AdaptivePlayer {
    /// Media time in the buffer after the playback position.
    pub(super) fn buffered(&self, at: Instant, plan: &AdaptivePlan) -> Duration {
        plan.title.begin(self.here.end()) - self.screen.position(at)
    }

    pub(super) fn picture_due(&self, plan: &AdaptivePlan) -> Instant {
        match self.screen.picture() {
            _ if !self.running => Instant::NEVER,
            PictureState::Filling { since, .. } => plan
                .make
                .patience
                .map_or(Instant::NEVER, |patience| since + patience),
            PictureState::Moving { .. } => {
                let end = plan.title.begin(self.here.end()).min(self.watch_end);
                self.screen.reaches(end)
            }
            PictureState::Paused { until } => until,
        }
    }

    pub(super) fn turn_picture(&mut self, turn: &mut EventContext<'_>) -> Option<CallEnd> {
        match self.screen.picture() {
            PictureState::Filling { .. } => Some(CallEnd::Abandoned),
            PictureState::Moving { .. } if self.screen.position(turn.at) < self.watch_end => {
                self.screen.fill(turn.at, true);
                self.threshold = turn.plan.make.resume_buffer;
                None
            }
            PictureState::Moving { .. } | PictureState::Paused { .. } => self.next_act(turn),
        }
    }

    /// Starts the viewer's next action. Returns the end of the session, if there is none.
    pub(super) fn next_act(&mut self, turn: &mut EventContext<'_>) -> Option<CallEnd> {
        let end = turn.plan.title.length();
        while let Some(act) = turn.plan.acts.get(self.act) {
            self.act += 1;
            match *act {
                ViewerAction::Watch(length) => {
                    let position = self.screen.position(turn.at);
                    self.watch_end = (position + length).min(end);
                    if self.watch_end > position {
                        self.screen.fill(turn.at, false);
                        self.roll_if_possible(turn.at, turn.plan);
                        return None;
                    }
                }
                ViewerAction::Pause(length) => {
                    self.screen.pause(turn.at, length);
                    return None;
                }
                ViewerAction::Skip(segment) => self.skip(turn, segment),
            }
        }
        Some(CallEnd::Whole)
    }

    fn skip(&mut self, turn: &mut EventContext<'_>, segment: u32) {
        let target = turn.plan.title.begin(segment.min(turn.plan.title.segments));
        let kept = target >= self.screen.position(turn.at) && segment < self.here.end();
        self.screen.jump(turn.at, target);
        if kept {
            return;
        }
        for going in core::mem::take(&mut self.going) {
            turn.calls
                .finish(turn.now, going.call, CallEnd::Abandoned, true);
        }
        self.meter.set_busy(turn.at, false);
        self.here = ReceivedSegments::starting_at(segment.min(turn.plan.title.segments));
        self.filling = true;
        if self.screen.started().is_some() {
            self.threshold = turn.plan.make.resume_buffer;
        }
    }

    pub(super) fn roll_if_possible(&mut self, at: Instant, plan: &AdaptivePlan) {
        if !matches!(self.screen.picture(), PictureState::Filling { .. }) {
            return;
        }
        // A threshold above the capacity of the buffer would never be reached.
        let wanted = self.threshold.min(plan.make.buffer_high).max(Duration(1));
        let all = self.here.end() >= plan.title.segments;
        if all || self.buffered(at, plan) >= wanted {
            self.threshold = Duration::ZERO;
            self.screen.roll(at);
        }
    }
}
