//! Why logs cannot be taken in.

use std::path::PathBuf;

use crate::files::FilesError;
use crate::parts::PartsError;
use crate::read::FormatError;

/// Why logs could not be taken in.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// There is nothing to read.
    #[error("no logs were given; name at least one, or `-` for standard input")]
    NoLogs,
    /// Too little memory was allowed.
    #[error(
        "{} MiB are too little memory for {threads} threads; allow at least {} MiB, or fewer \
         threads", given >> 20, needed.div_ceil(1 << 20)
    )]
    Memory {
        /// Allowed, bytes.
        given: u64,
        /// The least, bytes.
        needed: u64,
        /// Threads.
        threads: usize,
    },
    /// Logs that cannot be read; all of them at once.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Logs(Vec<LogError>),
    /// The files table cannot be read.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The format that was given has a mistake.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The rule for titles is broken.
    #[error(
        "--title-rule `{rule}`: {what}; it is a regular expression with one group, such as \
             '^/([^/]+)/'"
    )]
    TitleRule {
        /// As it was given.
        rule: String,
        /// What is wrong.
        what: String,
    },
    /// Names take more memory than they may.
    #[error(
        "names of sessions and files take more than the {} MiB of memory they may; allow more in \
         all, of which they get a quarter", allowed >> 20
    )]
    Names {
        /// What they may take, bytes.
        allowed: u64,
    },
    /// Requests could not be put away.
    #[error("requests that do not fit in memory cannot be written to {}: {source}; make room \
             there, name another folder, or allow more memory", folder.display())]
    Spill {
        /// Where.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// They could not be read back.
    #[error(transparent)]
    Parts(#[from] PartsError),
}

/// Why one log cannot be read, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LogError(pub(super) String);
