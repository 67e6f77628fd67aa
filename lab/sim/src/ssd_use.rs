//! Requests, latencies and queue lengths of an SSD.

use headlong_units::{Duration, Instant};

use crate::device::DriveUse;
use crate::histogram::Histogram;

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
