//! Errors of intake.

use std::path::PathBuf;

use crate::files::FilesError;
use crate::partitions::PartitionsError;
use crate::read::FormatError;

/// Why logs could not be read.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// No log was given.
    #[error("no logs were given; name at least one, or `-` for standard input")]
    NoLogs,
    /// The memory limit is too small.
    #[error(
        "{} MiB are too little memory for {threads} threads; allow at least {} MiB, or fewer \
         threads", given >> 20, needed.div_ceil(1 << 20)
    )]
    Memory {
        /// The limit, bytes.
        given: u64,
        /// The minimum, bytes.
        needed: u64,
        /// Threads.
        threads: usize,
    },
    /// All logs that cannot be read.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Logs(Vec<LogError>),
    /// The files table cannot be read.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The given format is invalid.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The rule for titles is invalid.
    #[error(
        "--title-rule `{rule}`: {what}; it is a regular expression with one group, such as \
             '^/([^/]+)/'"
    )]
    TitleRule {
        /// The rule, as given.
        rule: String,
        /// Why it is invalid.
        what: String,
    },
    /// Names exceed their share of memory.
    #[error(
        "names of sessions and files exceed their limit of {} MiB; allow more memory in \
         total, of which names get a quarter", allowed >> 20
    )]
    Names {
        /// Their limit, bytes.
        allowed: u64,
    },
    /// Requests could not be spilled.
    #[error("requests that do not fit in memory cannot be written to {}: {source}; free space \
             there, name another folder, or allow more memory", folder.display())]
    Spill {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Requests could not be read back.
    #[error(transparent)]
    Parts(#[from] PartitionsError),
}

/// Why one log cannot be read, with the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LogError(pub(crate) String);
