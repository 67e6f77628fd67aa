//! Age queue: finds the member that has been in a state for longest, in amortised constant time.
//!
//! Times never decrease, so new entries go to the end of a queue. The entry of a member that has
//! left the state is skipped when it reaches the front; when most entries are stale, all stale ones
//! are removed.
//!
//! Invariants: times and turns ascend; a turn is issued once; if [`AgeQueue::tidy`] is called after
//! every entry, there are at most `2 * owners + SPARE` entries.

use alloc::collections::VecDeque;

use headlong_units::Instant;

/// Up to this many entries, tidying is not worth its cost.
const SPARE: usize = 16;

/// Identifies one stay of a member in the state. The member stores it while it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StayId(u64);

/// Members ordered by the time at which they entered the state.
#[derive(Debug)]
pub(crate) struct AgeQueue<Id> {
    entries: VecDeque<(Instant, StayId, Id)>,
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
    /// `id` enters the state now.
    pub(crate) fn push(&mut self, now: Instant, id: Id) -> StayId {
        let turn = StayId(self.next_turn);
        self.next_turn += 1;
        self.entries.push_back((now, turn, id));
        turn
    }

    /// The member that has been in the state for longest, and since when. `turn_of` returns the
    /// turn that a member stores.
    pub(crate) fn oldest(
        &mut self,
        turn_of: impl Fn(Id) -> Option<StayId>,
    ) -> Option<(Instant, Id)> {
        while let Some((since, turn, id)) = self.entries.front().copied() {
            if turn_of(id) == Some(turn) {
                return Some((since, id));
            }
            self.entries.pop_front();
        }
        None
    }

    /// The time of the oldest entry, which may be stale.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.entries.front().map(|(since, ..)| *since)
    }

    /// Removes stale entries if most are stale; there are `owners` members in all.
    pub(crate) fn tidy(&mut self, owners: usize, turn_of: impl Fn(Id) -> Option<StayId>) {
        if self.entries.len() > 2 * owners + SPARE {
            self.entries
                .retain(|(_, turn, id)| turn_of(*id) == Some(*turn));
        }
    }

    /// Whether a turn has an entry; for tests and invariants.
    pub(crate) fn has(&self, turn: StayId) -> bool {
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
        fn oldest_is_first_member_that_has_not_left(
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
