//! What programs have gone past in large files: the kernel keeps a bounded part of it.
//!
//! The one idea: bytes that a program has read lie in the mount's memory and in the kernel's page
//! cache. The kernel evicts by age, but what a socket was given by `sendfile` cannot go before it is
//! sent: in a small control group it then looks at those pages again and again, and evicts what it
//! read ahead a moment ago. So the oldest of what programs have gone past is taken out of the page
//! cache before the kernel has to look for room; a socket's bytes go as soon as they are sent.
//!
//! What the kernel read ahead of a reader who then closed the file is not behind him: a player asks for
//! it within seconds, by an opening of its own. It stays for as long as others need more room for such
//! ends. If it does not, it is asked for again one by one, and where it has left the mount's memory each
//! is a move of the disk's arm.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a pipe holds that a socket did not take, twice.
const PIPE_BYTES: u64 = 128 << 10;
/// So much is dropped at a time.
const PART_BYTES: u64 = 1 << 20;
/// Parts that are remembered; the oldest of more are left to the kernel.
const PARTS_MAX: usize = 65_536;
/// Of what may stay, one in so many bytes is for what was gone past, and the rest for ends.
const PASSED_PART: u64 = 4;

/// Bytes of a node's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) node: u64,
    pub(crate) bytes: Range<u64>,
}

/// What one opening of a file was handed and has not gone past.
#[derive(Debug, Default)]
pub(crate) struct Handed(Mutex<Range<u64>>);

/// What all have gone past, and what was read ahead of those who closed their files.
#[derive(Debug)]
pub(crate) struct Behind {
    /// What a reader has just been handed it may still read, or ask for again.
    margin_bytes: u64,
    /// What the kernel reads ahead of a reader.
    ahead_bytes: u64,
    passed: Mutex<Kept>,
    ends: Mutex<Kept>,
}

/// Parts, the oldest first.
#[derive(Debug)]
struct Kept {
    parts: VecDeque<Part>,
    bytes: u64,
    bytes_max: u64,
}

impl Handed {
    /// More was handed: what the reader has gone past by that.
    fn more(&self, more: Range<u64>, margin_bytes: u64) -> Range<u64> {
        let mut handed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The kernel's windows may be answered in any order.
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

impl Behind {
    /// Of which so much may stay. The kernel reads so far ahead of each reader.
    pub(crate) fn new(bytes_max: u64, read_ahead_bytes: u64) -> Self {
        let passed_bytes_max = bytes_max / PASSED_PART;
        Self {
            margin_bytes: 2 * read_ahead_bytes + PIPE_BYTES,
            ahead_bytes: 2 * read_ahead_bytes,
            passed: Mutex::new(Kept::new(passed_bytes_max)),
            ends: Mutex::new(Kept::new(bytes_max - passed_bytes_max)),
        }
    }

    /// A reader was handed bytes: what is to be dropped for it.
    pub(crate) fn handed(&self, node: u64, handed: &Handed, more: Range<u64>) -> Vec<Part> {
        let bytes = handed.more(more, self.margin_bytes);
        lock(&self.passed).keep(Part { node, bytes })
    }

    /// A reader has closed its file: what is to be dropped for it.
    pub(crate) fn closed(&self, node: u64, handed: &Handed) -> Vec<Part> {
        let all = handed.all();
        let end = all.end.saturating_sub(self.ahead_bytes).max(all.start);
        let (passed, ahead) = (all.start..end, end..all.end);
        let part = |bytes| Part { node, bytes };
        let mut gone = lock(&self.passed).keep(part(passed));
        gone.extend(lock(&self.ends).keep(part(ahead)));
        gone
    }

    /// How much stays, as far as the kernel did not evict it.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.passed).bytes + lock(&self.ends).bytes
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    fn new(bytes_max: u64) -> Self {
        Self {
            parts: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// One more; what is to be dropped for it.
    fn keep(&mut self, part: Part) -> Vec<Part> {
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

    fn behind(bytes_max: u64) -> Behind {
        Behind::new(bytes_max, 64 * KIB)
    }

    /// Reads a file in windows, and tells what is to be dropped.
    fn read(behind: &Behind, node: u64, handed: &Handed, bytes: Range<u64>) -> Vec<Part> {
        let windows = bytes.step_by(64 << 10);
        let read = |at| behind.handed(node, handed, at..at + 64 * KIB);
        windows.flat_map(read).collect()
    }

    #[test]
    fn the_oldest_goes_and_never_what_a_reader_was_just_handed() {
        let behind = behind(0);
        let handed = Handed::default();
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
    fn so_much_stays_as_may() {
        let behind = behind(32 * MIB);
        let readers: Vec<Handed> = (0..4).map(|_| Handed::default()).collect();
        let mut gone = Vec::new();
        for at in (0..8 * MIB).step_by(64 << 10) {
            for (node, handed) in (0..).zip(&readers) {
                gone.extend(behind.handed(node, handed, at..at + 64 * KIB));
            }
            assert!(behind.bytes() <= 8 * MIB);
        }
        let first: Vec<u64> = gone.iter().take(4).map(|part| part.node).collect();
        assert_eq!(first, [0, 1, 2, 3], "the oldest of all");
    }

    #[test]
    fn what_was_read_ahead_of_a_reader_who_closes_his_file_outlives_what_he_has_gone_past() {
        let behind = behind(8 * MIB);
        let mut gone = Vec::new();
        let dropped = |gone: &[Part], node: u64| {
            let parts = gone.iter().filter(|part| part.node == node);
            parts.map(|part| part.bytes.end).max().unwrap_or(0)
        };
        // Players that open their file for each half of a mebibyte.
        for node in 0..40 {
            let handed = Handed::default();
            gone.extend(read(&behind, node, &handed, 0..512 * KIB));
            gone.extend(behind.closed(node, &handed));
        }
        assert_eq!(dropped(&gone, 0), 384 * KIB, "its end stays");
        for node in 40..80 {
            let handed = Handed::default();
            gone.extend(read(&behind, node, &handed, 0..512 * KIB));
            gone.extend(behind.closed(node, &handed));
        }
        assert_eq!(dropped(&gone, 0), 512 * KIB);
        assert!(behind.bytes() <= 8 * MIB);
    }

    #[test]
    fn windows_may_be_answered_in_any_order_and_a_jump_leaves_all_behind() {
        let behind = behind(0);
        let handed = Handed::default();
        for window in [1, 0, 3, 2] {
            let at = window * 64 * KIB;
            assert!(behind.handed(1, &handed, at..at + 64 * KIB).is_empty());
        }
        let gone = behind.handed(1, &handed, 90 * MIB..90 * MIB + 4096);
        assert_eq!(gone.len(), 1);
        assert_eq!(gone[0].bytes, 0..256 * KIB);
    }

    #[test]
    fn no_more_parts_are_remembered_than_may_be() {
        let behind = behind(u64::MAX);
        let handed = Handed::default();
        for number in 0..PARTS_MAX as u64 + 10 {
            let at = number * MIB;
            assert!(behind.handed(1, &handed, at..at + 4096).is_empty());
        }
        assert_eq!(behind.bytes(), PARTS_MAX as u64 * 4096);
    }
}
