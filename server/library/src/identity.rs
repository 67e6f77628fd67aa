//! Version of a file: the fields of `stat` that change with its bytes.

use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Stat, Statx, StatxFlags, StatxTimestamp, makedev, statx};
use xxhash_rust::xxh3::xxh3_64;

/// One version of one file: its inode, size, modification and change time.
///
/// Programs can set the modification time, but not the change time: a file that was rewritten has
/// another one. So has a file that was renamed or whose attributes were changed; it counts as
/// another version, too, as the kernel does not tell these changes apart.
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
    /// Change time, nanoseconds since 1970.
    pub ctime_ns: i128,
    /// Hash of the attributes whose change changes the change time: owner, group, mode, links.
    pub attributes: u64,
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
            ctime_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
            attributes: attributes(stat.st_uid, stat.st_gid, stat.st_mode, stat.st_nlink),
            is_settled: true,
        }
    }

    /// The identity by `statx`, assumed to be settled.
    pub fn of_statx(statx: &Statx) -> Self {
        let time = |of: StatxTimestamp| nanoseconds(of.tv_sec, of.tv_nsec);
        Self {
            dev: makedev(statx.stx_dev_major, statx.stx_dev_minor),
            ino: statx.stx_ino,
            size: statx.stx_size,
            mtime_ns: time(statx.stx_mtime),
            ctime_ns: time(statx.stx_ctime),
            attributes: attributes(
                statx.stx_uid,
                statx.stx_gid,
                statx.stx_mode,
                statx.stx_nlink,
            ),
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

    /// Whether both are the same bytes of the same file, by its modification time.
    pub fn has_bytes_of(&self, other: &Self) -> bool {
        let key = |of: &Self| (of.dev, of.ino, of.size, of.mtime_ns);
        key(self) == key(other)
    }

    /// Whether the change time differs although no attribute does: the file was rewritten and its
    /// modification time set back, or it was renamed.
    pub fn may_be_rewritten(&self, since: &Self) -> bool {
        self.ctime_ns != since.ctime_ns && self.attributes == since.attributes
    }

    /// A number that distinguishes versions with the same size and modification time.
    pub fn distinction(&self) -> u64 {
        let ctime = self.ctime_ns as u64;
        hash(&[self.ino, ctime])
    }

    /// Modification time in whole seconds since 1970.
    pub fn mtime_seconds(&self) -> i64 {
        let seconds = self.mtime_ns.div_euclid(1_000_000_000);
        i64::try_from(seconds).unwrap_or(i64::MAX)
    }

    /// Modification time as a `SystemTime`.
    pub fn modified(&self) -> SystemTime {
        modified(self.mtime_ns)
    }
}

/// Hash of attributes; `links` has another width on each architecture.
fn attributes(uid: u32, gid: u32, mode: impl Into<u64>, links: impl Into<u64>) -> u64 {
    hash(&[uid.into(), gid.into(), mode.into(), links.into()])
}

fn hash(values: &[u64]) -> u64 {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    xxh3_64(&bytes)
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
                ctime_ns: 0,
                attributes: 0,
                is_settled: true,
            };
            written.settling(Duration::from_secs(20)).is_settled
        };
        assert!(settled(3600) && settled(-3600));
        assert!(!settled(0) && !settled(10) && !settled(-10));
    }
}
