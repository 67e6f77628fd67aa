//! What may go wrong while files are created or checked.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use headlong_units::Bytes;

/// Why there is no catalogue, or not the one that was expected.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// There is not enough room in a folder, or the file system has too few inodes left; nothing was
    /// written.
    #[error("{}: {}", .0.display(), .1)]
    NoRoom(PathBuf, String),
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
    /// A file or folder is not what it should be, or the operating system refused.
    #[error("{}: {}", .0.display(), .1)]
    Wrong(PathBuf, String),
}

impl FillError {
    /// What is wrong with a file or folder.
    pub(crate) fn of(path: &Path, wrong: impl Display) -> Self {
        Self::Wrong(path.to_path_buf(), wrong.to_string())
    }

    /// The folder holds another catalogue, as the note in it says.
    pub(crate) fn other(manifest: &Path, found: &str, wanted: &str) -> Self {
        let remedy = "empty the folder, or name another one";
        let text = format_args!("holds the catalogue {found}, not {wanted}; {remedy}");
        Self::of(manifest, text)
    }

    /// A file has another size than it should.
    pub(crate) fn size(path: &Path, found: u64, wanted: u64) -> Self {
        let text = format_args!("has {found} bytes instead of {wanted}; fill the folder again");
        Self::of(path, text)
    }
}

pub(crate) fn gibibytes(bytes: u64) -> String {
    match bytes >> 30 {
        0 => Bytes(bytes.next_multiple_of(1024)).to_string(),
        _ => format!("{:.1}GiB", bytes as f64 / (1u64 << 30) as f64),
    }
}

/// An error about `path`, made from the operating system's.
pub(crate) fn io_error(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> FillError {
    move |error| FillError::of(path, format_args!("{what}: {error}"))
}
