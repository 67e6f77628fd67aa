//! A file that a program reads, as the reception has it open; and the chunk files beside it, which are
//! opened when they are first read.
//!
//! Of a descriptor that a program passed, attributes are those that the kernel knows: to ask its file
//! system is not for the thread that listens. If they are old ones, reads of the file find that out.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::sync::{Arc, OnceLock};

use headlong_protocol::FileKey;
use headlong_walk::Chunks;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, Statx, StatxFlags, fcntl_getfl, fstat, makedev, open,
    statx,
};

/// Which version of which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    pub(crate) key: FileKey,
    pub(crate) size: u64,
    mtime: (i64, u64),
}

impl Version {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            key: FileKey {
                dev: stat.st_dev,
                ino: stat.st_ino,
            },
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime: (stat.st_mtime, stat.st_mtime_nsec),
        }
    }
}

/// One version of a file, and where it is read.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) version: Version,
    file: OnceLock<File>,
    /// Where it is opened, if no program passed it.
    named: Option<(Arc<Chunks>, usize)>,
}

impl Open {
    /// A file that was opened from a program's descriptor.
    pub(crate) fn passed(file: File, version: Version) -> Self {
        Self {
            version,
            file: file.into(),
            named: None,
        }
    }

    /// One of a run of chunk files, not open yet.
    pub(crate) fn named(chunks: &Arc<Chunks>, index: usize, version: Version) -> Self {
        Self {
            version,
            file: OnceLock::new(),
            named: Some((Arc::clone(chunks), index)),
        }
    }

    /// The file, opened now if it was not.
    ///
    /// # Errors
    /// If that cannot be, or another version has its name.
    pub(crate) fn file(&self) -> io::Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let (chunks, index) = self.named.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let file = chunks.open(*index)?;
        if !is_unchanged(&file, &self.version) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(self.file.get_or_init(|| file))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.file.get().is_some()
    }

    /// Whether it still is what it was, as far as can be told.
    pub(crate) fn is_unchanged(&self) -> bool {
        let file = self.file.get();
        file.is_none_or(|file| is_unchanged(file, &self.version))
    }
}

/// The version of a passed descriptor's file; `None` if it is of no regular file that is open for
/// reading through the page cache.
pub(crate) fn version(passed: &OwnedFd) -> Option<Version> {
    let flags = fcntl_getfl(passed).ok()?;
    let is_read = matches!(flags & OFlags::RWMODE, OFlags::RDONLY | OFlags::RDWR);
    if !is_read || flags.intersects(OFlags::PATH | OFlags::DIRECT) {
        return None;
    }
    let stat = known(passed).ok()?;
    let is_regular = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::RegularFile;
    is_regular.then(|| Version {
        key: FileKey {
            dev: dev(&stat),
            ino: stat.stx_ino,
        },
        size: stat.stx_size,
        mtime: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec.into()),
    })
}

/// The file system of a passed descriptor, as `st_dev`; zero if it has none.
pub(crate) fn file_system(passed: &OwnedFd) -> u64 {
    known(passed).map_or(0, |stat| dev(&stat))
}

/// Attributes without asking the file system, which may be far away, or another program.
fn known(passed: impl AsFd) -> rustix::io::Result<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    statx(passed, "", flags, StatxFlags::BASIC_STATS)
}

fn dev(stat: &Statx) -> u64 {
    makedev(stat.stx_dev_major, stat.stx_dev_minor)
}

/// Opens the file of a passed descriptor again. Locks, leases and the position of the program's own
/// are those of its descriptor, which is not kept.
///
/// # Errors
/// If the reception's user may not read it.
pub(crate) fn reopen(passed: &OwnedFd) -> rustix::io::Result<File> {
    let path = format!("/proc/self/fd/{}", passed.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    // The program reads it, and that is what its time of access tells.
    let opened = open(&path, flags | OFlags::NOATIME, Mode::empty());
    let file = opened.or_else(|_| open(&path, flags, Mode::empty()))?;
    Ok(File::from(file))
}

/// Whether an open file still is what it was, and has a name.
fn is_unchanged(file: &File, version: &Version) -> bool {
    fstat(file).is_ok_and(|stat| Version::of(&stat) == *version && stat.st_nlink > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn descriptors_of_no_file_that_is_read_have_no_version() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, b"1").expect("written");
        let fd = |flags| open(&path, flags, Mode::empty()).expect("opened");
        assert!(version(&fd(OFlags::RDONLY)).is_some());
        assert!(version(&fd(OFlags::RDWR)).is_some());
        assert!(version(&fd(OFlags::WRONLY)).is_none());
        assert!(version(&fd(OFlags::PATH)).is_none());
        let directory = open(folder.path(), OFlags::RDONLY, Mode::empty()).expect("opened");
        assert!(version(&directory).is_none());
        let (reader, _writer) = io::pipe().expect("a pipe");
        assert!(version(&OwnedFd::from(reader)).is_none());
        let zero = open("/dev/zero", OFlags::RDONLY, Mode::empty()).expect("opened");
        assert!(version(&zero).is_none());
    }

    #[test]
    fn a_file_is_another_once_it_is_written_or_has_no_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, b"12").expect("written");
        let passed = open(&path, OFlags::RDONLY, Mode::empty()).expect("opened");
        let version = version(&passed).expect("a file");
        assert_eq!(version, Version::of(&fstat(&passed).expect("asked")));
        assert_eq!(file_system(&passed), version.key.dev);
        let file = reopen(&passed).expect("opened again");
        assert!(is_unchanged(&file, &version));
        let writer = File::options().write(true).open(&path).expect("opened");
        writer.write_all_at(b"123", 0).expect("written");
        assert!(!is_unchanged(&file, &version));
        let now = super::version(&passed).expect("a file");
        assert!(is_unchanged(&file, &now));
        std::fs::remove_file(&path).expect("removed");
        assert!(!is_unchanged(&file, &now));
        assert!(
            reopen(&passed).is_ok(),
            "a file without a name is read, too"
        );
    }
}
