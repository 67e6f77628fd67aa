//! The drive's read cache: a few runs of sectors, and the one it is still reading.
//!
//! After a read the head stays in place and reads ahead into the same run until that is full, so
//! that the next request of a sequential reader finds its data in memory or just passing by.

use alloc::vec::Vec;

use super::geometry::Geometry;

/// Sectors `start..end` in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SectorRun {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl SectorRun {
    fn contains(&self, start: u64, end: u64) -> bool {
        self.start <= start && end <= self.end
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }
}

/// A readahead in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadaheadStream {
    /// First sector kept of the run.
    pub(super) start: u64,
    /// A sector that the head reached...
    pub(super) anchor: u64,
    /// Its stream time, cached because every inspection of the head needs it.
    pub(super) anchor_stream_ns: u64,
    /// ...at this time.
    pub(super) anchor_ns: u64,
    /// The first sector beyond the readahead.
    pub(super) limit: u64,
}

impl ReadaheadStream {
    /// The first sector not read at a time.
    pub(super) fn position(&self, geometry: &Geometry, now_ns: u64) -> u64 {
        let passed = now_ns.saturating_sub(self.anchor_ns);
        let here = self.anchor_stream_ns.saturating_add(passed);
        geometry.sector_at(here).clamp(self.anchor, self.limit)
    }

    /// When the last bit before `sector`, not below the anchor, has been read, ignoring the limit.
    pub(super) fn end_ns(&self, geometry: &Geometry, sector: u64) -> u64 {
        let span = geometry.stream_end_ns(sector);
        self.anchor_ns + span.saturating_sub(self.anchor_stream_ns)
    }
}

/// All runs except the one being read.
#[derive(Debug, Clone)]
pub(super) struct ReadCache {
    /// Least recently used first.
    runs: Vec<SectorRun>,
    runs_max: usize,
    run_sectors_max: u64,
}

impl ReadCache {
    pub(super) fn new(segments: u32, segment_sectors: u64) -> Self {
        let enabled = segments > 0 && segment_sectors > 0;
        Self {
            runs: Vec::new(),
            // One segment belongs to the head.
            runs_max: if enabled { segments as usize - 1 } else { 0 },
            run_sectors_max: if enabled { segment_sectors } else { 0 },
        }
    }

    /// Sectors read ahead beyond a request.
    pub(super) fn ahead_sectors(&self) -> u64 {
        self.run_sectors_max
    }

    /// The run that a stream leaves when it has reached `position`.
    pub(super) fn kept(&self, stream: &ReadaheadStream, position: u64) -> SectorRun {
        let start = stream
            .start
            .max(position.saturating_sub(self.run_sectors_max));
        SectorRun {
            start,
            end: position.max(start),
        }
    }

    /// Whether one run contains the range; marks that run as most recently used.
    pub(super) fn hit(&mut self, start: u64, end: u64) -> bool {
        let Some(index) = self.runs.iter().position(|run| run.contains(start, end)) else {
            return false;
        };
        let run = self.runs.remove(index);
        self.runs.push(run);
        true
    }

    /// Like [`Self::hit`], without the mark.
    pub(super) fn holds(&self, start: u64, end: u64) -> bool {
        self.runs.iter().any(|run| run.contains(start, end))
    }

    /// Removes the run that contains the start of a request, so that the read continues from its
    /// end.
    pub(super) fn take_beginning(&mut self, start: u64, end: u64) -> Option<SectorRun> {
        let begins = |run: &SectorRun| run.start <= start && start < run.end && run.end < end;
        let index = self.runs.iter().position(begins)?;
        Some(self.runs.remove(index))
    }

    /// Adds a run, evicting the oldest if there are too many.
    pub(super) fn keep(&mut self, run: SectorRun) {
        if run.start >= run.end || self.runs_max == 0 {
            return;
        }
        if self.runs.len() >= self.runs_max {
            self.runs.remove(0);
        }
        self.runs.push(run);
    }

    /// Drops runs that a write makes stale.
    pub(super) fn invalidate(&mut self, start: u64, end: u64) {
        self.runs.retain(|run| !run.overlaps(start, end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_run_is_evicted() {
        let mut cache = ReadCache::new(3, 100);
        cache.keep(SectorRun { start: 0, end: 10 });
        cache.keep(SectorRun { start: 20, end: 30 });
        assert!(cache.hit(2, 5));
        cache.keep(SectorRun { start: 40, end: 50 });
        assert!(cache.holds(2, 5) && !cache.holds(20, 30) && cache.holds(40, 50));
        cache.invalidate(9, 11);
        assert!(!cache.holds(2, 5));
    }

    #[test]
    fn cache_without_segments_is_disabled() {
        let mut cache = ReadCache::new(0, 100);
        cache.keep(SectorRun { start: 0, end: 10 });
        assert!(!cache.hit(0, 1) && cache.ahead_sectors() == 0);
    }
}
