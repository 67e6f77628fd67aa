//! Version of a file: the fields of `stat` that change with its bytes.

use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Stat, StatxFlags, statx};

/// One version of one file: its inode, size, and modification time.
///
/// A change of owner, mode or link count leaves the bytes unchanged, and so the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Device, as in `st_dev`.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Modification time, nanoseconds since 1970.
    pub mtime_ns: i128,
    /// Whether the next change is certain to have another mtime: the clock of the file system has
    /// advanced since this one. Until then, other bytes may have the same size and mtime; so a file
    /// that becomes settled is a new version.
    pub is_settled: bool,
}

impl FileIdentity {
    /// The identity by `stat`, assumed to be settled.
    pub fn of(stat: &Stat) -> Self {
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            is_settled: true,
        }
    }

    /// Settled only if the file was not written within `settle` of now. The clock may be another
    /// machine's and slightly ahead; a time far in the future counts as settled.
    pub fn settling(self, settle: Duration) -> Self {
        let age_ns = now_ns().abs_diff(self.mtime_ns);
        Self {
            is_settled: age_ns >= settle.as_nanos(),
            ..self
        }
    }

    /// The identity of an open file, assumed to be settled.
    ///
    /// # Errors
    /// If the kernel query fails.
    pub fn of_open(file: impl AsFd) -> rustix::io::Result<Self> {
        rustix::fs::fstat(file).map(|stat| Self::of(&stat))
    }

    /// Whether both are the same bytes of the same file, by `stat`.
    pub fn has_bytes_of(&self, other: &Self) -> bool {
        let key = |of: &Self| (of.dev, of.ino, of.size, of.mtime_ns);
        key(self) == key(other)
    }

    /// Modification time as a `SystemTime`.
    pub fn modified(&self) -> SystemTime {
        modified(self.mtime_ns)
    }
}

/// A modification time as a `SystemTime`.
pub(crate) fn modified(mtime_ns: i128) -> SystemTime {
    let ns = mtime_ns.unsigned_abs();
    let seconds = u64::try_from(ns / 1_000_000_000).unwrap_or(0);
    let length = Duration::new(seconds, (ns % 1_000_000_000) as u32);
    let epoch = SystemTime::UNIX_EPOCH;
    let shifted = if mtime_ns < 0 {
        epoch.checked_sub(length)
    } else {
        epoch.checked_add(length)
    };
    shifted.unwrap_or(epoch)
}

/// A time of `stat` as nanoseconds since 1970. The kernel's `stat` has an unsigned fraction, libc's
/// a signed one.
pub(crate) fn nanoseconds(seconds: i64, part: impl Into<i128>) -> i128 {
    i128::from(seconds) * 1_000_000_000 + part.into()
}

/// Nanoseconds since 1970.
pub(crate) fn now_ns() -> i128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(0))
}

/// Creation time of the inode of an open file, nanoseconds since 1970; zero if the file system does
/// not report it.
pub(crate) fn born_ns(file: impl AsFd) -> i128 {
    let asked = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
    let told = asked
        .ok()
        .filter(|told| told.stx_mask & StatxFlags::BTIME.bits() != 0);
    told.map_or(0, |told| {
        nanoseconds(told.stx_btime.tv_sec, told.stx_btime.tv_nsec)
    })
}

pub(crate) fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_settles_after_its_clock_has_advanced() {
        let settled = |age_secs: i128| {
            let written = FileIdentity {
                dev: 1,
                ino: 1,
                size: 1,
                mtime_ns: now_ns() - age_secs * 1_000_000_000,
                is_settled: true,
            };
            written.settling(Duration::from_secs(20)).is_settled
        };
        assert!(settled(3600) && settled(-3600));
        assert!(!settled(0) && !settled(10) && !settled(-10));
    }
}
