//! Intrusive lists of slots: by last use, and by stream.
//!
//! Nearly every piece that is sent is moved within a list, so lists are links in an array and need
//! no search.
//!
//! Invariants: a slot is in at most one list of an array of links; a list is ordered by the time at
//! which its slots joined.

use alloc::vec::Vec;

use crate::id_map::IdMap;
use crate::ids::{Slot, StreamId};

/// No slot.
const NONE: u32 = u32::MAX;

/// The links of one array: the predecessor and successor of each slot in its list.
#[derive(Debug)]
struct Links(Vec<Link>);

#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    behind: u32,
}

/// First and last slot of a list, and its length.
#[derive(Debug, Clone, Copy)]
struct ListEnds {
    first: u32,
    last: u32,
    count: usize,
}

impl ListEnds {
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

    fn join(&mut self, ends: &mut ListEnds, slot: Slot) {
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

    fn leave(&mut self, ends: &mut ListEnds, slot: Slot) {
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

    fn all(&self, ends: ListEnds) -> Vec<Slot> {
        let mut slots = Vec::with_capacity(ends.count);
        let mut next = ends.first;
        while next != NONE {
            slots.push(Slot(next));
            next = self.0[next as usize].behind;
        }
        slots
    }
}

/// `LISTS` lists by last use, identified by their numbers.
#[derive(Debug)]
pub(crate) struct LruLists<const LISTS: usize> {
    links: Links,
    ends: [ListEnds; LISTS],
}

impl<const LISTS: usize> LruLists<LISTS> {
    /// Empty lists for `slot_count` slots.
    pub(crate) fn new(slot_count: u32) -> Self {
        Self {
            links: Links::new(slot_count),
            ends: [ListEnds::EMPTY; LISTS],
        }
    }

    /// Length of a list.
    pub(crate) fn len(&self, list: usize) -> usize {
        self.ends[list].count
    }

    /// The least recently used slot.
    pub(crate) fn first(&self, list: usize) -> Option<Slot> {
        let first = self.ends[list].first;
        (first != NONE).then_some(Slot(first))
    }

    /// Appends a slot that is in no list.
    pub(crate) fn join(&mut self, list: usize, slot: Slot) {
        self.links.join(&mut self.ends[list], slot);
    }

    /// Removes a slot from its list.
    pub(crate) fn leave(&mut self, list: usize, slot: Slot) {
        self.links.leave(&mut self.ends[list], slot);
    }
}

/// The slots of each stream, so that removing a stream needs no search.
#[derive(Debug)]
pub(crate) struct StreamSlots {
    links: Links,
    ends: IdMap<StreamId, ListEnds>,
}

impl StreamSlots {
    /// No slot of `slot_count` belongs to a stream.
    pub(crate) fn new(slot_count: u32) -> Self {
        Self {
            links: Links::new(slot_count),
            ends: IdMap::default(),
        }
    }

    /// Adds a slot to a stream.
    pub(crate) fn join(&mut self, stream: StreamId, slot: Slot) {
        let ends = self.ends.entry(stream).or_insert(ListEnds::EMPTY);
        self.links.join(ends, slot);
    }

    /// Removes a slot from its stream.
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
        assert_eq!(listed, count, "slots with a piece");
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_lists(steps in prop::collection::vec((0_usize..2, 0_u32..8), 0..200)) {
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
        fn slots_of_stream_are_those_that_joined_and_did_not_leave(
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
