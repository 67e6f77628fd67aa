//! Where a piece is in memory: a table from its name to its slot.
//!
//! The one idea: it is asked several times for each piece that is sent, so a search tree is too
//! slow. An open table twice as large as the memory answers in about one look. Its order is seen by
//! nobody, so nothing depends on it.
//!
//! Invariants: a name is there once; a name is found by walking from its home without passing an
//! empty place.

use alloc::vec::Vec;

use crate::ids::{Slot, StreamId};

/// Stream and number of a piece.
type Key = (StreamId, u32);

/// The table. It never holds more names than it was made for.
#[derive(Debug)]
pub(crate) struct PieceIndex {
    places: Vec<Option<(Key, Slot)>>,
    mask: usize,
}

impl PieceIndex {
    /// Room for so many pieces.
    pub(crate) fn new(count_max: u32) -> Self {
        let size = (count_max as usize)
            .max(4)
            .saturating_mul(2)
            .next_power_of_two();
        Self {
            places: alloc::vec![None; size],
            mask: size - 1,
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Slot> {
        let place = self.place_of(key)?;
        self.places[place].map(|(_, slot)| slot)
    }

    /// Answers with the slot that it had before.
    pub(crate) fn insert(&mut self, key: Key, slot: Slot) -> Option<Slot> {
        let mut place = self.home(&key);
        loop {
            match &mut self.places[place] {
                Some((known, before)) if *known == key => {
                    return Some(core::mem::replace(before, slot));
                }
                Some(_) => place = (place + 1) & self.mask,
                empty => {
                    *empty = Some((key, slot));
                    return None;
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        let Some(mut empty) = self.place_of(key) else {
            return;
        };
        self.places[empty] = None;
        // What comes behind and could not be at home moves up, so that no walk ends too early.
        let mut place = empty;
        loop {
            place = (place + 1) & self.mask;
            let Some((known, _)) = &self.places[place] else {
                return;
            };
            let from_home = place.wrapping_sub(self.home(known)) & self.mask;
            let from_empty = place.wrapping_sub(empty) & self.mask;
            if from_home >= from_empty {
                self.places[empty] = self.places[place].take();
                empty = place;
            }
        }
    }

    /// Everything there is, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, Slot)> {
        self.places.iter().flatten().copied()
    }

    fn place_of(&self, key: &Key) -> Option<usize> {
        let mut place = self.home(key);
        loop {
            let (known, _) = self.places[place].as_ref()?;
            if known == key {
                return Some(place);
            }
            place = (place + 1) & self.mask;
        }
    }

    /// Spread evenly, whatever the numbers (the multiplier is 2^64 over the golden ratio).
    fn home(&self, (stream, piece): &Key) -> usize {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let stream = stream.0.wrapping_mul(SPREAD).rotate_left(29);
        let spread = (stream ^ u64::from(*piece)).wrapping_mul(SPREAD);
        (spread >> 32) as usize & self.mask
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0_u64..3, 0_u32..12, any::<bool>()), 0..400)) {
            let mut index = PieceIndex::new(36);
            let mut map = BTreeMap::new();
            for (turn, (stream, piece, is_insert)) in steps.into_iter().enumerate() {
                let key = (StreamId(stream), piece);
                if is_insert {
                    let slot = Slot(turn as u32);
                    prop_assert_eq!(index.insert(key, slot), map.insert(key, slot));
                } else {
                    index.remove(&key);
                    map.remove(&key);
                }
                for piece in 0..12 {
                    let key = (StreamId(stream), piece);
                    prop_assert_eq!(index.get(&key), map.get(&key).copied());
                }
            }
            prop_assert_eq!(index.iter().collect::<BTreeMap<_, _>>(), map);
        }
    }
}
