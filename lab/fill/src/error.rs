//! What may go wrong while files are created or checked.

use std::io;
use std::path::{Path, PathBuf};

use headlong_units::Bytes;

/// Why there is no catalogue, or not the one that was expected.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// There is not enough room; nothing was written.
    #[error(
        "{}: {} are needed and {} are free; free some, or fill less (--set title.GROUP.count=N)",
        folder.display(), gibibytes(*needed), gibibytes(*free)
    )]
    NoRoom {
        /// Where.
        folder: PathBuf,
        /// Bytes still to be written.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The file system has too few inodes left; nothing was written.
    #[error(
        "{}: {needed} files are needed and the file system has room for {free}; make it with more \
         inodes (mkfs.ext4 -N {}), or with larger chunk files", folder.display(), needed + needed / 10
    )]
    NoInodes {
        /// Where.
        folder: PathBuf,
        /// Files still to be created.
        needed: u64,
        /// Inodes that are free.
        free: u64,
    },
    /// The disk was full in spite of that; the file at hand was removed.
    #[error(
        "{}: the disk is full after {done} of {total} files; {} more are needed. What is complete \
         stays, and the same command goes on from there", path.display(), gibibytes(*missing)
    )]
    Full {
        /// The file that did not fit.
        path: PathBuf,
        /// Files that are complete.
        done: u64,
        /// Of so many.
        total: u64,
        /// Bytes that are missing.
        missing: u64,
    },
    /// It was told to stop; the file at hand was removed.
    #[error(
        "stopped after {done} of {total} files. What is complete stays, and the same command goes \
         on from there"
    )]
    Stopped {
        /// Files that are complete.
        done: u64,
        /// Of so many.
        total: u64,
    },
    /// The folder holds another catalogue.
    #[error(
        "{}: holds the catalogue {found}, not {wanted}; empty the folder, or name another one",
        manifest.display()
    )]
    Other {
        /// The note that says which.
        manifest: PathBuf,
        /// What is there.
        found: String,
        /// What was to be there.
        wanted: String,
    },
    /// Bytes are not what they should be.
    #[error("{}: byte {offset} is wrong; delete the file and fill the folder again", path.display())]
    Wrong {
        /// In which file.
        path: PathBuf,
        /// The first such byte.
        offset: u64,
    },
    /// A file has another size than it should.
    #[error("{}: has {found} bytes instead of {wanted}; fill the folder again", path.display())]
    Size {
        /// Which.
        path: PathBuf,
        /// How many it has.
        found: u64,
        /// How many it should have.
        wanted: u64,
    },
    /// The operating system refused.
    #[error("{}: {what}: {source}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Its answer.
        source: io::Error,
    },
}

fn gibibytes(bytes: u64) -> String {
    match bytes >> 30 {
        0 => Bytes(bytes.next_multiple_of(1024)).to_string(),
        _ => format!("{:.1}GiB", bytes as f64 / (1u64 << 30) as f64),
    }
}

/// An error about `path`, made from the operating system's.
pub(crate) fn io_error(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> FillError {
    let path = path.to_path_buf();
    move |source| FillError::Io { path, what, source }
}
