//! Residency check: whether bytes of a file are in memory.
//!
//! `cachestat` answers for a whole range, but since Linux 6.16 only for files that the process may
//! write. Otherwise, as for nginx's workers, the daemon is asked: it knows which bytes it holds.
//! `RWF_NOWAIT` would answer too, but on a miss it makes the kernel read that place at once, which
//! interrupts the disk's other work. Without a daemon, one byte in every [`STRIDE`] is probed that
//! way; where `RWF_NOWAIT` is unsupported, `mincore` of a mapping is used.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::raw::sys::{self, ResidencyError};

/// The kernel loads and drops neighbouring pages together: one byte in this many is probed.
const STRIDE: u64 = 128 << 10;

/// Query methods; the first that works is used. Without any, everything is assumed to be in memory.
const CACHESTAT: u8 = 0;
const NOWAIT: u8 = 1;
const MINCORE: u8 = 2;
const NONE: u8 = 3;

static WAY: AtomicU8 = AtomicU8::new(CACHESTAT);

/// Restricts queries to calls that every seccomp filter allows.
pub(crate) fn be_careful() {
    WAY.fetch_max(NOWAIT, Relaxed);
}

/// Whether the kernel cannot report residency without reading.
pub(crate) fn is_untold() -> bool {
    WAY.load(Relaxed) != CACHESTAT
}

/// Whether all bytes are in memory; the range is not empty and lies inside the file. `None` if
/// residency cannot be queried. With a daemon (`is_helped`), unknown counts as not resident.
pub(crate) fn is_resident(fd: i32, start: u64, end: u64, is_helped: bool) -> Option<bool> {
    let way = WAY.load(Relaxed);
    if way == CACHESTAT {
        match sys::cached_pages(fd, start, end - start) {
            Ok(pages) => {
                let page = sys::PAGE_BYTES;
                return Some(pages >= end.div_ceil(page) - start / page);
            }
            // A program without permission for one file rarely has it for others.
            Err(ResidencyError::NotAllowed | ResidencyError::Unknown) => WAY.store(NOWAIT, Relaxed),
            Err(ResidencyError::Other) => return None,
        }
    }
    if is_helped {
        return Some(false);
    }
    if way <= NOWAIT {
        match is_sampled(fd, start, end) {
            Err(ResidencyError::Unknown | ResidencyError::NotAllowed) => {
                WAY.store(MINCORE, Relaxed)
            }
            Err(ResidencyError::Other) => return None,
            Ok(answer) => return Some(answer),
        }
    }
    if way < NONE {
        match sys::mapped_resident(fd, start, end - start) {
            Some(answer) => return Some(answer),
            None => WAY.store(NONE, Relaxed),
        }
    }
    None
}

/// Probes from the end to the start, so that the kernel records the start as the last read
/// position: the program's own read there is sequential, and gets the usual readahead.
fn is_sampled(fd: i32, start: u64, end: u64) -> Result<bool, ResidencyError> {
    let mut at = end - 1;
    loop {
        if !sys::reads_at_once(fd, at)? {
            return Ok(false);
        }
        if at == start {
            return Ok(true);
        }
        at = at.saturating_sub(STRIDE).max(start);
    }
}
