//! Future events in order of time, for worlds and for parts of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headlong_units::Instant;

/// Future events: the heap holds only times and slot indices, and the events lie in a slab beside it,
/// so that heap operations move few bytes whatever an event carries. Of two events at the same time, the one planned first is delivered first.
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    heap: BinaryHeap<Reverse<QueueEntry>>,
    things: Vec<Option<T>>,
    /// Free slots of `things`.
    free: Vec<u32>,
    planned: u64,
}

/// Time and sequence number in one number, which costs one comparison; and slot of the event.
type QueueEntry = (u128, u32);

impl<T> EventQueue<T> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            things: Vec::new(),
            free: Vec::new(),
            planned: 0,
        }
    }

    /// Number of future events.
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
        let key = u128::from(at.0) << 64 | u128::from(turn);
        self.heap.push(Reverse((key, place)));
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        let Reverse((key, _)) = self.heap.peek()?;
        Some(Instant((key >> 64) as u64))
    }

    /// Takes the first event if it is due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<T> {
        if self.next_at()? > now {
            return None;
        }
        let Reverse((_, place)) = self.heap.pop()?;
        self.free.push(place);
        self.things[place as usize].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_then_insertion() {
        let mut events = EventQueue::new();
        for (at, what) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b')] {
            events.plan(Instant(at), what);
        }
        assert_eq!(events.take_due(Instant(0)), None);
        let order: String = std::iter::from_fn(|| events.take_due(Instant(9))).collect();
        assert_eq!(order, "abcd");
    }
}
