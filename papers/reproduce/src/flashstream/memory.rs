//! Memory that keeps segments in order of their last use (FlashStream 3.2.1, 4.1).

use std::collections::{BTreeMap, HashMap};

use super::library::Segment;

/// Segments, the least recently used first.
#[derive(Debug)]
pub(super) struct Memory {
    bytes_max: u64,
    bytes: u64,
    used: BTreeMap<u64, Segment>,
    turns: HashMap<u64, u64>,
    turn: u64,
}

impl Memory {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            used: BTreeMap::new(),
            turns: HashMap::new(),
            turn: 0,
        }
    }

    /// Whether a segment is there; then it is the last to go.
    pub(super) fn touch(&mut self, segment: &Segment) -> bool {
        let Some(turn) = self.turns.get_mut(&segment.physical) else {
            return false;
        };
        self.used.remove(turn);
        self.turn += 1;
        *turn = self.turn;
        self.used.insert(self.turn, *segment);
        true
    }

    /// A segment was read from the disk; what was used least makes room.
    pub(super) fn insert(&mut self, segment: Segment) {
        if self.touch(&segment) {
            return;
        }
        self.bytes += u64::from(segment.bytes);
        self.turn += 1;
        self.used.insert(self.turn, segment);
        self.turns.insert(segment.physical, self.turn);
        while self.bytes > self.bytes_max
            && let Some((_, gone)) = self.used.pop_first()
        {
            self.bytes -= u64::from(gone.bytes);
            self.turns.remove(&gone.physical);
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.used.len()
    }

    /// Those that go next, first those that go first.
    pub(super) fn tail(&self) -> impl Iterator<Item = &Segment> {
        self.used.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_segments_go_when_room_is_short() {
        let mut memory = Memory::new(10);
        let segment = |physical| Segment { physical, bytes: 4 };
        memory.insert(segment(1));
        memory.insert(segment(2));
        assert!(memory.touch(&segment(1)));
        memory.insert(segment(3));
        assert!(!memory.touch(&segment(2)), "it was used longest ago");
        let left: Vec<u64> = memory.tail().map(|of| of.physical).collect();
        assert_eq!(left, [1, 3]);
    }
}
