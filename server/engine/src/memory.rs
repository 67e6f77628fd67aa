//! Memory pool: which slot holds which piece, and the order of eviction.
//!
//! Prefetched unread pieces, pieces being sent and pieces that were read are separate classes. A
//! slot is in exactly one class, and the classes add up to the budget:
//!
//!  ```text
//! Free -> Filling -> Unread (owned by a live chain) -> Sending <-> Read -> Free
//!                  -> Read   (without an owner)
//!  ```
//!
//! Invariants: a slot that is Filling or Sending is never reused; an Unread one only by
//! [`Memory::take_unread`], which the caller counts as a prefetch eviction; Read ones in this
//! order: abandoned unread or also on flash; then those whose next read is expected last, because a
//! viewer behind will want them late, or because their segment is seldom read.
//!
//! The exceptions are for comparisons: the least recently used ones first
//! ([`Retention::Lru`]), and a pool that works like a kernel's page cache
//! ([`Memory::protect_unread`]): one list by last use, in which an Unread piece ranks like any
//! other, and reading it into memory was its first use.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

use headlong_units::{Duration, Instant};

use crate::config::Retention;
use crate::ids::{ChainId, Slot, StreamId};
use crate::index::PieceIndex;
use crate::lru::{LruLists, StreamSlots};
use crate::popularity::{Popularity, PopularityTable};
use crate::stats::MemoryUse;

mod release;
mod slot;

pub(crate) use slot::{CachedPiece, EvictedPiece, PieceKey};
use slot::{EvictionRank, OwnerId, SlotPhase, SlotState};

/// List of pieces that were never sent, which are evicted before all others.
const ORPHANS: u8 = 0;
/// List of pieces that were sent, if they are kept by last use.
const READ: u8 = 1;

/// How long a piece is kept beyond the time at which a viewer was expected: as long as a viewer may
/// pause.
const WANTED_LATE: Duration = Duration::from_secs(40);

/// The pool, as tokens.
#[derive(Debug)]
pub(crate) struct Memory {
    slots: Vec<SlotState>,
    free: Vec<Slot>,
    index: PieceIndex,
    lru: LruLists<2>,
    /// Slots that are in `index`, by stream.
    by_stream: StreamSlots,
    wanted: BTreeSet<(Reverse<Instant>, u64, Slot)>,
    /// Sent pieces that no viewer behind will want, by the popularity of their segments.
    popular: BTreeSet<(Popularity, u64, Slot)>,
    popularity: PopularityTable,
    use_count: u64,
    counts: SlotCounts,
    /// Whether Unread pieces are protected from eviction.
    protects_unread: bool,
    by_popularity: bool,
    /// Slots below this have been used.
    used_end: u32,
    /// Free slots that were used and whose memory must be returned to the system.
    to_vacate: Vec<Slot>,
}

#[derive(Debug, Default, Clone, Copy)]
struct SlotCounts {
    filling: u64,
    sending: u64,
    unread: u64,
}

impl Memory {
    pub(crate) fn new(slot_count: u32, piece_bytes: u64) -> Self {
        Self {
            slots: alloc::vec![SlotState::EMPTY; slot_count as usize],
            // Low slots are used first, so that an idle server touches little memory.
            free: (0..slot_count).rev().map(Slot).collect(),
            index: PieceIndex::new(slot_count),
            lru: LruLists::new(slot_count),
            by_stream: StreamSlots::new(slot_count),
            wanted: BTreeSet::new(),
            popular: BTreeSet::new(),
            popularity: PopularityTable::new(slot_count, piece_bytes),
            use_count: 0,
            counts: SlotCounts::default(),
            protects_unread: true,
            by_popularity: true,
            used_end: 0,
            to_vacate: Vec::new(),
        }
    }

    /// Sets whether Unread pieces are protected, or evicted by last use like all others.
    pub(crate) fn protect_unread(&mut self, protects: bool) {
        if self.protects_unread == protects {
            return;
        }
        self.protects_unread = protects;
        let slots = 0..self.slots.len() as u32;
        for slot in slots.map(Slot) {
            let state = &self.slots[slot.0 as usize];
            if state.state == SlotPhase::Ready && state.sending == 0 && state.is_owned() {
                match protects {
                    true => self.unrank(slot),
                    false => self.rank(slot, None),
                }
            }
        }
    }

    /// Sets the order of pieces that are sent from now on; earlier ones keep their ranks.
    pub(crate) fn set_retention(&mut self, retention: Retention) {
        self.by_popularity = retention == Retention::Popularity;
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Slots that are available without an eviction from a live chain.
    pub(crate) fn available(&self) -> usize {
        self.free.len() + self.evictable()
    }

    /// Slots that have a rank.
    fn evictable(&self) -> usize {
        self.list_len(ORPHANS) + self.list_len(READ) + self.popular.len() + self.wanted.len()
    }

    fn list_len(&self, list: u8) -> usize {
        self.lru.len(usize::from(list))
    }

    /// The first slot in the order of eviction.
    fn first_evictable(&self, now: Instant) -> Option<Slot> {
        let first = |list: u8| self.lru.first(usize::from(list));
        if let Some(slot) = first(ORPHANS).or_else(|| first(READ)) {
            return Some(slot);
        }
        match (self.popular.first(), self.wanted.first()) {
            (Some((popularity, _, popular)), Some((Reverse(at), _, wanted))) => {
                let is_wanted_later = at.since(now) > popularity.next_read_in(now);
                Some(if is_wanted_later { *wanted } else { *popular })
            }
            (Some((_, _, slot)), None) | (None, Some((_, _, slot))) => Some(*slot),
            (None, None) => None,
        }
    }

    /// A piece whose expected viewer is overdue: that viewer is slower than estimated, or has left.
    pub(crate) fn unclaimed(&self, now: Instant) -> Option<Slot> {
        let (Reverse(at), _, slot) = self.wanted.last()?;
        (*at + WANTED_LATE < now).then_some(*slot)
    }

    /// Changes the time at which a piece is wanted; `None` if no viewer is expected.
    pub(crate) fn want(&mut self, slot: Slot, wanted_at: Option<Instant>) {
        debug_assert!(matches!(
            self.slots[slot.0 as usize].rank,
            Some(EvictionRank::Wanted(..))
        ));
        self.rank(slot, wanted_at);
    }

    /// The slot of a piece that is in memory or being read.
    pub(crate) fn find(&self, key: PieceKey) -> Option<Slot> {
        self.index.get(key, |slot| self.key(slot))
    }

    pub(crate) fn is_ready(&self, slot: Slot) -> bool {
        self.slots[slot.0 as usize].state == SlotPhase::Ready
    }

    pub(crate) fn key(&self, slot: Slot) -> PieceKey {
        self.slots[slot.0 as usize].key()
    }

    pub(crate) fn owner(&self, slot: Slot) -> Option<ChainId> {
        self.slots[slot.0 as usize].owner.chain()
    }

    /// Takes a slot to read a piece into: a free one, else the first in the order of eviction.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        key: PieceKey,
    ) -> Option<(Slot, Option<EvictedPiece>)> {
        let (slot, evicted) = match self.free.pop() {
            Some(slot) => (slot, None),
            None => {
                let slot = self.first_evictable(now)?;
                (slot, Some(self.evict(now, slot)))
            }
        };
        self.begin_filling(slot, key);
        Some((slot, evicted))
    }

    /// Whether a slot holds an unread piece of that chain which is not being sent.
    pub(crate) fn can_take_unread(&self, slot: Slot, owner: ChainId) -> bool {
        let state = &self.slots[slot.0 as usize];
        state.state == SlotPhase::Ready && state.sending == 0 && state.owner.chain() == Some(owner)
    }

    /// Takes a slot that holds a live chain's unread piece. The caller chose `victim`.
    pub(crate) fn take_unread(
        &mut self,
        now: Instant,
        victim: Slot,
        key: PieceKey,
    ) -> EvictedPiece {
        debug_assert!(self.slots[victim.0 as usize].is_owned());
        let evicted = self.evict(now, victim);
        self.begin_filling(victim, key);
        evicted
    }

    /// The read into the slot is done: it belongs to `owner`, if there is one.
    pub(crate) fn filled(&mut self, now: Instant, slot: Slot, owner: Option<ChainId>) {
        let state = &mut self.slots[slot.0 as usize];
        debug_assert_eq!(state.state, SlotPhase::Filling);
        state.state = SlotPhase::Ready;
        state.filled_at = now;
        state.owner = OwnerId::of(owner);
        self.counts.filling -= 1;
        self.put_away(slot, None);
    }

    /// The same, from flash, where the piece stays: after it was sent it is evicted early.
    pub(crate) fn filled_from_flash(&mut self, now: Instant, slot: Slot, owner: Option<ChainId>) {
        self.slots[slot.0 as usize].is_on_flash = true;
        self.filled(now, slot, owner);
    }

    /// Whether a piece was read from flash.
    pub(crate) fn is_on_flash(&self, slot: Slot) -> bool {
        self.slots[slot.0 as usize].is_on_flash
    }

    /// Whether a slot is being read into.
    pub(crate) fn is_filling(&self, slot: Slot) -> bool {
        self.slots[slot.0 as usize].state == SlotPhase::Filling
    }

    /// Removes a slot that is being read into from the index: its piece may be read into another
    /// one.
    pub(crate) fn unname(&mut self, slot: Slot) {
        debug_assert!(self.is_filling(slot));
        self.forget(slot);
    }

    /// Adds such a slot to the index again; no other slot holds the piece meanwhile.
    pub(crate) fn name(&mut self, slot: Slot, key: PieceKey) {
        debug_assert!(self.is_filling(slot) && self.find(key).is_none());
        self.index.insert(key, slot);
        self.by_stream.join(key.0, slot);
    }

    /// Ranks a Ready slot that is no longer being sent, if its class is evictable.
    fn put_away(&mut self, slot: Slot, wanted_at: Option<Instant>) {
        let is_unread = self.slots[slot.0 as usize].is_owned();
        self.counts.unread += u64::from(is_unread);
        if !is_unread || !self.protects_unread {
            self.rank(slot, wanted_at);
        }
    }

    /// The read into the slot failed: the slot is empty.
    pub(crate) fn unfilled(&mut self, slot: Slot) {
        let state = &mut self.slots[slot.0 as usize];
        debug_assert_eq!(state.state, SlotPhase::Filling);
        self.counts.filling -= 1;
        self.forget(slot);
        self.release(slot);
    }

    /// A reply takes bytes of the piece. Returns how many of them had not been sent since they were
    /// read.
    pub(crate) fn begin_sending(&mut self, now: Instant, slot: Slot, from: u32, to: u32) -> u32 {
        if from == 0 {
            self.popularity.record(now, self.key(slot));
        }
        self.unrank(slot);
        let state = &mut self.slots[slot.0 as usize];
        debug_assert_eq!(state.state, SlotPhase::Ready);
        if state.sending == 0 {
            self.counts.sending += 1;
            if state.is_owned() {
                self.counts.unread -= 1;
            }
        }
        state.sending += 1;
        let fresh = to.saturating_sub(state.sent_to.max(from));
        state.sent_to = state.sent_to.max(to);
        fresh
    }

    /// A reply is done with the piece. `wanted_at` is when a viewer behind will want it. Returns
    /// whether the slot became free because its piece had been dropped meanwhile.
    pub(crate) fn end_sending(&mut self, slot: Slot, wanted_at: Option<Instant>) -> bool {
        let state = &mut self.slots[slot.0 as usize];
        debug_assert!(state.sending > 0);
        state.sending -= 1;
        if state.sending > 0 {
            return false;
        }
        self.counts.sending -= 1;
        let state = self.slots[slot.0 as usize];
        if !self.index.has(state.key(), slot) {
            self.release(slot);
            return true;
        }
        self.put_away(slot, wanted_at);
        false
    }

    /// The piece in a slot was used again.
    pub(crate) fn touch(&mut self, now: Instant, slot: Slot) {
        let Some(state) = self.slots.get(slot.0 as usize).copied() else {
            return;
        };
        if state.state == SlotPhase::Ready {
            self.popularity.record(now, state.key());
        }
        if let Some(EvictionRank::InList(_) | EvictionRank::Popular(..)) = state.rank {
            self.rank(slot, None);
        }
    }

    /// The chain that owned the piece has read it, or has ended.
    pub(crate) fn disown(&mut self, slot: Slot, wanted_at: Option<Instant>) {
        let state = &mut self.slots[slot.0 as usize];
        let was_owned = core::mem::replace(&mut state.owner, OwnerId::NOBODY) != OwnerId::NOBODY;
        if was_owned && state.state == SlotPhase::Ready && state.sending == 0 {
            self.counts.unread -= 1;
            // The piece was not used: on a list by last use it keeps its place.
            if self.protects_unread {
                self.rank(slot, wanted_at);
            }
        }
    }

    /// A chain claims a piece without an owner that it will read.
    pub(crate) fn own(&mut self, slot: Slot, owner: ChainId) {
        let state = self.slots[slot.0 as usize];
        if state.state != SlotPhase::Ready || state.is_owned() {
            return;
        }
        if self.protects_unread {
            self.unrank(slot);
        }
        self.slots[slot.0 as usize].owner = OwnerId::of(Some(owner));
        if state.sending == 0 {
            self.counts.unread += 1;
        }
    }

    /// Moves a piece from one chain to another (the chains were joined).
    pub(crate) fn change_owner(&mut self, slot: Slot, owner: ChainId) {
        self.slots[slot.0 as usize].owner = OwnerId::of(Some(owner));
    }

    /// Drops every piece of a stream that is not being read into; those being sent stay in memory,
    /// without a key, until the socket has taken them.
    pub(crate) fn drop_stream(&mut self, now: Instant, stream: StreamId) -> Vec<EvictedPiece> {
        let mut pieces = self.by_stream.of(stream);
        pieces.sort_unstable_by_key(|slot| self.key(*slot));
        let mut dropped = Vec::new();
        for slot in pieces {
            let state = self.slots[slot.0 as usize];
            if state.state == SlotPhase::Filling {
                continue;
            }
            if state.sending > 0 {
                self.forget(slot);
                self.slots[slot.0 as usize].owner = OwnerId::NOBODY;
            } else {
                dropped.push(self.evict(now, slot));
                self.release(slot);
            }
        }
        dropped
    }

    /// Frees a slot whose content was lost, unless it is being read into or sent.
    pub(crate) fn lose(&mut self, now: Instant, slot: Slot) -> Option<EvictedPiece> {
        let state = self.slots.get(slot.0 as usize)?;
        if state.state != SlotPhase::Ready || state.sending > 0 {
            return None;
        }
        let lost = self.evict(now, slot);
        self.release(slot);
        Some(lost)
    }

    /// Slots that replies hold.
    pub(crate) fn sending_count(&self) -> usize {
        self.counts.sending as usize
    }

    /// The division of the budget.
    pub(crate) fn usage(&self, piece_bytes: u64) -> MemoryUse {
        let total = self.slots.len() as u64;
        let free = self.free.len() as u64;
        let SlotCounts {
            filling,
            sending,
            unread,
        } = self.counts;
        MemoryUse {
            free_bytes: free * piece_bytes,
            filling_bytes: filling * piece_bytes,
            sending_bytes: sending * piece_bytes,
            unread_bytes: unread * piece_bytes,
            read_bytes: (total - free - filling - sending - unread) * piece_bytes,
        }
    }

    fn begin_filling(&mut self, slot: Slot, key: PieceKey) {
        self.used_end = self.used_end.max(slot.0 + 1);
        let state = &mut self.slots[slot.0 as usize];
        state.state = SlotPhase::Filling;
        (state.stream, state.piece) = key;
        state.owner = OwnerId::NOBODY;
        state.sent_to = 0;
        state.is_on_flash = false;
        self.counts.filling += 1;
        debug_assert!(self.find(key).is_none(), "the piece is in memory twice");
        self.index.insert(key, slot);
        self.by_stream.join(key.0, slot);
    }

    /// Removes a Ready slot from the index; the caller reuses or releases it.
    fn evict(&mut self, now: Instant, slot: Slot) -> EvictedPiece {
        self.unrank(slot);
        let state = self.slots[slot.0 as usize];
        debug_assert!(state.state == SlotPhase::Ready && state.sending == 0);
        if state.is_owned() {
            self.counts.unread -= 1;
        }
        self.forget(slot);
        let age = now.since(state.filled_at);
        EvictedPiece {
            key: state.key(),
            was_read: state.was_read(),
            age,
            owner: state.owner.chain(),
        }
    }

    /// Removes a slot from the index, if it is in it.
    fn forget(&mut self, slot: Slot) {
        let key = self.key(slot);
        if self.index.has(key, slot) {
            self.index.remove(key, slot);
            self.by_stream.leave(key.0, slot);
        }
    }

    fn release(&mut self, slot: Slot) {
        let state = &mut self.slots[slot.0 as usize];
        state.state = SlotPhase::Free;
        state.owner = OwnerId::NOBODY;
        self.free.push(slot);
    }

    fn rank(&mut self, slot: Slot, wanted_at: Option<Instant>) {
        self.unrank(slot);
        let state = &mut self.slots[slot.0 as usize];
        let rank = match wanted_at {
            _ if state.is_on_flash && state.was_read() => {
                self.lru.join(usize::from(ORPHANS), slot);
                EvictionRank::InList(ORPHANS)
            }
            Some(at) => {
                self.use_count += 1;
                self.wanted.insert((Reverse(at), self.use_count, slot));
                EvictionRank::Wanted(Reverse(at), self.use_count)
            }
            None => {
                let popularity = self.popularity.of(state.key());
                if self.by_popularity && self.protects_unread && state.was_read() {
                    self.use_count += 1;
                    self.popular.insert((popularity, self.use_count, slot));
                    EvictionRank::Popular(popularity, self.use_count)
                } else {
                    let is_read = state.was_read() || !self.protects_unread;
                    let list = if is_read { READ } else { ORPHANS };
                    self.lru.join(usize::from(list), slot);
                    EvictionRank::InList(list)
                }
            }
        };
        state.rank = Some(rank);
    }

    fn unrank(&mut self, slot: Slot) {
        match self.slots[slot.0 as usize].rank.take() {
            Some(EvictionRank::InList(list)) => self.lru.leave(usize::from(list), slot),
            Some(EvictionRank::Wanted(at, turn)) => {
                self.wanted.remove(&(at, turn, slot));
            }
            Some(EvictionRank::Popular(popularity, turn)) => {
                self.popular.remove(&(popularity, turn, slot));
            }
            None => {}
        }
    }

    /// Panics unless every slot is in one class, and the counts agree.
    pub(crate) fn check_invariants(&self) {
        let is = |state| move |slot: &&SlotState| slot.state == state;
        let ready = || self.slots.iter().filter(is(SlotPhase::Ready));
        let sending = ready().filter(|slot| slot.sending > 0).count() as u64;
        let unread = ready()
            .filter(|slot| slot.sending == 0 && slot.is_owned())
            .count();
        assert_eq!(
            self.slots.iter().filter(is(SlotPhase::Free)).count(),
            self.free.len()
        );
        assert_eq!(
            self.slots.iter().filter(is(SlotPhase::Filling)).count() as u64,
            self.counts.filling
        );
        assert_eq!(sending, self.counts.sending);
        assert_eq!(unread as u64, self.counts.unread);
        let ranked = ready().filter(|slot| slot.rank.is_some()).count();
        assert_eq!(ranked, self.evictable());
        assert_eq!(
            ready()
                .filter(|slot| slot.sending == 0)
                .filter(|slot| !slot.is_owned() || !self.protects_unread)
                .count(),
            ranked,
            "evictable are exactly the pieces that are neither sent nor owned"
        );
        for slot in self.index.iter() {
            assert_eq!(self.find(self.key(slot)), Some(slot));
        }
        let named = self.index.iter().count();
        self.by_stream
            .check_invariants(named, |slot| self.key(slot).0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId(1);
    const PIECE_BYTES: u64 = 64 * 1024;

    fn fill(memory: &mut Memory, piece: u32, owner: Option<ChainId>) -> Slot {
        let (slot, _) = memory.take(Instant::ZERO, (STREAM, piece)).expect("a slot");
        memory.filled(Instant::ZERO, slot, owner);
        memory.check_invariants();
        slot
    }

    fn read(memory: &mut Memory, slot: Slot, wanted_at: Option<Instant>) {
        memory.begin_sending(Instant::ZERO, slot, 0, 1);
        memory.end_sending(slot, wanted_at);
        memory.check_invariants();
    }

    #[test]
    fn evicts_orphans_then_read_pieces_then_wanted_ones() {
        let mut memory = Memory::new(4, PIECE_BYTES);
        let late = fill(&mut memory, 0, None);
        let soon = fill(&mut memory, 1, None);
        let old = fill(&mut memory, 2, None);
        fill(&mut memory, 3, None);
        read(&mut memory, late, Some(Instant(900)));
        read(&mut memory, soon, Some(Instant(100)));
        read(&mut memory, old, None);
        let order: Vec<u32> = (10..14)
            .map(|piece| {
                let (_, evicted) = memory.take(Instant::ZERO, (STREAM, piece)).expect("a slot");
                evicted.expect("memory is full").key.1
            })
            .collect();
        assert_eq!(order, [3, 2, 0, 1]);
    }

    /// Reads a piece at each of these seconds.
    fn read_at(memory: &mut Memory, slot: Slot, seconds: &[u64], wanted_at: Option<Instant>) {
        for second in seconds {
            let now = Instant::ZERO + Duration::from_secs(*second);
            memory.begin_sending(now, slot, 0, 1);
            memory.end_sending(slot, wanted_at);
        }
        memory.check_invariants();
    }

    #[test]
    fn evicts_piece_whose_next_read_is_expected_last() {
        let mut memory = Memory::new(4, PIECE_BYTES);
        let second = |second| Instant::ZERO + Duration::from_secs(second);
        // Pieces of different segments: read every five minutes, once, and wanted soon and late.
        let often = fill(&mut memory, 0, None);
        let once = fill(&mut memory, 16, None);
        let soon = fill(&mut memory, 32, None);
        let late = fill(&mut memory, 48, None);
        read_at(&mut memory, often, &[0, 300, 600, 900, 1_200], None);
        read_at(&mut memory, once, &[1_200], None);
        read_at(&mut memory, soon, &[1_200], Some(second(1_260)));
        read_at(&mut memory, late, &[1_200], Some(second(1_800)));
        let order: Vec<u32> = (100..104)
            .map(|piece| {
                let taken = memory.take(second(1_200), (STREAM, piece));
                let (_, evicted) = taken.expect("a slot");
                evicted.expect("memory is full").key.1
            })
            .collect();
        assert_eq!(order, [16, 48, 0, 32]);
    }

    #[test]
    fn lru_evicts_popular_piece_that_was_not_used_for_longest() {
        let mut memory = Memory::new(2, PIECE_BYTES);
        memory.set_retention(Retention::Lru);
        let often = fill(&mut memory, 0, None);
        let once = fill(&mut memory, 16, None);
        read_at(&mut memory, often, &[0, 1, 2, 3], None);
        read_at(&mut memory, once, &[4], None);
        let (_, evicted) = memory.take(Instant(9), (STREAM, 100)).expect("a slot");
        assert_eq!(evicted.expect("memory is full").key.1, 0);
    }

    #[test]
    fn unread_pieces_of_live_chains_are_not_available() {
        let mut memory = Memory::new(1, PIECE_BYTES);
        let slot = fill(&mut memory, 0, Some(ChainId(1)));
        assert_eq!(memory.available(), 0);
        assert!(memory.take(Instant::ZERO, (STREAM, 9)).is_none());
        let evicted = memory.take_unread(Instant(5), slot, (STREAM, 9));
        assert_eq!(evicted.owner, Some(ChainId(1)));
        assert_eq!(evicted.age, Duration(5));
        memory.check_invariants();
    }

    #[test]
    fn page_cache_evicts_unread_pieces_by_last_use() {
        let mut memory = Memory::new(3, PIECE_BYTES);
        memory.protect_unread(false);
        let first = fill(&mut memory, 0, Some(ChainId(1)));
        fill(&mut memory, 1, Some(ChainId(1)));
        fill(&mut memory, 2, None);
        assert_eq!(memory.available(), 3);
        memory.begin_sending(Instant::ZERO, first, 0, 1);
        memory.disown(first, None);
        memory.end_sending(first, None);
        memory.check_invariants();
        let (_, evicted) = memory.take(Instant(7), (STREAM, 9)).expect("a slot");
        let evicted = evicted.expect("memory is full");
        assert_eq!((evicted.key.1, evicted.owner), (1, Some(ChainId(1))));
        memory.protect_unread(true);
        memory.check_invariants();
        let (_, evicted) = memory.take(Instant(8), (STREAM, 10)).expect("a slot");
        assert_eq!(evicted.expect("memory is full").key.1, 2);
    }

    #[test]
    fn dropped_stream_keeps_only_pieces_being_sent() {
        let mut memory = Memory::new(2, PIECE_BYTES);
        let sent = fill(&mut memory, 0, None);
        fill(&mut memory, 1, Some(ChainId(1)));
        memory.begin_sending(Instant::ZERO, sent, 0, 1);
        memory.drop_stream(Instant::ZERO, STREAM);
        memory.check_invariants();
        assert_eq!(memory.find((STREAM, 0)), None);
        assert_eq!(memory.available(), 1);
        assert!(memory.end_sending(sent, None));
        assert_eq!(memory.available(), 2);
        memory.check_invariants();
    }
}
