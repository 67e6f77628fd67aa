//! Result of intake: partitions, names and totals.

use std::fmt;
use std::time::Duration;

use headlong_chains::FileInfo;

use super::options::MemoryBound;
use crate::drop_counts::DropCounts;
use crate::files::KnownProperties;
use crate::names::Names;
use crate::partitions::Partitions;
use crate::titles::TitleRuleCounts;

/// How sessions were identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionIdentification {
    /// By an id in every line.
    Id,
    /// By address, user agent and title, separated by idle time.
    AddressAgentTitle {
        /// The idle time.
        idle: Duration,
    },
    /// Some lines have an id, others do not.
    Both {
        /// Requests without an id.
        unnamed: u64,
        /// The idle time for those.
        idle: Duration,
    },
}

impl fmt::Display for SessionIdentification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by_address = "address, user agent and title, ending after";
        match self {
            Self::Id => f.write_str("the session id in the log"),
            Self::AddressAgentTitle { idle } => {
                write!(f, "{by_address} {} s without a request", idle.as_secs())
            }
            Self::Both { unnamed, idle } => write!(
                f,
                "the session id in the log; {unnamed} requests without one by {by_address} \
                 {} s without a request",
                idle.as_secs()
            ),
        }
    }
}

/// Result of one log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSummary {
    /// Its name, as given.
    pub name: String,
    /// Its format; empty if it was not read.
    pub format: String,
    /// Requests read from it.
    pub requests: u64,
    /// Its first and last time, ms; `None` without requests.
    pub span_ms: Option<(i64, i64)>,
    /// Why it was not read, or another remark.
    pub note: Option<String>,
}

/// Largest share of requests without an offset at which chains are still reported.
const UNPLACED_SHARE_MAX: f64 = 0.1;
/// Largest share of dropped lines at which the rest is still meaningful.
const DROPPED_SHARE_MAX: f64 = 0.1;

impl IntakeResult {
    /// Whether enough requests have offsets for chains to be reported.
    pub fn has_offsets(&self) -> bool {
        self.unplaced as f64 <= UNPLACED_SHARE_MAX * self.requests as f64
    }

    /// Bytes of all files: exact with a files table that has all sizes, else a lower bound.
    pub fn catalogue_bytes(&self) -> CatalogueBytes {
        let is_sized = self.files_told.iter().all(|told| told.size);
        CatalogueBytes {
            bytes: self.files.iter().map(|file| file.size_bytes).sum(),
            is_least: !(self.has_files_table && is_sized),
        }
    }

    /// Whether too many lines were dropped for the rest to be meaningful.
    pub fn is_mostly_dropped(&self) -> bool {
        let dropped = self.dropped.count();
        dropped as f64 > DROPPED_SHARE_MAX * (dropped + self.requests) as f64
    }
}

/// Bytes of all titles, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogueBytes {
    /// Bytes.
    pub bytes: u64,
    /// Whether there may be more: titles without requests, or parts that no request reached.
    pub is_least: bool,
}

/// The logs after intake.
#[derive(Debug)]
pub struct IntakeResult {
    /// The requests.
    pub parts: Partitions,
    /// Number of sessions; they are numbered from 0.
    pub sessions: u32,
    /// By file number; includes files of the table that were never requested.
    pub files: Vec<FileInfo>,
    /// Whether there was a files table.
    pub has_files_table: bool,
    /// By file number: which properties are known, not estimated.
    pub files_told: Vec<KnownProperties>,
    /// Requested files without kind and bit rate in a table; these were estimated, if enabled.
    pub files_estimated: u32,
    /// File names by number.
    pub file_names: Names,
    /// Session names by number.
    pub session_names: Names,
    /// Title names by number.
    pub title_names: Names,
    /// Files that are all segment files of a rendition, one behind the other.
    pub streams: Vec<u32>,
    /// Device types by number; the empty name stands for unknown devices.
    pub devices: Names,
    /// Drive names. A drive's number is its name if all are numbers, otherwise its index here.
    pub disks: Names,
    /// First arrival and last completion, ms.
    pub span_ms: (i64, i64),
    /// Dropped lines, by reason.
    pub dropped: DropCounts,
    /// The formats read, separated by commas.
    pub told_format: String,
    /// How sessions were identified.
    pub sessions_by: SessionIdentification,
    /// Requests in all partitions.
    pub requests: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Requests without a duration; they count as instantaneous.
    pub untimed: u64,
    /// Partial requests without an offset; they are in no chain.
    pub unplaced: u64,
    /// How files were assigned to titles.
    pub titles_by: TitleRuleCounts,
    /// Names of columns, variables or keys that are not used.
    pub unused: Vec<String>,
    /// Results of the logs.
    pub logs: Vec<LogSummary>,
    /// Remarks for readers of the report.
    pub notes: Vec<String>,
    /// The memory limits that were observed.
    pub memory: MemoryBound,
}
