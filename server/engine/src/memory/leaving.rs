//! Memory that goes elsewhere: to the system, slot by slot, or with its pieces from one process to the next.

use alloc::vec::Vec;
use core::cmp::Reverse;

use headlong_units::Instant;

use super::Memory;
use super::slot::{Evicted, Held, Owner, PieceKey, Rank, State};
use crate::ids::Slot;

impl Memory {
    /// From now on [`Memory::vacate`] gives all slots that were used and are free, too.
    pub(crate) fn begin_vacating(&mut self) {
        let used = |slot: &&Slot| slot.0 < self.used_end;
        self.to_vacate = self.free.iter().filter(used).copied().collect();
    }

    /// No slot has to be vacated any more because it is free.
    pub(crate) fn end_vacating(&mut self) {
        self.to_vacate = Vec::new();
    }

    /// A slot whose memory nobody needs, which is free then, and what was in it.
    pub(crate) fn vacate(&mut self, now: Instant) -> Option<(Slot, Option<Evicted>)> {
        while let Some(slot) = self.to_vacate.pop() {
            // It may have been taken meanwhile.
            if self.slots[slot.0 as usize].state == State::Free {
                return Some((slot, None));
            }
        }
        let slot = self.first_evictable()?;
        let evicted = self.evict(now, slot);
        self.release(slot);
        Some((slot, Some(evicted)))
    }

    /// Whether [`Memory::vacate`] has something to give.
    pub(crate) fn has_to_vacate(&self) -> bool {
        !self.to_vacate.is_empty() || self.evictable() > 0
    }

    /// All pieces that are there and that nobody is being sent.
    pub(crate) fn held(&self) -> impl Iterator<Item = Held> + '_ {
        let is_free_to_go = |slot: &Slot| {
            let state = &self.slots[slot.0 as usize];
            state.state == State::Ready && state.sending == 0
        };
        self.index.iter().filter(is_free_to_go).map(|slot| {
            let state = &self.slots[slot.0 as usize];
            let wanted_at = match state.rank {
                Some(Rank::Wanted(Reverse(at), _)) => Some(at),
                _ => None,
            };
            Held {
                key: state.key(),
                slot,
                owner: state.owner.chain(),
                wanted_at,
                was_read: state.was_read(),
                filled_at: state.filled_at,
            }
        })
    }

    /// Takes out a piece that [`Memory::held`] gave; its slot is reserved.
    pub(crate) fn take_out(&mut self, now: Instant, slot: Slot) -> Evicted {
        let gone = self.evict(now, slot);
        let state = &mut self.slots[slot.0 as usize];
        state.state = State::Filling;
        state.owner = Owner::NOBODY;
        self.counts.filling += 1;
        gone
    }

    /// A free slot that is to be filled with nobody knows yet what.
    pub(crate) fn reserve(&mut self) -> Option<Slot> {
        let slot = self.free.pop()?;
        self.used_end = self.used_end.max(slot.0 + 1);
        let state = &mut self.slots[slot.0 as usize];
        state.state = State::Filling;
        state.sent_to = 0;
        state.is_on_flash = false;
        self.counts.filling += 1;
        Some(slot)
    }

    /// A reserved slot has a piece that is not there yet; the first `sent_to` bytes of it were sent.
    pub(crate) fn received(
        &mut self,
        now: Instant,
        (slot, key): (Slot, PieceKey),
        sent_to: u32,
        wanted_at: Option<Instant>,
    ) {
        let state = &mut self.slots[slot.0 as usize];
        (state.stream, state.piece) = key;
        state.sent_to = sent_to;
        self.name(slot, key);
        self.filled(now, slot, None);
        if wanted_at.is_some() {
            self.rank(slot, wanted_at);
        }
    }
}
