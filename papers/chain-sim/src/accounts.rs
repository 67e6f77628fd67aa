//! Where a simulation books what it does: work by drive and minute, memory by second.

use crate::table::ChainTable;

/// Work of one drive in one minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) bytes: u64,
    pub(crate) seeks: u64,
}

/// The books of some chains. Those of all chains are the sum.
///
/// Memory is kept as changes: of the byte-milliseconds of each second, and of what is held at any
/// moment of each minute. Sums of changes wrap on the way and are right in the end, as
/// [`crate::Point`] refuses sizes with which a second's true figure could reach 2^63.
#[derive(Debug, PartialEq)]
pub(crate) struct Accounts {
    first_minute: usize,
    drives: usize,
    /// `[minute][drive]`: chains that are near in time book near each other.
    pub(crate) work: Vec<Work>,
    seconds: Vec<i64>,
    touched: Vec<i64>,
    pub(crate) prefetches: u64,
    pub(crate) read_bytes: u64,
}

/// Highest figures of memory, bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MemoryPeaks {
    /// Highest mean over a minute, and when.
    pub(crate) mean: f64,
    pub(crate) mean_minute: u64,
    /// Highest sum of what was held at any moment of a minute.
    pub(crate) touched: u64,
    /// Highest mean over a second.
    pub(crate) second: f64,
}

impl Accounts {
    /// Empty books for a table, of its drives below `drives`.
    pub(crate) fn new(table: &ChainTable, drives: usize, hold_ms: u64) -> Self {
        let minutes = table.minutes();
        let freed_minute = (table.ended_ms() + hold_ms) / 60_000;
        let memory_minutes = freed_minute as usize + 1 - minutes.start;
        Self {
            first_minute: minutes.start,
            drives,
            work: vec![Work::default(); minutes.len() * drives],
            // Changes are booked up to one bin beyond what they are about.
            seconds: vec![0; memory_minutes * 60 + 1],
            touched: vec![0; memory_minutes + 1],
            prefetches: 0,
            read_bytes: 0,
        }
    }

    /// The table's first minute.
    pub(crate) fn first_minute(&self) -> u64 {
        self.first_minute as u64
    }

    /// So many prefetches of a size in a minute. Drives beyond the last are SSDs, whose work does
    /// not count (rule B11).
    #[inline]
    pub(crate) fn issue(&mut self, minute: u64, disk: u16, size: u64, count: u64) {
        let bytes = size * count;
        self.prefetches += count;
        self.read_bytes += bytes;
        if usize::from(disk) < self.drives {
            let minute = minute as usize - self.first_minute;
            let work = &mut self.work[minute * self.drives + usize::from(disk)];
            work.bytes += bytes;
            work.seeks += count;
        }
    }

    /// A buffer grows or shrinks by so much at a moment within the table's time.
    #[inline]
    pub(crate) fn resize(&mut self, ms: u64, change: i64) {
        let second = (ms / 1000) as usize - self.first_minute * 60;
        let into = (ms % 1000) as i64;
        let here = change.wrapping_mul(1000 - into);
        let next = change.wrapping_mul(into);
        self.seconds[second] = self.seconds[second].wrapping_add(here);
        self.seconds[second + 1] = self.seconds[second + 1].wrapping_add(next);
    }

    /// From this minute on so much more is held at some moment of it.
    #[inline]
    pub(crate) fn touch(&mut self, minute: u64, change: i64) {
        let touched = &mut self.touched[minute as usize - self.first_minute];
        *touched = touched.wrapping_add(change);
    }

    /// Adds the books of other chains of the same table.
    pub(crate) fn add(&mut self, other: &Self) {
        self.prefetches += other.prefetches;
        self.read_bytes += other.read_bytes;
        for (ours, theirs) in self.work.iter_mut().zip(&other.work) {
            ours.bytes += theirs.bytes;
            ours.seeks += theirs.seeks;
        }
        for (ours, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            *ours = ours.wrapping_add(*theirs);
        }
        for (ours, theirs) in self.touched.iter_mut().zip(&other.touched) {
            *ours = ours.wrapping_add(*theirs);
        }
    }

    /// Work of every drive, minute by minute: the minute, counted from zero, with its drives.
    pub(crate) fn work_by_minute(&self) -> impl Iterator<Item = (u64, &[Work])> + '_ {
        let minutes = self.work.chunks_exact(self.drives.max(1));
        let first = self.first_minute as u64;
        (first..).zip(minutes)
    }

    /// The highest figures. Of equal ones the first counts.
    pub(crate) fn memory(&self) -> MemoryPeaks {
        let mut byte_ms: i64 = 0;
        let mut second_max: i64 = 0;
        let (mut minute_max, mut minute_at) = (0_i128, 0);
        for (minute, changes) in self.seconds.chunks_exact(60).enumerate() {
            let mut sum = 0_i128;
            for change in changes {
                byte_ms = byte_ms.wrapping_add(*change);
                second_max = second_max.max(byte_ms);
                sum += i128::from(byte_ms);
            }
            if sum > minute_max {
                (minute_max, minute_at) = (sum, minute);
            }
        }
        let mut held: i64 = 0;
        let held_by_minute = self.touched.iter().map(|change| {
            held = held.wrapping_add(*change);
            held
        });
        MemoryPeaks {
            mean: minute_max as f64 / 60_000.0,
            mean_minute: (self.first_minute + minute_at) as u64,
            touched: held_by_minute.max().unwrap_or(0).unsigned_abs(),
            second: second_max as f64 / 1000.0,
        }
    }
}
