//! Memory with segments in LRU order (FlashStream 3.2.1, 4.1).

use std::collections::{BTreeMap, HashMap};

use super::library::Segment;

/// Segments, least recently used first.
#[derive(Debug)]
pub(super) struct SegmentMemory {
    bytes_max: u64,
    bytes: u64,
    used: BTreeMap<u64, Segment>,
    turns: HashMap<u64, u64>,
    turn: u64,
}

impl SegmentMemory {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            used: BTreeMap::new(),
            turns: HashMap::new(),
            turn: 0,
        }
    }

    /// Whether a segment is present; marks it as most recently used.
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

    /// Inserts a segment read from the disk, and evicts the least recently used ones.
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

    /// Number of segments.
    pub(super) fn len(&self) -> usize {
        self.used.len()
    }

    /// The next victims, in eviction order.
    pub(super) fn tail(&self) -> impl Iterator<Item = &Segment> {
        self.used.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicts_least_recently_used_segments() {
        let mut memory = SegmentMemory::new(10);
        let segment = |physical| Segment { physical, bytes: 4 };
        memory.insert(segment(1));
        memory.insert(segment(2));
        assert!(memory.touch(&segment(1)));
        memory.insert(segment(3));
        assert!(!memory.touch(&segment(2)), "it is the least recently used");
        let left: Vec<u64> = memory.tail().map(|of| of.physical).collect();
        assert_eq!(left, [1, 3]);
    }
}
