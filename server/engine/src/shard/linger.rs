//! Lingering: sent pieces stay in memory for a short time, for receivers that read them later
//! ([`EngineConfig::sent_stays`](crate::EngineConfig::sent_stays)).
//!
//! A lingering slot counts as being sent. The time starts when the whole reply has been handed out,
//! as such a receiver waits for all of it.

use headlong_units::{Duration, Instant};

use super::state::Shard;
use crate::ids::{RequestId, Slot};
use crate::lingering_slot::LingeringSlot;

/// At most this fraction of memory lingers.
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
        self.resting.push_back(LingeringSlot {
            until: self.now + self.config.sent_stays,
            slot,
            reply,
            is_early: is_coming,
        });
    }

    /// Releases slots that have lingered long enough, or exceed the limit.
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

    /// The content of a slot was lost: it lingers no more.
    pub(super) fn break_rests(&mut self, slot: Slot) {
        let before = self.resting.len();
        self.resting.retain(|resting| resting.slot != slot);
        for _ in self.resting.len()..before {
            self.end_rest(slot);
        }
    }

    /// When the next slot may be released, if jobs wait for memory.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        let next = self.resting.front().filter(|_| !self.queue.is_empty());
        next.map(|resting| resting.until)
    }

    fn end_rest(&mut self, slot: Slot) {
        let wanted_at = self.wanted_at(self.memory.key(slot));
        self.memory.end_sending(slot, wanted_at);
    }
}
