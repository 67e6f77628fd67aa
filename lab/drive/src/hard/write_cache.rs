//! The write cache: acknowledged sectors that are not on the medium yet.

use alloc::collections::BTreeMap;

/// Longest run written in one operation, so that a read never waits for the whole cache.
const OPERATION_SECTORS_MAX: u64 = 4_096;

/// Disjoint dirty runs, by first sector.
#[derive(Debug, Clone, Default)]
pub(super) struct WriteCache {
    runs: BTreeMap<u64, u64>,
    sectors: u64,
    sectors_max: u64,
}

impl WriteCache {
    pub(super) fn new(sectors_max: u64) -> Self {
        Self {
            sectors_max,
            ..Self::default()
        }
    }

    /// Whether a write of this size fits into an empty cache.
    pub(super) fn absorbs(&self, sectors: u64) -> bool {
        sectors <= self.sectors_max
    }

    /// Whether it fits now, with `in_flight` sectors still being destaged.
    pub(super) fn has_room(&self, sectors: u64, in_flight: u64) -> bool {
        self.sectors + in_flight + sectors <= self.sectors_max
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sectors == 0
    }

    /// Whether more than half of the cache is dirty.
    pub(super) fn is_pressed(&self, in_flight: u64) -> bool {
        (self.sectors + in_flight) * 2 > self.sectors_max
    }

    /// Whether the whole range is dirty, and so in memory.
    pub(super) fn holds(&self, start: u64, end: u64) -> bool {
        self.before(start)
            .is_some_and(|(_, run_end)| end <= run_end)
    }

    /// The last run that begins at or before a sector.
    fn before(&self, sector: u64) -> Option<(u64, u64)> {
        let run = self.runs.range(..=sector).next_back();
        run.map(|(start, end)| (*start, *end))
    }

    /// Removes a range, because it was overwritten or written through.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        if let Some((run_start, run_end)) = self.before(start)
            && run_end > start
        {
            self.cut(run_start, run_end, start, end);
        }
        while let Some((run_start, run_end)) = self.first_in(start, end) {
            self.cut(run_start, run_end, start, end);
        }
    }

    fn first_in(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let run = self.runs.range(start..end).next();
        run.map(|(run_start, run_end)| (*run_start, *run_end))
    }

    /// Removes `start..end` from the overlapping run `run_start..run_end`.
    fn cut(&mut self, run_start: u64, run_end: u64, start: u64, end: u64) {
        self.runs.remove(&run_start);
        self.sectors -= run_end - run_start;
        for (from, to) in [
            (run_start, start.min(run_end)),
            (end.max(run_start), run_end),
        ] {
            if from < to {
                self.runs.insert(from, to);
                self.sectors += to - from;
            }
        }
    }

    /// Marks a range as dirty, joined with its neighbours.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        self.remove(start, end);
        let (mut from, mut to) = (start, end);
        if let Some((run_start, run_end)) = self.before(start)
            && run_end == start
        {
            self.runs.remove(&run_start);
            from = run_start;
        }
        if let Some(run_end) = self.runs.remove(&end) {
            to = run_end;
        }
        self.runs.insert(from, to);
        self.sectors += end - start;
    }

    /// Takes the next range to write: upwards from `head`, then from the lowest address.
    pub(super) fn take_next(&mut self, head: u64) -> Option<(u64, u64)> {
        let above = self.runs.range(head..).next();
        let (start, end) = above.or_else(|| self.runs.iter().next())?;
        let (start, end) = (*start, *end);
        let stop = end.min(start + OPERATION_SECTORS_MAX);
        self.remove(start, stop);
        Some((start, stop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    #[test]
    fn adjacent_writes_merge_and_destage_upwards() {
        let mut cache = WriteCache::new(1_000);
        cache.insert(100, 200);
        cache.insert(300, 400);
        cache.insert(200, 300);
        assert!(cache.holds(100, 400) && !cache.holds(99, 101));
        cache.insert(10, 20);
        assert_eq!(cache.take_next(50), Some((100, 400)));
        assert_eq!(cache.take_next(400), Some((10, 20)));
        assert!(cache.is_empty() && cache.take_next(0).is_none());
    }

    proptest! {
        #[test]
        fn cache_equals_set_of_sectors(
            steps in prop::collection::vec((any::<bool>(), 0u64..200, 1u64..40), 1..60)
        ) {
            let mut cache = WriteCache::new(10_000);
            let mut set = BTreeSet::new();
            for (is_write, start, sectors) in steps {
                if is_write {
                    cache.insert(start, start + sectors);
                    set.extend(start..start + sectors);
                } else {
                    cache.remove(start, start + sectors);
                    set.retain(|s| *s < start || *s >= start + sectors);
                }
                prop_assert_eq!(cache.sectors, set.len() as u64);
                let held = |s: u64| cache.holds(s, s + 1);
                prop_assert!((0..250).all(|s| held(s) == set.contains(&s)));
            }
        }
    }
}
