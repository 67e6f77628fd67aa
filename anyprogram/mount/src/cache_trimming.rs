//! Page-cache trimming: bounds how much of large files the kernel keeps after programs have read
//! past it.
//!
//! Bytes that a program has read lie both in the mount's memory and in the kernel's page cache. The
//! kernel evicts by age, but pages handed to a socket by `sendfile` cannot be evicted until they
//! are sent: in a small control group it scans them repeatedly, and evicts recent readahead
//! instead. Therefore the oldest bytes behind readers are dropped from the page cache before the
//! kernel runs short of memory; pages of a socket are dropped once they are sent.
//!
//! Readahead of a reader that closes its file is kept separately: a player asks for it within
//! seconds, through a new open. Dropping it costs a single small request for each piece, and a seek
//! for each piece that has left the mount's memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Twice the bytes in a pipe that a socket has not accepted.
const PIPE_BYTES: u64 = 128 << 10;
/// Bytes dropped at a time.
const PART_BYTES: u64 = 1 << 20;
/// Ranges remembered; the oldest beyond them are left to the kernel.
const PARTS_MAX: usize = 65_536;
/// Divisor of the limit: this share is for bytes behind readers, the rest for readahead at close.
const PASSED_PART: u64 = 4;

/// A byte range of a node's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeRange {
    pub(crate) node: u64,
    pub(crate) bytes: Range<u64>,
}

/// The range that one open file was handed and has not read past.
#[derive(Debug, Default)]
pub(crate) struct UnreadRange(Mutex<Range<u64>>);

/// Bytes behind all readers, and the readahead of those that closed their files.
#[derive(Debug)]
pub(crate) struct CacheTrimmer {
    /// Recently handed bytes that a reader may still read or request again.
    margin_bytes: u64,
    /// The kernel's readahead beyond a reader.
    ahead_bytes: u64,
    passed: Mutex<RangeQueue>,
    ends: Mutex<RangeQueue>,
}

/// Ranges in order of age, oldest first.
#[derive(Debug)]
struct RangeQueue {
    parts: VecDeque<NodeRange>,
    bytes: u64,
    bytes_max: u64,
}

impl UnreadRange {
    /// Adds a handed range; returns the range that the reader has read past.
    fn more(&self, more: Range<u64>, margin_bytes: u64) -> Range<u64> {
        let mut handed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The kernel's readahead windows may be answered in any order.
        let from = handed.start.saturating_sub(margin_bytes);
        if !(from..=handed.end + margin_bytes).contains(&more.start) {
            return std::mem::replace(&mut handed, more);
        }
        handed.start = handed.start.min(more.start);
        handed.end = handed.end.max(more.end);
        let mut passed = handed.start..handed.end.saturating_sub(margin_bytes);
        if passed.end < handed.start + PART_BYTES {
            passed.end = passed.start;
        }
        handed.start = passed.end;
        passed
    }

    fn all(&self) -> Range<u64> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CacheTrimmer {
    /// `bytes_max` may stay in the page cache; the kernel reads `read_ahead_bytes` ahead of each
    /// reader.
    pub(crate) fn new(bytes_max: u64, read_ahead_bytes: u64) -> Self {
        let passed_bytes_max = bytes_max / PASSED_PART;
        Self {
            margin_bytes: 2 * read_ahead_bytes + PIPE_BYTES,
            ahead_bytes: 2 * read_ahead_bytes,
            passed: Mutex::new(RangeQueue::new(passed_bytes_max)),
            ends: Mutex::new(RangeQueue::new(bytes_max - passed_bytes_max)),
        }
    }

    /// A reader was handed bytes. Returns the ranges to drop.
    pub(crate) fn handed(
        &self,
        node: u64,
        handed: &UnreadRange,
        more: Range<u64>,
    ) -> Vec<NodeRange> {
        let bytes = handed.more(more, self.margin_bytes);
        lock(&self.passed).push(NodeRange { node, bytes })
    }

    /// A reader has closed its file. Returns the ranges to drop.
    pub(crate) fn closed(&self, node: u64, handed: &UnreadRange) -> Vec<NodeRange> {
        let all = handed.all();
        let end = all.end.saturating_sub(self.ahead_bytes).max(all.start);
        let (passed, ahead) = (all.start..end, end..all.end);
        let part = |bytes| NodeRange { node, bytes };
        let mut gone = lock(&self.passed).push(part(passed));
        gone.extend(lock(&self.ends).push(part(ahead)));
        gone
    }

    /// Bytes kept, unless the kernel has evicted them.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.passed).bytes + lock(&self.ends).bytes
    }
}

fn lock(kept: &Mutex<RangeQueue>) -> MutexGuard<'_, RangeQueue> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RangeQueue {
    fn new(bytes_max: u64) -> Self {
        Self {
            parts: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Adds a range; returns the ranges to drop.
    fn push(&mut self, part: NodeRange) -> Vec<NodeRange> {
        if part.bytes.is_empty() {
            return Vec::new();
        }
        self.bytes += part.bytes.end - part.bytes.start;
        self.parts.push_back(part);
        let mut gone = Vec::new();
        while self.bytes > self.bytes_max || self.parts.len() > PARTS_MAX {
            let is_too_much = self.bytes > self.bytes_max;
            let Some(oldest) = self.parts.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes.end - oldest.bytes.start;
            if is_too_much {
                gone.push(oldest);
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    fn behind(bytes_max: u64) -> CacheTrimmer {
        CacheTrimmer::new(bytes_max, 64 * KIB)
    }

    /// Reads a file in windows; returns the dropped ranges.
    fn read(
        behind: &CacheTrimmer,
        node: u64,
        handed: &UnreadRange,
        bytes: Range<u64>,
    ) -> Vec<NodeRange> {
        let windows = bytes.step_by(64 << 10);
        let read = |at| behind.handed(node, handed, at..at + 64 * KIB);
        windows.flat_map(read).collect()
    }

    #[test]
    fn drops_oldest_range_but_not_recently_handed_bytes() {
        let behind = behind(0);
        let handed = UnreadRange::default();
        let gone = read(&behind, 7, &handed, 0..4 * MIB);
        let end = gone.last().expect("dropped").bytes.end;
        let most = 4 * MIB - behind.margin_bytes;
        assert!((most - PART_BYTES..=most).contains(&end), "{end}");
        let mut at = 0;
        for part in gone {
            assert_eq!((part.node, part.bytes.start), (7, at));
            at = part.bytes.end;
        }
        let rest = behind.closed(7, &handed);
        let bytes = rest.iter().map(|part| part.bytes.clone());
        let end = 4 * MIB - 128 * KIB;
        assert_eq!(bytes.collect::<Vec<_>>(), [at..end, end..4 * MIB]);
        assert!(behind.closed(7, &handed).is_empty());
    }

    #[test]
    fn keeps_as_much_as_the_limit_allows() {
        let behind = behind(32 * MIB);
        let readers: Vec<UnreadRange> = (0..4).map(|_| UnreadRange::default()).collect();
        let mut gone = Vec::new();
        for at in (0..8 * MIB).step_by(64 << 10) {
            for (node, handed) in (0..).zip(&readers) {
                gone.extend(behind.handed(node, handed, at..at + 64 * KIB));
            }
            assert!(behind.bytes() <= 8 * MIB);
        }
        let first: Vec<u64> = gone.iter().take(4).map(|part| part.node).collect();
        assert_eq!(first, [0, 1, 2, 3], "oldest of all readers");
    }

    #[test]
    fn readahead_at_close_outlives_bytes_behind_readers() {
        let behind = behind(8 * MIB);
        let mut gone = Vec::new();
        let dropped = |gone: &[NodeRange], node: u64| {
            let parts = gone.iter().filter(|part| part.node == node);
            parts.map(|part| part.bytes.end).max().unwrap_or(0)
        };
        // Players that open their file anew for each 512 KiB.
        for node in 0..40 {
            let handed = UnreadRange::default();
            gone.extend(read(&behind, node, &handed, 0..512 * KIB));
            gone.extend(behind.closed(node, &handed));
        }
        assert_eq!(dropped(&gone, 0), 384 * KIB, "readahead at the end stays");
        for node in 40..80 {
            let handed = UnreadRange::default();
            gone.extend(read(&behind, node, &handed, 0..512 * KIB));
            gone.extend(behind.closed(node, &handed));
        }
        assert_eq!(dropped(&gone, 0), 512 * KIB);
        assert!(behind.bytes() <= 8 * MIB);
    }

    #[test]
    fn windows_in_any_order_merge_and_jump_drops_all() {
        let behind = behind(0);
        let handed = UnreadRange::default();
        for window in [1, 0, 3, 2] {
            let at = window * 64 * KIB;
            assert!(behind.handed(1, &handed, at..at + 64 * KIB).is_empty());
        }
        let gone = behind.handed(1, &handed, 90 * MIB..90 * MIB + 4096);
        assert_eq!(gone.len(), 1);
        assert_eq!(gone[0].bytes, 0..256 * KIB);
    }

    #[test]
    fn remembered_ranges_are_limited() {
        let behind = behind(u64::MAX);
        let handed = UnreadRange::default();
        for number in 0..PARTS_MAX as u64 + 10 {
            let at = number * MIB;
            assert!(behind.handed(1, &handed, at..at + 4096).is_empty());
        }
        assert_eq!(behind.bytes(), PARTS_MAX as u64 * 4096);
    }
}
