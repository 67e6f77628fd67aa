//! What comes of intake: logs as parts, names and sums.

use std::fmt;
use std::time::Duration;

use headlong_chains::FileInfo;

use super::options::MemoryBound;
use crate::dropped::Dropped;
use crate::files::FileTold;
use crate::names::Names;
use crate::parts::Parts;
use crate::titles::TitlesBy;

/// By what sessions were told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionsBy {
    /// By a name in every line.
    Id,
    /// By address, user agent and title, and a time without requests.
    AddressAgentTitle {
        /// That time.
        idle: Duration,
    },
    /// Some lines have a name, others have not.
    Both {
        /// Requests without a name.
        unnamed: u64,
        /// As above.
        idle: Duration,
    },
}

impl fmt::Display for SessionsBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by_address = "address, user agent and title, ending after";
        match self {
            Self::Id => f.write_str("the name that the log gives them"),
            Self::AddressAgentTitle { idle } => {
                write!(f, "{by_address} {} s without a request", idle.as_secs())
            }
            Self::Both { unnamed, idle } => write!(
                f,
                "the name that the log gives them; {unnamed} requests without one by {by_address} \
                 {} s without a request",
                idle.as_secs()
            ),
        }
    }
}

/// What became of one log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTold {
    /// As it was given.
    pub name: String,
    /// Its format; empty if it was not read.
    pub format: String,
    /// Requests it gave.
    pub requests: u64,
    /// First and last moment in it, ms; `None` without requests.
    pub span_ms: Option<(i64, i64)>,
    /// Why it was left out, or something about it worth knowing.
    pub note: Option<String>,
}

/// Most of a log that may be in no chain for want of its offset, before chains are not told at all.
const UNPLACED_SHARE_MAX: f64 = 0.1;
/// Most of a log that may be dropped before what is left of it says little.
const DROPPED_SHARE_MAX: f64 = 0.1;

impl TakenIn {
    /// Whether enough requests say which bytes they were for, so that chains can be told of.
    pub fn has_offsets(&self) -> bool {
        self.unplaced as f64 <= UNPLACED_SHARE_MAX * self.requests as f64
    }

    /// Whether so many lines were dropped that what is left says little.
    pub fn is_mostly_dropped(&self) -> bool {
        let dropped = self.dropped.count();
        dropped as f64 > DROPPED_SHARE_MAX * (dropped + self.requests) as f64
    }
}

/// Logs, taken in.
#[derive(Debug)]
pub struct TakenIn {
    /// The requests.
    pub parts: Parts,
    /// Number of sessions; they are numbered from 0.
    pub sessions: u32,
    /// By file number; files of the table that nobody asked for too.
    pub files: Vec<FileInfo>,
    /// By file number: what of it was told and not estimated.
    pub files_told: Vec<FileTold>,
    /// Files that were asked for but are in no table, or not with kind and bit rate; these were
    /// estimated, if that was wanted.
    pub files_estimated: u32,
    /// Names of files by number.
    pub file_names: Names,
    /// Names of sessions by number.
    pub session_names: Names,
    /// Names of titles by number.
    pub title_names: Names,
    /// Files that are the pieces of one rendition of a title, in their order.
    pub streams: Vec<Vec<u32>>,
    /// Types of device by number; the empty name is of those that are unknown.
    pub devices: Names,
    /// Names of drives. A drive's number is its name if all are numbers, else its place here.
    pub disks: Names,
    /// First arrival and last completion, ms.
    pub span_ms: (i64, i64),
    /// What became no request, and why.
    pub dropped: Dropped,
    /// The formats that were read, with commas between them.
    pub told_format: String,
    /// By what sessions were told apart.
    pub sessions_by: SessionsBy,
    /// Requests in all parts.
    pub requests: u64,
    /// Bytes they sent.
    pub bytes: u64,
    /// Requests that do not say how long they took; they count as done at once.
    pub untimed: u64,
    /// Requests for a part of a file that nothing places; they are in no chain.
    pub unplaced: u64,
    /// By what files were put into titles.
    pub titles_by: TitlesBy,
    /// Names of columns, variables or keys that nobody here needs.
    pub unused: Vec<String>,
    /// Each log.
    pub logs: Vec<LogTold>,
    /// What a reader of the report should know.
    pub notes: Vec<String>,
    /// The bound that was held to.
    pub memory: MemoryBound,
}
