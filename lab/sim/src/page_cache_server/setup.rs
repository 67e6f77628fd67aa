//! Settings of a vanilla server and its kernel.

use headlong_units::{Duration, GIB, KIB};

use super::cache::CacheKind;
use super::elevator::Scheduler;

/// File access method of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum AccessMethod {
    /// `sendfile`: sixteen pages at a time, the capacity of a pipe.
    #[default]
    Sendfile,
    /// `read` into a buffer of this size.
    Read(u64),
    /// Memory mapping.
    Mapped,
}

/// A vanilla server with its kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct PageCacheServerSetup {
    /// Memory for the page cache.
    pub memory_bytes: u64,
    /// `read_ahead_kb`, in bytes.
    pub read_ahead_bytes: u64,
    /// `max_sectors_kb`, in bytes.
    pub request_bytes_max: u64,
    /// I/O scheduler.
    pub scheduler: Scheduler,
    /// Age at which a queued request expires: half a second.
    pub expires: Duration,
    /// Requests that the device accepts at once: 32 of a disk with its own queue; 128 of a loop
    /// device.
    pub tags: u32,
    /// Processes, each with its own connections.
    pub workers: u32,
    /// Threads of each process that read files: 1 for a process that blocks.
    pub threads: u32,
    /// File access method.
    pub access: AccessMethod,
    /// Replacement policy of the page cache.
    pub cache: CacheKind,
    /// Unsent bytes that a socket accepts; autotuned from the link, as in the kernel, if `None`.
    pub socket_bytes: Option<u64>,
}

impl Default for PageCacheServerSetup {
    /// nginx with `sendfile` and `aio threads`, on Linux with default settings.
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
            access: AccessMethod::Sendfile,
            cache: CacheKind::default(),
            socket_bytes: None,
        }
    }
}
