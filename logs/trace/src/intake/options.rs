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

/// Memory that intake takes if nobody says how much, bytes.
const MEMORY_BYTES: u64 = 1 << 30;
/// The least that is left for all but reading, bytes.
const REST_BYTES_MIN: u64 = 48 << 20;
/// What a thread that reads takes, bytes: a block, what grows behind it, and what was carried over;
/// twice, for the doubling of vectors. Five kinds of names are remembered.
const THREAD_BYTES: u64 =
    (6 * BLOCK_BYTES + PARTS * PART_BUFFER_BYTES * 3 / 2 + 5 * Known::BYTES) as u64;

impl Default for Intake {
    fn default() -> Self {
        Self {
            logs: Vec::new(),
            files: None,
            format: None,
            session_field: None,
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

    /// Threads to read with if nobody says how many: one for each core, as far as they leave half
    /// of this memory for names and requests.
    pub fn threads_for(memory_bytes_max: u64) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        threads_that_fit(cores, memory_bytes_max)
    }

    /// The most memory this will take, told before anything is read.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_of_many_cores_keeps_half_of_the_memory_for_names_and_requests() {
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
            let bound = intake.memory_bound().expect("the default runs");
            assert!(
                bound.names >= names_min && bound.total() <= memory,
                "{bound}"
            );
        }
        assert_eq!(threads_that_fit(16, MEMORY_BYTES), 16);
    }
}
