//! Why logs cannot be taken in.

use std::path::PathBuf;

use crate::files::FilesError;
use crate::parts::PartsError;
use crate::read::FormatError;
use crate::read::recognise::{Tried, outcomes};

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

/// Why one log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It cannot be opened.
    #[error("{log} cannot be read: {source}")]
    Open {
        /// Which.
        log: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is packed by something that is not known here.
    #[error("{log} is packed by {by}, which is not unpacked here; unpack it: {by} -dc {log}")]
    Packed {
        /// Which.
        log: String,
        /// By what.
        by: &'static str,
    },
    /// It is no text.
    #[error(
        "{log} is no text, so no log; gzip and zstd are unpacked here, other packings are to be \
         unpacked before"
    )]
    Binary {
        /// Which.
        log: String,
    },
    /// Nobody knows what format it is in.
    #[error(
        "{log} is in no known format. Tried:\n{}\nSay what it is: --log-format '...' with the \
         log_format (nginx) or LogFormat (Apache) of the server's configuration, or --format NAME, \
         for keys or columns of other names --format 'json:time=THEIRS,target=THEIRS,bytes=THEIRS'; \
         or leave this log out",
        outcomes(tried)
    )]
    Unknown {
        /// Which.
        log: String,
        /// What was tried.
        tried: Vec<Tried>,
    },
    /// Nothing is called what is said to name the session.
    #[error(
        "{log}: nothing in its first lines is called `{wanted}` and names a session; there are {}",
        there_is.join(", ")
    )]
    NoSession {
        /// Which.
        log: String,
        /// What it should be called.
        wanted: String,
        /// What there is.
        there_is: Vec<String>,
    },
    /// Tables of columns are not read from a stream.
    #[error("{log}: Parquet cannot be read from a stream; name a file")]
    Stream {
        /// Which.
        log: String,
    },
    /// A table of columns is not a request log.
    #[error("{log}: {what}")]
    Table {
        /// Which.
        log: String,
        /// What is wrong.
        what: String,
    },
}
