//! From logs to parts: everything is read once, whatever its format, on all cores, within a bound
//! of memory that is known beforehand.
//!
//! Invariants: what comes out depends on the logs and options alone, not on threads or memory; a
//! bad line is counted and sampled, never fatal; what cannot be opened or recognised is told before
//! the long work begins.

mod finish;
mod logs;
mod worker;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use headlong_chains::FileInfo;

use crate::dropped::Dropped;
use crate::files::FilesError;
use crate::known::Known;
use crate::names::Names;
use crate::parts::{PARTS, Parts, PartsError};
use crate::read::recognise::Tried;
use crate::read::source::BLOCK_BYTES;
use crate::read::{Format, FormatError};

/// A request's place in the log is the number of its log, shifted by so many bits, and its line.
pub(crate) const SOURCE_SHIFT: u32 = 40;

/// Bytes a part gathers on a thread before they are put away.
pub(crate) const PART_BUFFER_BYTES: usize = 16 << 10;

/// What to take in, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intake {
    /// Logs; `-` is standard input. Packed ones (gzip, zstd) are unpacked as they are read.
    pub logs: Vec<PathBuf>,
    /// The files table: `file,title,kind,kbps,size,disk,duration_s`, of which only `file` has to
    /// be there.
    pub files: Option<PathBuf>,
    /// `None`: each log's is recognised by its first lines.
    pub format: Option<Format>,
    /// The variable, column, key or header that names the session, where it is not one that is
    /// known for that.
    pub session_field: Option<String>,
    /// A viewer known by address and user agent alone begins another session after so long
    /// without any request.
    pub session_idle: Duration,
    /// Memory that intake and parts may take, bytes.
    pub memory_bytes_max: u64,
    /// Whether bit rates and sizes that no table of files tells are estimated from how files were
    /// used, which takes another look at every request.
    pub estimates: bool,
    /// Whether it is taken in on which devices viewers were and from which drives they were served;
    /// chains are the same without.
    pub devices_and_drives: bool,
    /// Threads that read.
    pub threads: usize,
    /// Folder for what does not fit in memory; `None`: that for temporary files.
    pub spill: Option<PathBuf>,
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            logs: Vec::new(),
            files: None,
            format: None,
            session_field: None,
            session_idle: Duration::from_secs(30 * 60),
            memory_bytes_max: 1 << 30,
            estimates: true,
            devices_and_drives: true,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            spill: None,
        }
    }
}

/// The most memory that intake and parts will take, bytes, by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBound {
    /// Blocks being parsed, and requests on their way to parts.
    pub reading: u64,
    /// Names of sessions, files, titles, devices and drives.
    pub names: u64,
    /// Requests that wait in parts; further ones wait in a file.
    pub kept: u64,
    /// Parts that are loaded.
    pub loaded: u64,
}

impl MemoryBound {
    /// All of it.
    pub const fn total(&self) -> u64 {
        self.reading + self.names + self.kept + self.loaded
    }
}

impl fmt::Display for MemoryBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        write!(
            f,
            "at most {} MiB (reading {}, names {}, waiting requests {}, loaded parts {})",
            self.total().div_ceil(MIB),
            self.reading.div_ceil(MIB),
            self.names.div_ceil(MIB),
            self.kept.div_ceil(MIB),
            self.loaded.div_ceil(MIB),
        )
    }
}

impl Intake {
    /// Whether devices and drives are looked at: what is in two logs is one request only if it is the
    /// same in everything.
    fn looks_at_devices_and_drives(&self) -> bool {
        self.devices_and_drives || self.logs.len() > 1
    }

    /// The most memory this will take, told before anything is read.
    pub fn memory_bound(&self) -> Result<MemoryBound, IntakeError> {
        let threads = self.threads.max(1) as u64;
        // A block, what grows behind it, and what was carried over; twice, for the doubling of
        // vectors. Five kinds of names are remembered.
        let by_thread = 6 * BLOCK_BYTES + PARTS * PART_BUFFER_BYTES * 3 / 2 + 5 * Known::BYTES;
        let reading = threads * by_thread as u64;
        let needed = reading + (48 << 20);
        let Some(rest) = self
            .memory_bytes_max
            .checked_sub(reading)
            .filter(|_| self.memory_bytes_max >= needed)
        else {
            return Err(IntakeError::Memory {
                given: self.memory_bytes_max,
                needed,
                threads: self.threads.max(1),
            });
        };
        Ok(MemoryBound {
            reading,
            names: rest / 4,
            kept: rest / 8 * 3,
            loaded: rest / 8 * 3,
        })
    }
}

/// Someone who wants to know how far it is.
pub trait Progress: Sync {
    /// So many bytes of the logs have been read, as they lie there, of so many in all (`None` if
    /// that cannot be known).
    fn read(&self, bytes: u64, of: Option<u64>);
    /// Something worth saying at once.
    fn note(&self, note: &str);
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn read(&self, _: u64, _: Option<u64>) {}
    fn note(&self, _: &str) {}
}

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

/// Logs, taken in.
#[derive(Debug)]
pub struct TakenIn {
    /// The requests.
    pub parts: Parts,
    /// Number of sessions; they are numbered from 0.
    pub sessions: u32,
    /// By file number; files of the table that nobody asked for too.
    pub files: Vec<FileInfo>,
    /// Files that were asked for but are in no table, or not with kind and bit rate; these were
    /// estimated, if that was wanted.
    pub files_estimated: u32,
    /// Names of files by number.
    pub file_names: Names,
    /// Names of sessions by number.
    pub session_names: Names,
    /// Names of titles by number.
    pub title_names: Names,
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
    /// Each log.
    pub logs: Vec<LogTold>,
    /// What a reader of the report should know.
    pub notes: Vec<String>,
    /// The bound that was held to.
    pub memory: MemoryBound,
}

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
    /// Nobody knows what format it is in.
    #[error(
        "{log} is in no known format. Tried:\n{}\nName the format with --format, or leave this \
         log out", tried.iter().map(|tried| format!("  {tried}")).collect::<Vec<_>>().join("\n")
    )]
    Unknown {
        /// Which.
        log: String,
        /// What was tried.
        tried: Vec<Tried>,
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

/// Takes logs in.
///
/// # Errors
/// If a log or table cannot be opened or recognised (before anything is read), and if memory or the
/// disk for what does not fit in it runs out.
pub fn take_in(intake: &Intake, progress: &dyn Progress) -> Result<TakenIn, IntakeError> {
    let memory = intake.memory_bound()?;
    if intake.logs.is_empty() {
        return Err(IntakeError::NoLogs);
    }
    let logs = logs::open(intake)?;
    let read = worker::read_all(intake, &memory, &logs, progress)?;
    finish::finish(intake, memory, logs, read)
}

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
