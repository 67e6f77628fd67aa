//! Lists of slots: least recently used first, and the slots of each stream.
//!
//! The one idea: nearly every piece that is sent joins a list and leaves it from the midst when it is
//! sent again, so a list is links through an array and nothing is searched.
//!
//! Invariants: a slot is in one list of an array of links at most; a list has the order in which its
//! slots joined it.

use alloc::vec::Vec;

use crate::id_map::IdMap;
use crate::ids::{Slot, StreamId};

/// Nobody.
const NONE: u32 = u32::MAX;

/// The links of one array: who is before and behind each slot in the list that it is in.
#[derive(Debug)]
struct Links(Vec<Link>);

#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    behind: u32,
}

/// First and last of a list, and how many it has.
#[derive(Debug, Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
    count: usize,
}

impl Ends {
    const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
        count: 0,
    };
}

impl Links {
    fn new(slot_count: u32) -> Self {
        let alone = Link {
            before: NONE,
            behind: NONE,
        };
        Self(alloc::vec![alone; slot_count as usize])
    }

    fn join(&mut self, ends: &mut Ends, slot: Slot) {
        let before = core::mem::replace(&mut ends.last, slot.0);
        ends.count += 1;
        match before {
            NONE => ends.first = slot.0,
            before => self.0[before as usize].behind = slot.0,
        }
        self.0[slot.0 as usize] = Link {
            before,
            behind: NONE,
        };
    }

    fn leave(&mut self, ends: &mut Ends, slot: Slot) {
        let Link { before, behind } = self.0[slot.0 as usize];
        ends.count -= 1;
        match before {
            NONE => ends.first = behind,
            before => self.0[before as usize].behind = behind,
        }
        match behind {
            NONE => ends.last = before,
            behind => self.0[behind as usize].before = before,
        }
    }

    fn all(&self, ends: Ends) -> Vec<Slot> {
        let mut slots = Vec::with_capacity(ends.count);
        let mut next = ends.first;
        while next != NONE {
            slots.push(Slot(next));
            next = self.0[next as usize].behind;
        }
        slots
    }
}

/// Some lists by last use, `LISTS` of them, told apart by their numbers.
#[derive(Debug)]
pub(crate) struct LruLists<const LISTS: usize> {
    links: Links,
    ends: [Ends; LISTS],
}

impl<const LISTS: usize> LruLists<LISTS> {
    /// Empty lists for so many slots.
    pub(crate) fn new(slot_count: u32) -> Self {
        Self {
            links: Links::new(slot_count),
            ends: [Ends::EMPTY; LISTS],
        }
    }

    /// How many are in a list.
    pub(crate) fn len(&self, list: usize) -> usize {
        self.ends[list].count
    }

    /// Who was used least recently.
    pub(crate) fn first(&self, list: usize) -> Option<Slot> {
        let first = self.ends[list].first;
        (first != NONE).then_some(Slot(first))
    }

    /// A slot that is in no list joins the end of one.
    pub(crate) fn join(&mut self, list: usize, slot: Slot) {
        self.links.join(&mut self.ends[list], slot);
    }

    /// A slot that is in a list leaves it.
    pub(crate) fn leave(&mut self, list: usize, slot: Slot) {
        self.links.leave(&mut self.ends[list], slot);
    }
}

/// The slots of each stream, so that a stream that goes is not searched for.
#[derive(Debug)]
pub(crate) struct StreamSlots {
    links: Links,
    ends: IdMap<StreamId, Ends>,
}

impl StreamSlots {
    /// Of so many slots, none holds anything.
    pub(crate) fn new(slot_count: u32) -> Self {
        Self {
            links: Links::new(slot_count),
            ends: IdMap::default(),
        }
    }

    /// A slot of no stream becomes one of this.
    pub(crate) fn join(&mut self, stream: StreamId, slot: Slot) {
        let ends = self.ends.entry(stream).or_insert(Ends::EMPTY);
        self.links.join(ends, slot);
    }

    /// A slot of this stream becomes one of no stream.
    pub(crate) fn leave(&mut self, stream: StreamId, slot: Slot) {
        if let Some(ends) = self.ends.get_mut(&stream) {
            self.links.leave(ends, slot);
            if ends.count == 0 {
                self.ends.remove(&stream);
            }
        }
    }

    /// All slots of a stream.
    pub(crate) fn of(&self, stream: StreamId) -> Vec<Slot> {
        let ends = self.ends.get(&stream).copied();
        ends.map_or_else(Vec::new, |ends| self.links.all(ends))
    }

    /// Panics if the lists do not hold `count` slots, each in the list of its stream.
    pub(crate) fn check_invariants(&self, count: usize, stream_of: impl Fn(Slot) -> StreamId) {
        let mut listed = 0;
        for (stream, ends) in &self.ends {
            let mut slots = self.links.all(*ends).into_iter();
            listed += ends.count;
            assert_eq!(slots.len(), ends.count);
            assert!(slots.all(|slot| stream_of(slot) == *stream), "{stream:?}");
        }
        assert_eq!(listed, count, "slots that hold something");
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_lists(steps in prop::collection::vec((0_usize..2, 0_u32..8), 0..200)) {
            let mut lru: LruLists<2> = LruLists::new(8);
            let mut lists = [vec![], vec![]];
            for (line, slot) in steps {
                let slot = Slot(slot);
                let known = lists.iter().position(|list: &Vec<Slot>| list.contains(&slot));
                match known {
                    Some(line) => {
                        lru.leave(line, slot);
                        lists[line].retain(|other| *other != slot);
                    }
                    None => {
                        lru.join(line, slot);
                        lists[line].push(slot);
                    }
                }
                for (line, list) in lists.iter().enumerate() {
                    prop_assert_eq!(&lru.links.all(lru.ends[line]), list);
                    prop_assert_eq!(lru.first(line), list.first().copied());
                    prop_assert_eq!(lru.len(line), list.len());
                }
            }
        }

        #[test]
        fn the_slots_of_a_stream_are_those_that_joined_and_did_not_leave(
            steps in prop::collection::vec((0_u64..3, 0_u32..8), 0..200),
        ) {
            let mut slots = StreamSlots::new(8);
            let mut model: [Option<StreamId>; 8] = [None; 8];
            for (stream, slot) in steps {
                let (stream, of) = (StreamId(stream), &mut model[slot as usize]);
                match of.take() {
                    Some(known) => slots.leave(known, Slot(slot)),
                    None => {
                        slots.join(stream, Slot(slot));
                        *of = Some(stream);
                    }
                }
                for stream in (0..3).map(StreamId) {
                    let mut found = slots.of(stream);
                    found.sort_unstable();
                    let expected = (0..8).filter(|slot| model[*slot as usize] == Some(stream));
                    prop_assert_eq!(found, expected.map(Slot).collect::<Vec<_>>());
                }
            }
            prop_assert_eq!(slots.ends.is_empty(), model.iter().all(Option::is_none));
        }
    }
}
