//! Readers of each stream by position: finds the nearest reader behind an offset.
//!
//! Each stream has its own ordered set. Most streams have few readers, whose set is one node; a
//! popular one may have thousands at its beginning, and an insertion still moves none of them.
//!
//! Invariants: a chain is in one set once; a stream without readers has no set.

use alloc::collections::BTreeSet;

use crate::id_map::IdMap;
use crate::ids::{ChainId, StreamId};

/// Position and chain.
type Reader = (u64, ChainId);

/// The readers of all streams.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    by_stream: IdMap<StreamId, BTreeSet<Reader>>,
}

impl Readers {
    /// A chain begins to read.
    pub(crate) fn add(&mut self, stream: StreamId, reader: Reader) {
        self.by_stream.entry(stream).or_default().insert(reader);
    }

    /// A chain stops reading.
    pub(crate) fn remove(&mut self, stream: StreamId, reader: Reader) {
        let Some(readers) = self.by_stream.get_mut(&stream) else {
            return;
        };
        readers.remove(&reader);
        if readers.is_empty() {
            self.by_stream.remove(&stream);
        }
    }

    /// Whether a chain is registered at a position.
    pub(crate) fn has(&self, stream: StreamId, reader: Reader) -> bool {
        let readers = self.by_stream.get(&stream);
        readers.is_some_and(|readers| readers.contains(&reader))
    }

    /// A chain moves from one position to another.
    pub(crate) fn move_to(&mut self, stream: StreamId, (from, chain): Reader, to: u64) {
        if let Some(readers) = self.by_stream.get_mut(&stream)
            && readers.remove(&(from, chain))
        {
            readers.insert((to, chain));
        }
    }

    /// The nearest reader of a stream that has not passed `offset`.
    pub(crate) fn nearest_behind(&self, stream: StreamId, offset: u64) -> Option<ChainId> {
        let until = (offset, ChainId(u64::MAX));
        let behind = self.by_stream.get(&stream)?.range(..=until).next_back();
        behind.map(|(_, chain)| *chain)
    }

    /// All readers of a stream, by position.
    pub(crate) fn of_stream(&self, stream: StreamId) -> impl Iterator<Item = ChainId> + '_ {
        let readers = self.by_stream.get(&stream).into_iter().flatten();
        readers.map(|(_, chain)| *chain)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

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
                // A chain reads one stream; at 0 it ends, or begins.
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
