//! Where lines go: a file that can be rotated under us, standard output, or nowhere.

use std::fs::{File, OpenOptions};
use std::io::{self, Stdout, Write};
use std::path::{Path, PathBuf};

/// Where a log is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere.
    Off,
    /// Standard output.
    Stdout,
    /// To the end of this file.
    File(PathBuf),
}

/// A log file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the log {path}: {source}; check that its folder exists and can be written to")]
pub struct SinkError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

#[derive(Debug)]
pub(super) enum Sink {
    Off,
    Stdout(Stdout),
    File(PathBuf, File),
}

impl Sink {
    pub(super) fn open(target: &LogTarget) -> Result<Self, SinkError> {
        Ok(match target {
            LogTarget::Off => Self::Off,
            LogTarget::Stdout => Self::Stdout(io::stdout()),
            LogTarget::File(path) => Self::File(path.clone(), open_file(path)?),
        })
    }

    pub(super) fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }

    /// Opens the file's path again; the old file stays in use if that fails.
    pub(super) fn reopen(&mut self) -> Result<(), SinkError> {
        if let Self::File(path, file) = self {
            *file = open_file(path)?;
        }
        Ok(())
    }

    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Off => Ok(()),
            Self::Stdout(stdout) => {
                let mut locked = stdout.lock();
                locked.write_all(lines)?;
                locked.flush()
            }
            Self::File(_, file) => file.write_all(lines),
        }
    }
}

fn open_file(path: &Path) -> Result<File, SinkError> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|source| SinkError {
        path: path.to_owned(),
        source,
    })
}
