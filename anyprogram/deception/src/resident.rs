//! Whether bytes of a file are in memory.
//!
//! `cachestat` answers for a range at once, but only who may write a file may ask (Linux 6.16).
//! Then one byte in every [`STRIDE`] is read if that needs no waiting (`RWF_NOWAIT`). Where neither
//! exists, `mincore` of a mapping.

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

/// Whether all bytes are in memory; the range is not empty and inside the file. Of what cannot be
/// asked about, `None`.
pub(crate) fn is_resident(fd: i32, start: u64, end: u64) -> Option<bool> {
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
