//! Piece index: finds the slot of a piece in memory.
//!
//! It is queried several times for each piece that is sent, so it must fit the processor's cache.
//! It is an open-addressing hash table with twice as many entries as there are slots, which needs
//! about one probe. An entry stores only the hash of the key; the caller compares the full key with
//! that of the slot, which it reads next anyway. Consecutive pieces of a file are neighbours in the
//! table, as they are looked up in sequence. Its iteration order is not used. (A table with
//! tombstones would need a rebuild from time to time, in one long pause.)
//!
//! Invariants: a key is stored once; it is found by probing from its home entry without passing an
//! empty one.

use alloc::vec::Vec;

use crate::ids::{Slot, StreamId};

/// Stream and number of a piece.
type IndexKey = (StreamId, u32);

/// One entry of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IndexEntry {
    /// Hash of the key; its lowest bits are the home entry.
    spread: u32,
    /// The slot, or [`NONE`].
    slot: u32,
}

/// Pieces whose home entries are adjacent: one cache line.
const NEIGHBOURS: u32 = 8;
/// No slot.
const NONE: u32 = u32::MAX;
const EMPTY: IndexEntry = IndexEntry {
    spread: 0,
    slot: NONE,
};

/// The table. It never holds more keys than it was made for.
#[derive(Debug)]
pub(crate) struct PieceIndex {
    places: Vec<IndexEntry>,
    mask: usize,
}

impl PieceIndex {
    /// A table for at most `count_max` pieces.
    pub(crate) fn new(count_max: u32) -> Self {
        let size = (count_max as usize)
            .max(4)
            .saturating_mul(2)
            .next_power_of_two();
        Self {
            places: alloc::vec![EMPTY; size],
            mask: size - 1,
        }
    }

    /// The slot of a key; `name_of` returns the key that a slot holds.
    pub(crate) fn get(&self, key: IndexKey, name_of: impl Fn(Slot) -> IndexKey) -> Option<Slot> {
        let spread = spread(key);
        let is_it = |place: IndexEntry| place.spread == spread && name_of(Slot(place.slot)) == key;
        let place = self.walk(spread, is_it)?;
        Some(Slot(self.places[place].slot))
    }

    /// Whether a slot is stored under this key.
    pub(crate) fn has(&self, key: IndexKey, slot: Slot) -> bool {
        self.walk(spread(key), |place| place.slot == slot.0)
            .is_some()
    }

    /// Stores a slot under a key that is not in the table.
    pub(crate) fn insert(&mut self, key: IndexKey, slot: Slot) {
        let spread = spread(key);
        let mut place = self.home(spread);
        while self.places[place] != EMPTY {
            place = (place + 1) & self.mask;
        }
        self.places[place] = IndexEntry {
            spread,
            slot: slot.0,
        };
    }

    /// Removes a key of a slot, if it is stored.
    pub(crate) fn remove(&mut self, key: IndexKey, slot: Slot) {
        let Some(mut empty) = self.walk(spread(key), |place| place.slot == slot.0) else {
            return;
        };
        self.places[empty] = EMPTY;
        // Entries behind the removed one that are not at home move up, so that no probe ends too
        // early.
        let mut place = empty;
        loop {
            place = (place + 1) & self.mask;
            let known = self.places[place];
            if known == EMPTY {
                return;
            }
            let from_home = place.wrapping_sub(self.home(known.spread)) & self.mask;
            let from_empty = place.wrapping_sub(empty) & self.mask;
            if from_home >= from_empty {
                self.places[empty] = core::mem::replace(&mut self.places[place], EMPTY);
                empty = place;
            }
        }
    }

    /// Every slot in the table, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> {
        let taken = self.places.iter().filter(|place| **place != EMPTY);
        taken.map(|place| Slot(place.slot))
    }

    /// Probes from the home entry of a hash to the first matching entry, or to an empty one.
    fn walk(&self, spread: u32, is_it: impl Fn(IndexEntry) -> bool) -> Option<usize> {
        let mut place = self.home(spread);
        loop {
            let known = self.places[place];
            if known == EMPTY {
                return None;
            }
            if is_it(known) {
                return Some(place);
            }
            place = (place + 1) & self.mask;
        }
    }

    fn home(&self, spread: u32) -> usize {
        spread as usize & self.mask
    }
}

/// Hashes groups of neighbours evenly, whatever the numbers (the multiplier is 2^64 over the golden
/// ratio).
fn spread((stream, piece): IndexKey) -> u32 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (group, within) = (piece / NEIGHBOURS, piece % NEIGHBOURS);
    let stream = stream.0.wrapping_mul(SPREAD).rotate_left(29);
    let spread = (stream ^ u64::from(group)).wrapping_mul(SPREAD);
    ((spread >> 32) as u32 / NEIGHBOURS) * NEIGHBOURS + within
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_a_map(steps in prop::collection::vec((0_u64..3, 0_u32..12, any::<bool>()), 0..400)) {
            let mut index = PieceIndex::new(36);
            let mut map = BTreeMap::new();
            let mut names = alloc::vec![(StreamId(0), 0); 400];
            for (turn, (stream, piece, is_insert)) in steps.into_iter().enumerate() {
                let key = (StreamId(stream), piece);
                let known = map.get(&key).copied();
                match (is_insert, known) {
                    (true, None) => {
                        names[turn] = key;
                        index.insert(key, Slot(turn as u32));
                        map.insert(key, Slot(turn as u32));
                    }
                    (false, Some(slot)) => {
                        index.remove(key, slot);
                        map.remove(&key);
                    }
                    // Another slot for that key, which is not stored under it.
                    _ => index.remove(key, Slot(1000)),
                }
                for piece in 0..12 {
                    let key = (StreamId(stream), piece);
                    let found = index.get(key, |slot| names[slot.0 as usize]);
                    prop_assert_eq!(found, map.get(&key).copied());
                    prop_assert!(found.is_none_or(|slot| index.has(key, slot)));
                }
            }
            let mut all: Vec<Slot> = index.iter().collect();
            all.sort_unstable();
            let mut expected: Vec<Slot> = map.into_values().collect();
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
        }
    }
}
