//! What was sent stays in memory for a moment, where whoever it was sent to reads it later
//! ([`EngineConfig::sent_stays`](crate::EngineConfig::sent_stays)).
//!
//! The one idea: to memory it is being sent all that time.

use headlong_units::{Duration, Instant};

use super::state::Shard;
use crate::ids::Slot;

/// At most this part of memory rests.
const PART: usize = 4;

impl Shard {
    /// A reply is done with a slot.
    pub(super) fn rest(&mut self, slot: Slot) {
        if self.config.sent_stays == Duration::ZERO {
            return self.end_rest(slot);
        }
        self.resting
            .push_back((self.now + self.config.sent_stays, slot));
        self.end_rests();
    }

    /// Those that rested for long enough, or are too many, may go.
    pub(super) fn end_rests(&mut self) {
        let most = self.memory.slot_count() / PART;
        while let Some((until, slot)) = self.resting.front().copied()
            && (until <= self.now || self.resting.len() > most)
        {
            self.resting.pop_front();
            self.end_rest(slot);
        }
    }

    /// A slot holds nothing any more, whoever it was to stay for.
    pub(super) fn break_rests(&mut self, slot: Slot) {
        let before = self.resting.len();
        self.resting.retain(|(_, resting)| *resting != slot);
        for _ in self.resting.len()..before {
            self.end_rest(slot);
        }
    }

    /// When the next one may go, if anything waits for memory, perhaps.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        let next = self.resting.front().filter(|_| !self.queue.is_empty());
        next.map(|(until, _)| *until)
    }

    fn end_rest(&mut self, slot: Slot) {
        let wanted_at = self.wanted_at(self.memory.key(slot));
        self.memory.end_sending(slot, wanted_at);
    }
}
