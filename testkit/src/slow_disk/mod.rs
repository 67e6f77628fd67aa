//! A slow disk: the project's emulated disk with a simple drive model, whose times can be computed
//! by hand, a trace kept in memory, and times of the standard library.
//!
//! All times are divided by a compression factor, so that a slow drive does not make a slow test;
//! the trace is in model time. With the timing off (initially, for filling) requests complete at
//! once.

mod model;
mod trace;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headlong_vdisk::{DiskFile, Error, Fault, FileOptions, FileSystem, VirtualDisk};

pub use model::{Drive, DriveModel};
pub use trace::{Record, Trace};

/// The disk's file. Dropping it fails all queued requests with errors, unmounts, and waits for its
/// threads.
pub struct SlowDisk(DiskParts);

enum DiskParts {
    Alone(Box<DiskFile>),
    Below(VirtualDisk),
}

/// Totals since the disk was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Read requests answered.
    pub reads: u64,
    /// Bytes they returned.
    pub read_bytes: u64,
    /// Write requests answered.
    pub writes: u64,
    /// Bytes they wrote.
    pub written_bytes: u64,
    /// Requests answered with an error.
    pub errors: u64,
}

impl SlowDisk {
    /// Whether this machine and user can create one; else the missing prerequisites.
    pub fn available() -> Result<(), String> {
        let missing = VirtualDisk::missing(Some(FileSystem::Ext4));
        if missing.is_empty() {
            Ok(())
        } else {
            Err(missing.join("; "))
        }
    }

    /// Whether tests on slow disks can run; otherwise marks the test as skipped, see
    /// [`crate::skip`].
    pub fn available_or_skip(test: &str) -> bool {
        match Self::available() {
            Ok(()) => true,
            Err(reason) => {
                crate::skip(test, &reason);
                false
            }
        }
    }

    /// Creates and mounts a disk of `size_bytes` zeros (a multiple of 4096), timing off.
    /// `compression` divides all times of the model; 1.0 is real time.
    pub fn new(size_bytes: u64, model: DriveModel, compression: f64) -> io::Result<Self> {
        let file = DiskFile::start(file_options(size_bytes, model, compression));
        let file = file.map_err(io_error)?;
        file.keep_records(true);
        Ok(Self(DiskParts::Alone(Box::new(file))))
    }

    pub(crate) fn below(disk: VirtualDisk) -> Self {
        disk.file().keep_records(true);
        Self(DiskParts::Below(disk))
    }

    fn file(&self) -> &DiskFile {
        match &self.0 {
            DiskParts::Alone(file) => file,
            DiskParts::Below(disk) => disk.file(),
        }
    }

    pub(crate) fn above(&self) -> Option<&VirtualDisk> {
        match &self.0 {
            DiskParts::Alone(_) => None,
            DiskParts::Below(disk) => Some(disk),
        }
    }

    /// Path of the disk's file.
    pub fn path(&self) -> PathBuf {
        self.file().path()
    }

    /// Its size.
    pub fn size_bytes(&self) -> u64 {
        self.file().size_bytes()
    }

    /// The directory of its own files; callers may use other names in it.
    pub fn directory(&self) -> &Path {
        self.file().directory()
    }

    /// Switches the timing of the model on or off.
    pub fn switch_timing(&self, timed: bool) {
        self.file().switch_timing(timed);
    }

    /// Reads that touch `range` fail with EIO, permanently.
    pub fn fail_reads(&self, range: Range<u64>) {
        self.file().fail_reads(range, false);
    }

    /// The next read that touches `range` fails with EIO.
    pub fn fail_read_once(&self, range: Range<u64>) {
        self.file().fail_reads(range, true);
    }

    /// Requests hang for `length` (wall time), or until [`SlowDisk::release`] if `None`.
    pub fn hang(&self, length: Option<Duration>) {
        self.file().add_fault(Fault::Hang(length));
    }

    /// Ends a hang.
    pub fn release(&self) {
        self.file().release();
    }

    /// Requests take `factor` times as long as modelled.
    pub fn slow_down(&self, factor: f64) {
        self.file().add_fault(Fault::Slow(factor));
    }

    /// Every request fails with EIO, as when the cable is pulled.
    pub fn vanish(&self) {
        self.file().add_fault(Fault::Vanish);
    }

    /// Every write fails with EIO, as on a worn-out SSD.
    pub fn refuse_writes(&self) {
        self.file().add_fault(Fault::ReadOnly);
    }

    /// Flips one bit of each sector of `range` when it is read.
    pub fn flip_bits(&self, range: Range<u64>) {
        self.file().add_fault(Fault::Flip(range));
    }

    /// Replaces the content by zeros, as if the cable led to another disk.
    pub fn blank(&self) -> io::Result<()> {
        self.file().store().zero(0, self.size_bytes())
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.file().clear_faults();
    }

    /// Totals since the disk was created.
    pub fn counters(&self) -> Counters {
        let counters = self.file().counters();
        Counters {
            reads: counters.reads.requests,
            read_bytes: counters.reads.bytes,
            writes: counters.writes.requests,
            written_bytes: counters.writes.bytes,
            errors: counters.errors,
        }
    }

    /// Model time since the disk was created: the clock of the trace.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.file().now().0)
    }

    /// Requests answered so far.
    pub fn trace(&self) -> Trace {
        Trace::new(self.file().records().iter().map(Record::from).collect())
    }

    /// Empties the trace.
    pub fn forget_trace(&self) {
        self.file().keep_records(true);
    }
}

pub(crate) fn file_options(size_bytes: u64, model: DriveModel, compression: f64) -> FileOptions {
    let model = DriveModel {
        capacity_bytes: size_bytes,
        ..model
    };
    FileOptions {
        drive: Box::new(Drive::new(model)),
        queue_depth: None,
        time_scale: compression,
        store: None,
    }
}

pub(crate) fn io_error(error: Error) -> io::Error {
    io::Error::other(error)
}
