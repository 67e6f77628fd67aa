//! What was sent stays in memory for a moment, where whoever it was sent to reads it later
//! ([`EngineConfig::sent_stays`](crate::EngineConfig::sent_stays)).
//!
//! The one idea: to memory it is being sent all that time. The moment is counted from when all of the
//! reply has come, for whoever reads it later waits for all of it.

use headlong_units::{Duration, Instant};

use super::state::Shard;
use crate::ids::{RequestId, Slot};
use crate::resting::Resting;

/// At most this part of memory rests.
const PART: usize = 4;

impl Shard {
    /// A reply is done with a slot.
    pub(super) fn rest(&mut self, slot: Slot, reply: RequestId) {
        if self.config.sent_stays == Duration::ZERO {
            return self.end_rest(slot);
        }
        self.begin_rest(slot, reply);
        self.end_rests();
    }

    fn begin_rest(&mut self, slot: Slot, reply: RequestId) {
        let is_coming = self
            .replies
            .get(reply)
            .is_some_and(|reply| !reply.is_whole());
        self.resting.push_back(Resting {
            until: self.now + self.config.sent_stays,
            slot,
            reply,
            is_early: is_coming,
        });
    }

    /// Those that rested for long enough, or are too many, may go.
    pub(super) fn end_rests(&mut self) {
        let most = self.memory.slot_count() / PART;
        while let Some(first) = self.resting.front().copied()
            && (first.until <= self.now || self.resting.len() > most)
        {
            self.resting.pop_front();
            match first.is_early && self.resting.len() < most {
                true => self.begin_rest(first.slot, first.reply),
                false => self.end_rest(first.slot),
            }
        }
    }

    /// A slot holds nothing any more, whoever it was to stay for.
    pub(super) fn break_rests(&mut self, slot: Slot) {
        let before = self.resting.len();
        self.resting.retain(|resting| resting.slot != slot);
        for _ in self.resting.len()..before {
            self.end_rest(slot);
        }
    }

    /// When the next one may go, if anything waits for memory, perhaps.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        let next = self.resting.front().filter(|_| !self.queue.is_empty());
        next.map(|resting| resting.until)
    }

    fn end_rest(&mut self, slot: Slot) {
        let wanted_at = self.wanted_at(self.memory.key(slot));
        self.memory.end_sending(slot, wanted_at);
    }
}
