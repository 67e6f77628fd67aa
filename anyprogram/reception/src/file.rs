//! A file that a program reads, as the daemon has it open, and the chunk files beside it, which are
//! opened when first read.
//!
//! For a passed descriptor, the kernel's cached attributes are used: the listening thread must not
//! query the file system. If they are outdated, reads of the file detect it.

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

/// Identity of a file's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileVersion {
    pub(crate) key: FileKey,
    pub(crate) size: u64,
    mtime: (i64, u64),
}

impl FileVersion {
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

/// One version of a file, and how to read it.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) version: FileVersion,
    file: OnceLock<File>,
    /// Where to open it, if no program passed a descriptor.
    named: Option<(Arc<Chunks>, usize)>,
}

impl OpenFile {
    /// A file opened from a program's descriptor.
    pub(crate) fn passed(file: File, version: FileVersion) -> Self {
        Self {
            version,
            file: file.into(),
            named: None,
        }
    }

    /// A file of a run of chunk files, not open yet.
    pub(crate) fn named(chunks: &Arc<Chunks>, index: usize, version: FileVersion) -> Self {
        Self {
            version,
            file: OnceLock::new(),
            named: Some((Arc::clone(chunks), index)),
        }
    }

    /// The file, opened if necessary.
    ///
    /// # Errors
    /// If it cannot be opened, or its name now refers to another version.
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

    /// Whether the file is unchanged; an unopened file counts as unchanged.
    pub(crate) fn is_unchanged(&self) -> bool {
        let file = self.file.get();
        file.is_none_or(|file| is_unchanged(file, &self.version))
    }
}

/// The version of a passed descriptor's file; `None` unless it is a regular file open for reading
/// through the page cache.
pub(crate) fn version(passed: &OwnedFd) -> Option<FileVersion> {
    let flags = fcntl_getfl(passed).ok()?;
    let is_read = matches!(flags & OFlags::RWMODE, OFlags::RDONLY | OFlags::RDWR);
    if !is_read || flags.intersects(OFlags::PATH | OFlags::DIRECT) {
        return None;
    }
    let stat = stat(passed).ok()?;
    let is_regular = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::RegularFile;
    is_regular.then(|| FileVersion {
        key: FileKey {
            dev: dev(&stat),
            ino: stat.stx_ino,
        },
        size: stat.stx_size,
        mtime: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec.into()),
    })
}

/// The file system of a passed descriptor, as `st_dev`; zero if unknown.
pub(crate) fn file_system(passed: &OwnedFd) -> u64 {
    stat(passed).map_or(0, |stat| dev(&stat))
}

/// Cached attributes, without a query to the file system, which may be remote or another program.
fn stat(passed: impl AsFd) -> rustix::io::Result<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    statx(passed, "", flags, StatxFlags::BASIC_STATS)
}

fn dev(stat: &Statx) -> u64 {
    makedev(stat.stx_dev_major, stat.stx_dev_minor)
}

/// Opens the file of a passed descriptor again. The program's locks, leases and position belong to
/// its own descriptor, which is not kept.
///
/// # Errors
/// If the daemon's user may not read it.
pub(crate) fn reopen(passed: &OwnedFd) -> rustix::io::Result<File> {
    let path = format!("/proc/self/fd/{}", passed.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    // The access time is for the program's reads to change.
    let opened = open(&path, flags | OFlags::NOATIME, Mode::empty());
    let file = opened.or_else(|_| open(&path, flags, Mode::empty()))?;
    Ok(File::from(file))
}

/// Whether an open file is still this version, and has a name.
fn is_unchanged(file: &File, version: &FileVersion) -> bool {
    fstat(file).is_ok_and(|stat| FileVersion::of(&stat) == *version && stat.st_nlink > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn only_readable_regular_files_have_a_version() {
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
    fn written_or_unlinked_file_is_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, b"12").expect("written");
        let passed = open(&path, OFlags::RDONLY, Mode::empty()).expect("opened");
        let version = version(&passed).expect("a file");
        assert_eq!(version, FileVersion::of(&fstat(&passed).expect("asked")));
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
        assert!(reopen(&passed).is_ok(), "an unlinked file is readable");
    }
}
