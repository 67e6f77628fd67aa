//! Wake-up times of viewers: a heap with one current entry per viewer.
//!
//! A viewer has one next event, whatever it waits for (its player, a request in transit, its line),
//! so the heap is small, and a wake-up handles everything that is due. An entry superseded by an
//! earlier one stays until its time and is then ignored by its viewer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headlong_units::Instant;

/// Entries in order of time, then of slot.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl Timers {
    /// Wakes the viewer in `slot` at `at`.
    pub(crate) fn arm(&mut self, at: Instant, slot: u32) {
        self.heap.push(Reverse((at, slot)));
    }

    /// The earliest entry.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes and returns the earliest entry if it is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, u32)> {
        let Reverse((at, _)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_and_not_early() {
        let mut timers = Timers::default();
        for (at, slot) in [(30, 1), (10, 2), (20, 3)] {
            timers.arm(Instant(at), slot);
        }
        assert_eq!(timers.pop_due(Instant(9)), None);
        assert_eq!(timers.next(), Some(Instant(10)));
        assert_eq!(timers.pop_due(Instant(25)), Some((Instant(10), 2)));
        assert_eq!(timers.pop_due(Instant(25)), Some((Instant(20), 3)));
        assert_eq!(timers.pop_due(Instant(25)), None);
    }
}
