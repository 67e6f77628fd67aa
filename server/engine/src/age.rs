//! Who has been in a state for longest: names in the order in which they came into it.
//!
//! The one idea: time never goes back, so whoever comes later stands further behind, and a queue is
//! enough. An entry stays when its owner leaves the state, and is passed over when it comes up;
//! when most entries are such, all of them go. So every call takes constant time on average.
//!
//! Invariants: times and turns ascend; a turn is given once; with [`AgeQueue::tidy`] called for every entry
//! there are at most `2 * owners + SPARE` entries.

use alloc::collections::VecDeque;

use headlong_units::Instant;

/// So many entries are never worth tidying.
const SPARE: usize = 16;

/// The number of one stay in the state. Its owner keeps it for as long as it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn(u64);

/// Names by the time since when they are in a state.
#[derive(Debug)]
pub(crate) struct AgeQueue<Id> {
    entries: VecDeque<(Instant, Turn, Id)>,
    next_turn: u64,
}

impl<Id> Default for AgeQueue<Id> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            next_turn: 0,
        }
    }
}

impl<Id: Copy> AgeQueue<Id> {
    /// `id` comes into the state now.
    pub(crate) fn push(&mut self, now: Instant, id: Id) -> Turn {
        let turn = Turn(self.next_turn);
        self.next_turn += 1;
        self.entries.push_back((now, turn, id));
        turn
    }

    /// Who has been in the state for longest, and since when. `turn_of` is the turn that an owner
    /// keeps.
    pub(crate) fn oldest(&mut self, turn_of: impl Fn(Id) -> Option<Turn>) -> Option<(Instant, Id)> {
        while let Some((since, turn, id)) = self.entries.front().copied() {
            if turn_of(id) == Some(turn) {
                return Some((since, id));
            }
            self.entries.pop_front();
        }
        None
    }

    /// No entry is older than this; its owner may have left the state.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.entries.front().map(|(since, ..)| *since)
    }

    /// Forgets what is passed over if that is most, of `owners` in all.
    pub(crate) fn tidy(&mut self, owners: usize, turn_of: impl Fn(Id) -> Option<Turn>) {
        if self.entries.len() > 2 * owners + SPARE {
            self.entries
                .retain(|(_, turn, id)| turn_of(*id) == Some(*turn));
        }
    }

    /// Whether a turn has an entry; for tests and invariants.
    pub(crate) fn has(&self, turn: Turn) -> bool {
        self.entries
            .binary_search_by_key(&turn, |(_, of, _)| *of)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_oldest_is_the_first_that_came_and_did_not_leave(
            steps in prop::collection::vec((0_usize..8, any::<bool>()), 0..400),
        ) {
            let mut queue = AgeQueue::default();
            let mut turns = [None; 8];
            let mut model: Vec<(Instant, usize)> = Vec::new();
            for (second, (id, comes)) in (0..).zip(steps) {
                let now = Instant(second);
                model.retain(|(_, of)| *of != id);
                turns[id] = None;
                if comes {
                    turns[id] = Some(queue.push(now, id));
                    model.push((now, id));
                }
                queue.tidy(turns.len(), |id| turns[id]);
                prop_assert!(queue.entries.len() <= 2 * turns.len() + SPARE);
                prop_assert!(turns.iter().flatten().all(|turn| queue.has(*turn)));
                prop_assert_eq!(queue.oldest(|id| turns[id]), model.first().copied());
            }
        }
    }
}
