//! Which version of which file: what `stat` says that changes when the bytes do.

use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Stat};

/// One version of one file.
///
/// The change time is part of it, so that bytes rewritten in place under a kept modification time
/// are noticed too; a change of mode or a new hard link looks like a new version, which costs a
/// cache and no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Device, as in `st_dev`.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Modification time, nanoseconds since 1970.
    pub mtime_ns: i128,
    /// Change time, nanoseconds since 1970.
    pub ctime_ns: i128,
}

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Self {
        let ns = |seconds: i64, part: u64| i128::from(seconds) * 1_000_000_000 + i128::from(part);
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime_ns: ns(stat.st_mtime, stat.st_mtime_nsec),
            ctime_ns: ns(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Of an open file.
    pub(crate) fn of_open(file: impl AsFd) -> rustix::io::Result<Self> {
        rustix::fs::fstat(file).map(|stat| Self::of(&stat))
    }

    /// Modification time as the standard library has it.
    pub fn modified(&self) -> SystemTime {
        let ns = self.mtime_ns.unsigned_abs();
        let seconds = u64::try_from(ns / 1_000_000_000).unwrap_or(0);
        let length = Duration::new(seconds, (ns % 1_000_000_000) as u32);
        let epoch = SystemTime::UNIX_EPOCH;
        let shifted = if self.mtime_ns < 0 {
            epoch.checked_sub(length)
        } else {
            epoch.checked_add(length)
        };
        shifted.unwrap_or(epoch)
    }
}

pub(crate) fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}
