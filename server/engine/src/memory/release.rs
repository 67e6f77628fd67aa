//! Releasing memory: slot by slot to the system, or with its pieces to the next process.

use alloc::vec::Vec;
use core::cmp::Reverse;

use headlong_units::Instant;

use super::Memory;
use super::slot::{CachedPiece, EvictedPiece, EvictionRank, OwnerId, PieceKey, SlotPhase};
use crate::ids::Slot;

impl Memory {
    /// From now on [`Memory::vacate`] also returns all free slots that were used.
    pub(crate) fn begin_vacating(&mut self) {
        let used = |slot: &&Slot| slot.0 < self.used_end;
        self.to_vacate = self.free.iter().filter(used).copied().collect();
    }

    /// Free slots need not be vacated any more.
    pub(crate) fn end_vacating(&mut self) {
        self.to_vacate = Vec::new();
    }

    /// Frees a slot that is not in use, and returns it with its evicted piece.
    pub(crate) fn vacate(&mut self, now: Instant) -> Option<(Slot, Option<EvictedPiece>)> {
        while let Some(slot) = self.to_vacate.pop() {
            // It may have been taken meanwhile.
            if self.slots[slot.0 as usize].state == SlotPhase::Free {
                return Some((slot, None));
            }
        }
        let slot = self.first_evictable(now)?;
        let evicted = self.evict(now, slot);
        self.release(slot);
        Some((slot, Some(evicted)))
    }

    /// Whether [`Memory::vacate`] would return a slot.
    pub(crate) fn has_to_vacate(&self) -> bool {
        !self.to_vacate.is_empty() || self.evictable() > 0
    }

    /// All pieces in memory that are not being sent.
    pub(crate) fn held(&self) -> impl Iterator<Item = CachedPiece> + '_ {
        let is_free_to_go = |slot: &Slot| {
            let state = &self.slots[slot.0 as usize];
            state.state == SlotPhase::Ready && state.sending == 0
        };
        self.index.iter().filter(is_free_to_go).map(|slot| {
            let state = &self.slots[slot.0 as usize];
            let wanted_at = match state.rank {
                Some(EvictionRank::Wanted(Reverse(at), _)) => Some(at),
                _ => None,
            };
            CachedPiece {
                key: state.key(),
                slot,
                owner: state.owner.chain(),
                wanted_at,
                popularity: self.popularity.of(state.key()),
                was_read: state.was_read(),
            }
        })
    }

    /// Removes a piece that [`Memory::held`] returned; its slot is reserved.
    pub(crate) fn take_out(&mut self, now: Instant, slot: Slot) -> EvictedPiece {
        let gone = self.evict(now, slot);
        let state = &mut self.slots[slot.0 as usize];
        state.state = SlotPhase::Filling;
        state.owner = OwnerId::NOBODY;
        self.counts.filling += 1;
        gone
    }

    /// Reserves a free slot for a piece that is not known yet.
    pub(crate) fn reserve(&mut self) -> Option<Slot> {
        let slot = self.free.pop()?;
        self.used_end = self.used_end.max(slot.0 + 1);
        let state = &mut self.slots[slot.0 as usize];
        state.state = SlotPhase::Filling;
        state.sent_to = 0;
        state.is_on_flash = false;
        self.counts.filling += 1;
        Some(slot)
    }

    /// A reserved slot has received a piece; its first `sent_to` bytes were sent before.
    pub(crate) fn received(
        &mut self,
        now: Instant,
        slot: Slot,
        key: PieceKey,
        sent_to: u32,
        wanted_at: Option<Instant>,
    ) {
        let state = &mut self.slots[slot.0 as usize];
        (state.stream, state.piece) = key;
        state.sent_to = sent_to;
        if sent_to > 0 {
            self.popularity.record(now, key);
        }
        self.name(slot, key);
        self.filled(now, slot, None);
        if wanted_at.is_some() {
            self.rank(slot, wanted_at);
        }
    }
}
