//! Activity of disks, of the flash tier and of its SSDs, for comparisons between worlds.

use core::ops::{AddAssign, Sub};

use headlong_engine::Stats;
use headlong_flash::FlashView;
use headlong_units::{Duration, Instant};

use crate::device::DriveUse;
use crate::histogram::Histogram;

/// Counters of a disk: since the start, or within the window.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskUse {
    /// Counters of its shard.
    pub stats: Stats,
    /// Activity of its drive.
    pub drive: DriveUse,
    /// Counters of its partition of the flash tier.
    pub flash: FlashCounts,
}

impl DiskUse {
    /// Difference to an earlier snapshot.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            stats: self.stats - earlier.stats,
            drive: self.drive.since(&earlier.drive),
            flash: self.flash - earlier.flash,
        }
    }
}

/// Counters of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlashCounts {
    /// Bytes read from the tier.
    pub read_bytes: u64,
    /// Bytes of admitted records.
    pub admitted_bytes: u64,
    /// Bytes written: records, padding, and summaries. Writes are whole blocks in order, so the
    /// flash itself is assumed to write the same amount.
    pub written_bytes: u64,
    /// Bytes rejected because too little would be saved.
    pub not_worth_bytes: u64,
    /// Bytes rejected because the write budget was used up.
    pub over_budget_bytes: u64,
    /// Bytes rejected because writes waited for reads or for the SSD.
    pub busy_bytes: u64,
    /// Bytes rejected because no SSD was in service.
    pub out_of_service_bytes: u64,
    /// Records that arrived too late, so that the disk was read as well.
    pub late_records: u64,
}

/// A tier at one moment, with its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlashUse {
    /// Bytes of all blocks.
    pub capacity_bytes: u64,
    /// Bytes of records that can be read.
    pub filled_bytes: u64,
    /// Most bytes written in any 24 hours, besides the initial fill.
    pub budget_bytes: u64,
    /// Since the start, or within the window.
    pub counts: FlashCounts,
}

impl FlashCounts {
    pub(crate) fn of(view: &FlashView) -> Self {
        Self {
            read_bytes: view.read_bytes,
            admitted_bytes: view.admitted_bytes,
            written_bytes: view.written_bytes,
            not_worth_bytes: view.refused.not_worth_bytes,
            over_budget_bytes: view.refused.budget_bytes,
            busy_bytes: view.refused.busy_bytes,
            out_of_service_bytes: view.refused.out_of_service_bytes,
            late_records: view.reads_failed,
        }
    }
}

impl FlashUse {
    pub(crate) fn of(view: &FlashView, counts: FlashCounts) -> Self {
        Self {
            capacity_bytes: view.capacity_bytes,
            filled_bytes: view.filled_bytes,
            budget_bytes: view.budget_bytes,
            counts,
        }
    }
}

impl AddAssign for FlashUse {
    /// Sum of two partitions of one tier.
    fn add_assign(&mut self, other: Self) {
        self.capacity_bytes += other.capacity_bytes;
        self.filled_bytes += other.filled_bytes;
        self.budget_bytes += other.budget_bytes;
        self.counts += other.counts;
    }
}

impl FlashCounts {
    /// Combines each counter with that of another.
    fn zip(&self, other: &Self, with: fn(u64, u64) -> u64) -> Self {
        Self {
            read_bytes: with(self.read_bytes, other.read_bytes),
            admitted_bytes: with(self.admitted_bytes, other.admitted_bytes),
            written_bytes: with(self.written_bytes, other.written_bytes),
            not_worth_bytes: with(self.not_worth_bytes, other.not_worth_bytes),
            over_budget_bytes: with(self.over_budget_bytes, other.over_budget_bytes),
            busy_bytes: with(self.busy_bytes, other.busy_bytes),
            out_of_service_bytes: with(self.out_of_service_bytes, other.out_of_service_bytes),
            late_records: with(self.late_records, other.late_records),
        }
    }
}

impl AddAssign for FlashCounts {
    fn add_assign(&mut self, other: Self) {
        *self = self.zip(&other, |one, other| one + other);
    }
}

impl Sub for FlashCounts {
    type Output = Self;
    /// Counts since `earlier`.
    fn sub(self, earlier: Self) -> Self {
        self.zip(&earlier, |now, then| now - then)
    }
}

/// A quantity over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeWeightedLevel {
    now: usize,
    since: Instant,
    /// Integral over time, in units times nanoseconds.
    sum: u128,
    /// Maximum.
    pub max: usize,
}

/// Activity of one SSD within the window, for all disks.
#[derive(Debug, Clone, Default)]
pub struct SsdUse {
    before: DriveUse,
    /// Activity of the drive.
    pub drive: DriveUse,
    /// Bytes read, including record headers.
    pub read_bytes: u64,
    /// Bytes written: records, summaries, padding, and checkpoints.
    pub written_bytes: u64,
    /// Latency of reads of adjacent records.
    pub reads: Histogram,
    /// Latency of writes to a block.
    pub writes: Histogram,
    /// Reads in progress.
    pub readers: TimeWeightedLevel,
    /// Writes in progress.
    pub writers: TimeWeightedLevel,
    /// Probes by disks that had taken the SSD out of service.
    pub probes: u64,
}

impl TimeWeightedLevel {
    fn begun(now: Instant, level: usize) -> Self {
        Self {
            now: level,
            since: now,
            sum: 0,
            max: level,
        }
    }

    fn set(&mut self, now: Instant, level: usize) {
        self.sum += self.now as u128 * u128::from(now.since(self.since).0);
        self.since = now;
        self.now = level;
        self.max = self.max.max(level);
    }

    /// Mean over a period.
    pub fn mean(&self, length: Duration) -> f64 {
        self.sum as f64 / (length.0 as f64).max(1.0)
    }
}

impl SsdUse {
    /// Restarts the counters.
    pub(crate) fn begin(&mut self, now: Instant, drive: DriveUse) {
        *self = Self {
            before: drive,
            readers: TimeWeightedLevel::begun(now, self.readers.now),
            writers: TimeWeightedLevel::begun(now, self.writers.now),
            ..Self::default()
        };
    }

    /// Sets the numbers of reads and writes in progress.
    pub(crate) fn queued(&mut self, now: Instant, reads: usize, writes: usize) {
        self.readers.set(now, reads);
        self.writers.set(now, writes);
    }

    /// The counters up to now.
    pub(crate) fn until(&self, now: Instant, drive: DriveUse) -> Self {
        let mut used = self.clone();
        used.queued(now, used.readers.now, used.writers.now);
        used.drive = drive.since(&self.before);
        used
    }
}
