//! Errors of creating and verifying files.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use headlong_units::Bytes;

/// Why a catalogue could not be created or verified.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// The folder has too little space, or the file system too few free inodes; nothing was
    /// written.
    #[error("{}: {}", .0.display(), .1)]
    NoRoom(PathBuf, String),
    /// Stopped on request; the incomplete file was removed.
    #[error(
        "stopped after {done} of {total} files; complete files stay, run the same command again to \
         continue"
    )]
    Stopped {
        /// Complete files.
        done: u64,
        /// All files.
        total: u64,
    },
    /// A file or folder is invalid, or the operating system returned an error.
    #[error("{}: {}", .0.display(), .1)]
    Wrong(PathBuf, String),
}

impl FillError {
    /// An error of a file or folder.
    pub(crate) fn of(path: &Path, wrong: impl Display) -> Self {
        Self::Wrong(path.to_path_buf(), wrong.to_string())
    }

    /// The folder's manifest describes another catalogue.
    pub(crate) fn other(manifest: &Path, found: &str, wanted: &str) -> Self {
        let remedy = "empty the folder or choose another one";
        let text = format_args!("holds the catalogue {found}, not {wanted}; {remedy}");
        Self::of(manifest, text)
    }

    /// A file has the wrong size.
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

/// Converts an error of the operating system about `path`.
pub(crate) fn io_error(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> FillError {
    move |error| FillError::of(path, format_args!("{what}: {error}"))
}
