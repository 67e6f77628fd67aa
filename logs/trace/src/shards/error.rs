//! Why a log cannot be split, or its parts cannot be summed or merged.

use std::io;
use std::path::PathBuf;

use crate::PartitionsError;

/// Why a shard or a partial sum cannot be used. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// A file cannot be read.
    #[error("{name}: cannot be read: {source}")]
    Read {
        /// The file.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{}: cannot be written: {source}; check its folder and the free space of its disk", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is another kind of file.
    #[error("{name}: is not {wanted}; {remedy}")]
    Kind {
        /// The file.
        name: String,
        /// The expected kind.
        wanted: &'static str,
        /// The command that writes such a file.
        remedy: &'static str,
    },
    /// It was written by another version.
    #[error("{name}: was written as `{theirs}`, this program reads `{ours}`; {remedy}")]
    Version {
        /// The file.
        name: String,
        /// Its first line.
        theirs: String,
        /// The line of this version.
        ours: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// It is cut or damaged.
    #[error("{name}: is cut or damaged, its checksum is wrong; {remedy}")]
    Damaged {
        /// The file.
        name: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// A session is in the wrong shard.
    #[error(
        "{name}: session number {session} belongs to shard {belongs} of {of}, not to {shard}; split \
         the log again"
    )]
    Session {
        /// The file.
        name: String,
        /// The number of the session.
        session: u32,
        /// Its shard.
        belongs: u32,
        /// The shard that has it.
        shard: u32,
        /// Number of shards.
        of: u32,
    },
    /// Two parts are of different logs, or of different splits of one.
    #[error(
        "{other}: is part of another log or split ({theirs}) than {one} ({ours}); merge the parts of \
         one `headlong trace split`"
    )]
    Log {
        /// The first file.
        one: String,
        /// Its logs.
        ours: String,
        /// The file that differs.
        other: String,
        /// Its logs.
        theirs: String,
    },
    /// Two parts were summed by different rules.
    #[error(
        "{other}: chains were joined by other rules ({theirs}) than in {one} ({ours}); sum all shards \
         with the same --gap and --link"
    )]
    Rules {
        /// The first file.
        one: String,
        /// Its rules.
        ours: String,
        /// The file that differs.
        other: String,
        /// Its rules.
        theirs: String,
    },
    /// A shard occurs twice.
    #[error("{other}: shard {shard} of {of} is already in {one}; name each shard once")]
    Twice {
        /// The first file.
        one: String,
        /// The second.
        other: String,
        /// The shard, from 0.
        shard: u32,
        /// Number of shards.
        of: u32,
    },
    /// Some shards are missing.
    #[error(
        "{first}: only {have} of {of} shards are here, shard {missing} is missing; without it the \
         report would be of a smaller log"
    )]
    Missing {
        /// A file that is there.
        first: String,
        /// Number of shards that are there.
        have: usize,
        /// The first that is not.
        missing: u32,
        /// Number of shards.
        of: u32,
    },
    /// The number of shards is out of range.
    #[error("a log can be split into 1 to {most} shards, not {count}")]
    Count {
        /// The given number.
        count: u32,
        /// The largest.
        most: u32,
    },
    /// Requests cannot be read back.
    #[error("{name}: {source}")]
    Parts {
        /// The log or shard.
        name: String,
        /// The cause.
        source: PartitionsError,
    },
}
