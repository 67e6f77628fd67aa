//! The one queue of events: what will happen, in order of time and then of being planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headlong_units::Instant;

/// Things to come. Of two at the same time, the one planned first comes first.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    planned: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Instant,
    turn: u64,
    what: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.turn == other.turn
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.turn).cmp(&(other.at, other.turn))
    }
}

impl<T> Agenda<T> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            planned: 0,
        }
    }

    pub(crate) fn plan(&mut self, at: Instant, what: T) {
        let turn = self.planned;
        self.planned += 1;
        self.heap.push(Reverse(Entry { at, turn, what }));
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// The first thing, if its time has come.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<T> {
        if self.next_at()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_in_order_of_time_and_then_of_planning() {
        let mut agenda = Agenda::new();
        for (at, what) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b')] {
            agenda.plan(Instant(at), what);
        }
        assert_eq!(agenda.take_due(Instant(0)), None);
        let order: String = std::iter::from_fn(|| agenda.take_due(Instant(9))).collect();
        assert_eq!(order, "abcd");
    }
}
