//! Who reads a stream, and where: for whoever is a little behind another.
//!
//! The one idea: a reader moves with every piece that is sent, and seldom past another one; and most
//! streams have few. So each stream has a list by position, in which a move shifts those few that were
//! passed, and nothing is searched in a tree of all readers.
//!
//! Invariants: a list is in order of position, and of chains at the same one; a chain is in one list
//! once; a stream that nobody reads has none.

use alloc::vec::Vec;

use crate::id_map::IdMap;
use crate::ids::{ChainId, StreamId};

/// Position, and whose.
type Reader = (u64, ChainId);

/// The readers of all streams.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    by_stream: IdMap<StreamId, Vec<Reader>>,
}

impl Readers {
    /// A chain begins to read.
    pub(crate) fn add(&mut self, stream: StreamId, reader: Reader) {
        let list = self.by_stream.entry(stream).or_default();
        if let Err(place) = list.binary_search(&reader) {
            list.insert(place, reader);
        }
    }

    /// A chain reads no more.
    pub(crate) fn remove(&mut self, stream: StreamId, reader: Reader) {
        let Some(list) = self.by_stream.get_mut(&stream) else {
            return;
        };
        if let Ok(place) = list.binary_search(&reader) {
            list.remove(place);
        }
        if list.is_empty() {
            self.by_stream.remove(&stream);
        }
    }

    /// Whether a chain is in the list at a position.
    pub(crate) fn has(&self, stream: StreamId, reader: Reader) -> bool {
        let list = self.by_stream.get(&stream);
        list.is_some_and(|list| list.binary_search(&reader).is_ok())
    }

    /// A chain that was at a position is at another one.
    pub(crate) fn move_to(&mut self, stream: StreamId, (from, chain): Reader, to: u64) {
        let Some(list) = self.by_stream.get_mut(&stream) else {
            return;
        };
        let Ok(place) = list.binary_search(&(from, chain)) else {
            return;
        };
        let reader = (to, chain);
        list[place] = reader;
        // Those that lie between the two positions make way.
        if to > from {
            let passed = list[place + 1..].partition_point(|other| *other < reader);
            list[place..=place + passed].rotate_left(1);
        } else {
            let first = list[..place].partition_point(|other| *other < reader);
            list[first..=place].rotate_right(1);
        }
    }

    /// The nearest reader of a stream that has not passed `offset`.
    pub(crate) fn nearest_behind(&self, stream: StreamId, offset: u64) -> Option<ChainId> {
        let list = self.by_stream.get(&stream)?;
        let behind = list.partition_point(|(position, _)| *position <= offset);
        let (_, chain) = list.get(behind.checked_sub(1)?)?;
        Some(*chain)
    }

    /// All of a stream, by position.
    pub(crate) fn of_stream(&self, stream: StreamId) -> impl Iterator<Item = ChainId> + '_ {
        let list = self.by_stream.get(&stream).into_iter().flatten();
        list.map(|(_, chain)| *chain)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_sets_in_order(
            steps in prop::collection::vec((0_u64..2, 0_u64..6, 0_u64..9), 0..200),
        ) {
            let mut readers = Readers::default();
            let mut set: BTreeSet<(u64, u64, u64)> = BTreeSet::new();
            for (stream, chain, to) in steps {
                // A chain is of one stream; at 0 it ends, or begins.
                let (stream, chain) = (stream, chain * 2 + stream);
                let known = set.iter().find(|(_, _, of)| *of == chain).copied();
                let id = ChainId(chain);
                match known {
                    Some((of, from, _)) if to == 0 => {
                        readers.remove(StreamId(of), (from, id));
                        set.remove(&(of, from, chain));
                    }
                    Some((of, from, _)) => {
                        readers.move_to(StreamId(of), (from, id), to);
                        set.remove(&(of, from, chain));
                        set.insert((of, to, chain));
                    }
                    None => {
                        readers.add(StreamId(stream), (to, id));
                        set.insert((stream, to, chain));
                    }
                }
                for stream in 0..2 {
                    let all: Vec<ChainId> = readers.of_stream(StreamId(stream)).collect();
                    let here = set.iter().filter(|(of, _, _)| *of == stream);
                    let expected: Vec<ChainId> = here.map(|(.., of)| ChainId(*of)).collect();
                    prop_assert_eq!(all, expected);
                    for offset in 0..9 {
                        let behind = set.range((stream, 0, 0)..=(stream, offset, u64::MAX));
                        let behind = behind.last().map(|(.., of)| ChainId(*of));
                        prop_assert_eq!(readers.nearest_behind(StreamId(stream), offset), behind);
                    }
                }
            }
            prop_assert_eq!(readers.by_stream.is_empty(), set.is_empty());
        }
    }
}
