//! What a vanilla server and its kernel are set to.

use headlong_units::{Duration, GIB, KIB};

use super::cache::CacheKind;
use super::elevator::Scheduler;

/// How a server gets at the bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Access {
    /// `sendfile`: sixteen pages at a time, as many as a pipe holds.
    #[default]
    Sendfile,
    /// Reading into a buffer of so many bytes.
    Read(u64),
    /// Mapping it into memory.
    Mapped,
}

/// A vanilla server with its kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct VanillaSetup {
    /// Memory for the page cache.
    pub memory_bytes: u64,
    /// `read_ahead_kb`, in bytes.
    pub read_ahead_bytes: u64,
    /// `max_sectors_kb`, in bytes.
    pub request_bytes_max: u64,
    /// I/O scheduler.
    pub scheduler: Scheduler,
    /// How long a request waits in it before it is expired: half a second.
    pub expires: Duration,
    /// Requests that the device takes at once: 32 of a disk with its own queue; 128 of a loop device.
    pub tags: u32,
    /// Processes, each with the connections that came to it.
    pub workers: u32,
    /// Threads of each process that read files: 1 of a process that blocks.
    pub threads: u32,
    /// How bytes of files are got at.
    pub access: Access,
    /// How the page cache works.
    pub cache: CacheKind,
    /// Bytes that a socket takes beyond those that have left; by the line, as the kernel does, if
    /// `None`.
    pub socket_bytes: Option<u64>,
}

impl Default for VanillaSetup {
    /// nginx with `sendfile` and `aio threads`, on Linux as it comes.
    fn default() -> Self {
        Self {
            memory_bytes: 4 * GIB,
            read_ahead_bytes: 128 * KIB,
            request_bytes_max: 1280 * KIB,
            scheduler: Scheduler::Deadline,
            expires: Duration::from_millis(500),
            tags: 32,
            workers: 2,
            threads: 64,
            access: Access::Sendfile,
            cache: CacheKind::default(),
            socket_bytes: None,
        }
    }
}
