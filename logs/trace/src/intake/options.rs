//! What is taken in, how, and in how much memory.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::error::IntakeError;
use crate::known::Known;
use crate::parts::PARTS;
use crate::read::Format;
use crate::read::source::BLOCK_BYTES;

/// Bytes a part gathers on a thread before they are put away.
pub(super) const PART_BUFFER_BYTES: usize = 16 << 10;

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
    /// Whether requests for a part of a file that nothing places are taken in, for what needs no
    /// offsets; they are dropped otherwise.
    pub keep_unplaced: bool,
    /// What a title is called: a regular expression on names of files whose first group it is;
    /// `None`, or a name it does not fit: manifests, names and types decide.
    pub title_rule: Option<String>,
    /// Lines of each log to look at; `None`: all.
    pub lines_max: Option<u64>,
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
            keep_unplaced: false,
            title_rule: None,
            lines_max: None,
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
    pub(super) fn looks_at_devices_and_drives(&self) -> bool {
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
