//! The one queue of events: what will happen, in order of time and then of being planned.
//!
//! The heap holds times and places, and what is to happen lies beside it: so that what is moved up
//! and down is small, whatever an event carries.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headlong_units::Instant;

/// Things to come. Of two at the same time, the one planned first comes first.
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    heap: BinaryHeap<Reverse<Entry>>,
    things: Vec<Option<T>>,
    /// Places among the things that are free.
    free: Vec<u32>,
    planned: u64,
}

/// When, the how-manieth planned, and where what is to happen lies.
type Entry = (Instant, u64, u32);

impl<T> EventQueue<T> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            things: Vec::new(),
            free: Vec::new(),
            planned: 0,
        }
    }

    /// How much is to come.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn plan(&mut self, at: Instant, what: T) {
        let turn = self.planned;
        self.planned += 1;
        let place = match self.free.pop() {
            Some(place) => {
                self.things[place as usize] = Some(what);
                place
            }
            None => {
                self.things.push(Some(what));
                self.things.len() as u32 - 1
            }
        };
        self.heap.push(Reverse((at, turn, place)));
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The first thing, if its time has come.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<T> {
        if self.next_at()? > now {
            return None;
        }
        let Reverse((_, _, place)) = self.heap.pop()?;
        self.free.push(place);
        self.things[place as usize].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_in_order_of_time_and_then_of_planning() {
        let mut events = EventQueue::new();
        for (at, what) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b')] {
            events.plan(Instant(at), what);
        }
        assert_eq!(events.take_due(Instant(0)), None);
        let order: String = std::iter::from_fn(|| events.take_due(Instant(9))).collect();
        assert_eq!(order, "abcd");
    }
}
