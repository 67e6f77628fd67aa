//! Options of intake, its memory limits, and the receiver of its progress.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::IntakeError;
use crate::number_cache::NumberCache;
use crate::partitions::PARTS;
use crate::read::source::BLOCK_BYTES;
use crate::read::{Format, TrustedProxies};

/// Bytes that a thread buffers for a partition before storing them.
pub(crate) const PART_BUFFER_BYTES: usize = 16 << 10;

/// The logs to read, and the options of reading them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intake {
    /// Logs; `-` is standard input. Compressed logs (gzip, zstd) are decompressed while reading.
    pub logs: Vec<PathBuf>,
    /// Name of the only log in messages and reports, if not its path.
    pub name: Option<String>,
    /// The files table: `file,title,kind,kbps,size,disk,duration_s`, of which only `file` is
    /// required.
    pub files: Option<PathBuf>,
    /// `None`: each log's format is recognised by its first lines.
    pub format: Option<Format>,
    /// The lines by which the format is recognised, if these are not the first of the log, as for a
    /// part of one.
    pub head: Option<Vec<u8>>,
    /// The variable, column, key or header that identifies the session, if it has no known name.
    pub session_field: Option<String>,
    /// The proxies whose lists of clients' addresses are believed.
    pub trusted: TrustedProxies,
    /// A viewer identified by address and user agent alone starts a new session after this time
    /// without requests.
    pub session_idle: Duration,
    /// Memory limit of intake and partitions, bytes.
    pub memory_bytes_max: u64,
    /// Whether bit rates and sizes missing in the files table are estimated from usage, which takes
    /// another pass over all requests.
    pub estimates: bool,
    /// Whether devices and drives are recorded; chains are the same without them.
    pub devices_and_drives: bool,
    /// Whether partial requests without an offset are kept for statistics that need no offsets;
    /// otherwise they are dropped.
    pub keep_unplaced: bool,
    /// Rule for titles: a regular expression on file names whose first group is the title; `None`,
    /// or a name that it does not match: manifests, names and types decide.
    pub title_rule: Option<String>,
    /// Lines to read from each log; `None`: all.
    pub lines_max: Option<u64>,
    /// Reader threads.
    pub threads: usize,
    /// Folder for spilled data; `None`: the folder for temporary files.
    pub spill: Option<PathBuf>,
}

/// Default memory limit of intake, bytes.
const MEMORY_BYTES: u64 = 1 << 30;
/// Least memory left for everything except reading, bytes.
const REST_BYTES_MIN: u64 = 48 << 20;
/// Memory of a reader thread, bytes: a block, its growing remainder, and the carry-over; doubled
/// for the growth of vectors. Five kinds of names are cached.
const THREAD_BYTES: u64 =
    (6 * BLOCK_BYTES + PARTS * PART_BUFFER_BYTES * 3 / 2 + 5 * NumberCache::BYTES) as u64;

impl Default for Intake {
    fn default() -> Self {
        Self {
            logs: Vec::new(),
            name: None,
            files: None,
            format: None,
            head: None,
            session_field: None,
            trusted: TrustedProxies::default(),
            session_idle: Duration::from_secs(30 * 60),
            memory_bytes_max: MEMORY_BYTES,
            estimates: true,
            devices_and_drives: true,
            keep_unplaced: false,
            title_rule: None,
            lines_max: None,
            threads: Self::threads_for(MEMORY_BYTES),
            spill: None,
        }
    }
}

/// Memory limits of intake and partitions, bytes, by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBound {
    /// Blocks being parsed, and requests on their way to partitions.
    pub reading: u64,
    /// Names of sessions, files, titles, devices and drives.
    pub names: u64,
    /// Requests kept in partitions; further ones are spilled.
    pub kept: u64,
    /// Loaded partitions.
    pub loaded: u64,
}

impl MemoryBound {
    /// The sum.
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
    /// The name of the log at this path.
    pub(crate) fn name_of(&self, path: &Path) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None if path == Path::new("-") => "standard input".to_owned(),
            None => path.display().to_string(),
        }
    }

    /// Whether devices and drives are recorded: requests of two logs are duplicates only if they
    /// agree in everything.
    pub(super) fn looks_at_devices_and_drives(&self) -> bool {
        self.devices_and_drives || self.logs.len() > 1
    }

    /// Default number of reader threads: one per core, as long as half of this memory remains for
    /// names and requests.
    pub fn threads_for(memory_bytes_max: u64) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        threads_that_fit(cores, memory_bytes_max)
    }

    /// The memory limits, known before anything is read.
    pub fn memory_bound(&self) -> Result<MemoryBound, IntakeError> {
        let reading = self.threads.max(1) as u64 * THREAD_BYTES;
        let needed = reading + REST_BYTES_MIN;
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

fn threads_that_fit(cores: usize, memory_bytes_max: u64) -> usize {
    let rest = (memory_bytes_max / 2).max(REST_BYTES_MIN);
    let fitting = memory_bytes_max.saturating_sub(rest) / THREAD_BYTES;
    cores.min(fitting as usize).max(1)
}

/// Receiver of progress reports.
pub trait IntakeProgress: Sync {
    /// `bytes` of the logs have been read, as stored on disk, of a total (`None` if unknown).
    fn read(&self, bytes: u64, of: Option<u64>);
    /// A message to be shown at once.
    fn note(&self, note: &str);
}

/// Ignores all reports.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilentProgress;

impl IntakeProgress for SilentProgress {
    fn read(&self, _: u64, _: Option<u64>) {}
    fn note(&self, _: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cores_keep_half_of_the_memory_for_data() {
        for (memory, cores, names_min) in [
            (MEMORY_BYTES, 128, 128 << 20),
            (MEMORY_BYTES, 1024, 128 << 20),
            (64 << 20, 128, 12 << 20),
        ] {
            let intake = Intake {
                threads: threads_that_fit(cores, memory),
                memory_bytes_max: memory,
                ..Intake::default()
            };
            let bound = intake.memory_bound().expect("enough memory");
            assert!(
                bound.names >= names_min && bound.total() <= memory,
                "{bound}"
            );
        }
        assert_eq!(threads_that_fit(16, MEMORY_BYTES), 16);
    }
}
