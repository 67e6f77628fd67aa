//! Whether bytes of a file are in memory.
//!
//! `cachestat` answers for a range at once, but only who may write a file may ask (Linux 6.16).
//! Then, as for nginx's workers, it is the reception that is asked: it knows what it holds. A read
//! that waits for nothing (`RWF_NOWAIT`) would say so, too, but where nothing is there it has the
//! kernel read that place at once, and the disk leave what it was reading for others. Without a
//! reception one byte in every [`STRIDE`] is read so; where that does not exist, `mincore` of a
//! mapping.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::raw::sys::{self, Failed};

/// The kernel brings and drops neighbours together: of so many bytes, one is looked at.
const STRIDE: u64 = 128 << 10;

/// Ways to ask; the first that works is used. Of no way, everything is taken to be in memory.
const CACHESTAT: u8 = 0;
const NOWAIT: u8 = 1;
const MINCORE: u8 = 2;
const NONE: u8 = 3;

static WAY: AtomicU8 = AtomicU8::new(CACHESTAT);

/// Asks only by calls that every filter of system calls knows.
pub(crate) fn be_careful() {
    WAY.fetch_max(NOWAIT, Relaxed);
}

/// Whether the kernel does not say what is in memory without reading it.
pub(crate) fn is_untold() -> bool {
    WAY.load(Relaxed) != CACHESTAT
}

/// Whether all bytes are in memory; the range is not empty and inside the file. Of what cannot be
/// asked about, `None`. With a reception (`is_helped`), what the kernel does not say counts as not
/// there.
pub(crate) fn is_resident(fd: i32, start: u64, end: u64, is_helped: bool) -> Option<bool> {
    let way = WAY.load(Relaxed);
    if way == CACHESTAT {
        match sys::cached_pages(fd, start, end - start) {
            Ok(pages) => {
                let page = sys::PAGE_BYTES;
                return Some(pages >= end.div_ceil(page) - start / page);
            }
            // A program that may not ask about one file seldom may about others.
            Err(Failed::NotAllowed | Failed::Unknown) => WAY.store(NOWAIT, Relaxed),
            Err(Failed::Other) => return None,
        }
    }
    if is_helped {
        return Some(false);
    }
    if way <= NOWAIT {
        match is_sampled(fd, start, end) {
            Err(Failed::Unknown | Failed::NotAllowed) => WAY.store(MINCORE, Relaxed),
            Err(Failed::Other) => return None,
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

/// From the end to the start, which the kernel then takes for where the file was read last: what
/// the program reads there goes on from it, and is read ahead as it would have been.
fn is_sampled(fd: i32, start: u64, end: u64) -> Result<bool, Failed> {
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
