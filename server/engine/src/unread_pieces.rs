//! Pieces owned by a chain: a sorted queue, as pieces are added at its end and removed at its
//! beginning.
//!
//! Invariants: each piece is stored once; they are sorted.

use alloc::collections::VecDeque;

/// Piece numbers, each once.
#[derive(Debug, Default)]
pub(crate) struct UnreadPieces {
    pieces: VecDeque<u32>,
}

impl UnreadPieces {
    /// Adds a piece, unless it is stored.
    pub(crate) fn insert(&mut self, piece: u32) {
        if self.pieces.back().is_none_or(|last| *last < piece) {
            self.pieces.push_back(piece);
        } else if let Err(place) = self.pieces.binary_search(&piece) {
            self.pieces.insert(place, piece);
        }
    }

    /// Removes a piece. Returns whether it was stored.
    pub(crate) fn remove(&mut self, piece: u32) -> bool {
        if self.pieces.front() == Some(&piece) {
            self.pieces.pop_front();
            return true;
        }
        match self.pieces.binary_search(&piece) {
            Ok(place) => self.pieces.remove(place).is_some(),
            Err(_) => false,
        }
    }

    /// All pieces, ascending.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.pieces.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_set(steps in prop::collection::vec((0_u32..9, any::<bool>()), 0..200)) {
            let mut unread = UnreadPieces::default();
            let mut set = BTreeSet::new();
            for (piece, is_insert) in steps {
                if is_insert {
                    unread.insert(piece);
                    set.insert(piece);
                } else {
                    prop_assert_eq!(unread.remove(piece), set.remove(&piece));
                }
                prop_assert!(unread.iter().eq(set.iter().copied()));
            }
        }
    }
}
