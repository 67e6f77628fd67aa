//! Accounts of a simulation: work by drive and minute, memory by second.

use crate::sizes::HOLD_MS;
use crate::table::ChainTable;

/// Work of a drive in a minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DriveWork {
    pub(crate) bytes: u64,
    pub(crate) seeks: u64,
}

/// Accounts of some chains; they are additive.
///
/// Memory is stored as differences: of the byte-milliseconds of each second, and of the bytes held
/// at any time in each minute. Intermediate sums may wrap and the final ones are right, because
/// [`crate::CostPoint`] refuses sizes with which the true figure of a second could reach 2^63.
#[derive(Debug, PartialEq)]
pub(crate) struct Accounts {
    first_minute: usize,
    drives: usize,
    /// `[minute][drive]`: chains close in time update neighbouring entries.
    pub(crate) work: Vec<DriveWork>,
    seconds: Vec<i64>,
    touched: Vec<i64>,
    pub(crate) prefetches: u64,
    pub(crate) read_bytes: u64,
}

/// Peaks of memory, bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MemoryPeaks {
    /// Highest mean over a minute, and its minute.
    pub(crate) mean: f64,
    pub(crate) mean_minute: u64,
    /// Highest sum over chains of the bytes held at any time in a minute.
    pub(crate) touched: u64,
    /// Highest mean over a second.
    pub(crate) second: f64,
}

impl Accounts {
    /// Empty accounts for a table, for its drives below `drives`.
    pub(crate) fn new(table: &ChainTable, drives: usize) -> Self {
        let minutes = table.minutes();
        let freed_minute = (table.ended_ms() + HOLD_MS) / 60_000;
        let memory_minutes = freed_minute as usize + 1 - minutes.start;
        Self {
            first_minute: minutes.start,
            drives,
            work: vec![DriveWork::default(); minutes.len() * drives],
            // Differences are stored up to one bin after the end.
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

    /// Adds prefetches of a size in a minute. Drives beyond the last one are SSDs, whose work does
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

    /// A buffer grows or shrinks at a time within the table's range.
    #[inline]
    pub(crate) fn resize(&mut self, ms: u64, change: i64) {
        let second = (ms / 1000) as usize - self.first_minute * 60;
        let into = (ms % 1000) as i64;
        let here = change.wrapping_mul(1000 - into);
        let next = change.wrapping_mul(into);
        self.seconds[second] = self.seconds[second].wrapping_add(here);
        self.seconds[second + 1] = self.seconds[second + 1].wrapping_add(next);
    }

    /// Changes the bytes held at any time in a minute, from this minute on.
    #[inline]
    pub(crate) fn touch(&mut self, minute: u64, change: i64) {
        let touched = &mut self.touched[minute as usize - self.first_minute];
        *touched = touched.wrapping_add(change);
    }

    /// Adds the accounts of other chains of the same table.
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

    /// Work of all drives by minute, counted from zero.
    pub(crate) fn work_by_minute(&self) -> impl Iterator<Item = (u64, &[DriveWork])> + '_ {
        let minutes = self.work.chunks_exact(self.drives.max(1));
        let first = self.first_minute as u64;
        (first..).zip(minutes)
    }

    /// The peaks. The first of equal ones counts.
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
