//! What an SSD was asked, how long that took, and how much waited for it.

use headlong_units::{Duration, Instant};

use crate::device::DriveUse;
use crate::histogram::Histogram;

/// How many there were of something, over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Level {
    now: usize,
    since: Instant,
    /// Times nanoseconds.
    sum: u128,
    /// The most.
    pub max: usize,
}

/// What one SSD did within the window, for all disks.
#[derive(Debug, Clone, Default)]
pub struct SsdUse {
    before: DriveUse,
    /// What the drive did.
    pub drive: DriveUse,
    /// Bytes that were read from it, with headers of records.
    pub read_bytes: u64,
    /// Bytes that were written: records, summaries, what is between them, and checkpoints.
    pub written_bytes: u64,
    /// From asking for records that lie in a row until they were there.
    pub reads: Histogram,
    /// From giving it bytes of a block until they were written.
    pub writes: Histogram,
    /// Reads asked for and not there.
    pub readers: Level,
    /// Writes asked for and not done.
    pub writers: Level,
    /// Looks at whether it is well again: disks had given it up.
    pub probes: u64,
}

impl Level {
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

    /// The mean over so long.
    pub fn mean(&self, length: Duration) -> f64 {
        self.sum as f64 / (length.0 as f64).max(1.0)
    }
}

impl SsdUse {
    /// Counts from now on.
    pub(crate) fn begin(&mut self, now: Instant, drive: DriveUse) {
        *self = Self {
            before: drive,
            readers: Level::begun(now, self.readers.now),
            writers: Level::begun(now, self.writers.now),
            ..Self::default()
        };
    }

    /// So many reads and writes have been asked for and have not ended.
    pub(crate) fn queued(&mut self, now: Instant, reads: usize, writes: usize) {
        self.readers.set(now, reads);
        self.writers.set(now, writes);
    }

    /// What was counted until now.
    pub(crate) fn until(&self, now: Instant, drive: DriveUse) -> Self {
        let mut used = self.clone();
        used.queued(now, used.readers.now, used.writers.now);
        used.drive = drive.since(&self.before);
        used
    }
}
