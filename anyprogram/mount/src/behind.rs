//! What programs have gone past in large files: the kernel keeps a bounded part of it.
//!
//! The one idea: bytes that a program has read lie in the mount's memory and in the kernel's page
//! cache. The kernel evicts by age, but what a socket was given by `sendfile` cannot go before it is
//! sent: in a small control group it then looks at those pages again and again, and evicts what it
//! read ahead a moment ago. So the oldest of what programs have gone past is taken out of the page
//! cache before the kernel has to look for room; a socket's bytes go as soon as they are sent.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// What a pipe holds that a socket did not take, twice.
const PIPE_BYTES: u64 = 128 << 10;
/// So much is dropped at a time.
const PART_BYTES: u64 = 1 << 20;
/// Parts that are remembered; the oldest of more are left to the kernel.
const PARTS_MAX: usize = 65_536;

/// Bytes of a node's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) node: u64,
    pub(crate) bytes: Range<u64>,
}

/// What one opening of a file was handed and has not gone past.
#[derive(Debug, Default)]
pub(crate) struct Handed(Mutex<Range<u64>>);

/// What all have gone past, the oldest first.
#[derive(Debug)]
pub(crate) struct Behind {
    bytes_max: u64,
    /// What a reader has just been handed it may still read, or ask for again.
    margin_bytes: u64,
    passed: Mutex<Passed>,
}

#[derive(Debug, Default)]
struct Passed {
    parts: VecDeque<Part>,
    bytes: u64,
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
        Self {
            bytes_max,
            margin_bytes: 2 * read_ahead_bytes + PIPE_BYTES,
            passed: Mutex::default(),
        }
    }

    /// A reader was handed bytes: what is to be dropped for it.
    pub(crate) fn handed(&self, node: u64, handed: &Handed, more: Range<u64>) -> Vec<Part> {
        let bytes = handed.more(more, self.margin_bytes);
        self.pass(Part { node, bytes })
    }

    /// A reader has closed its file.
    pub(crate) fn closed(&self, node: u64, handed: &Handed) -> Vec<Part> {
        let bytes = handed.all();
        self.pass(Part { node, bytes })
    }

    /// How much stays, as far as the kernel did not evict it.
    pub(crate) fn bytes(&self) -> u64 {
        let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        passed.bytes
    }

    fn pass(&self, part: Part) -> Vec<Part> {
        if part.bytes.is_empty() {
            return Vec::new();
        }
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        passed.bytes += part.bytes.end - part.bytes.start;
        passed.parts.push_back(part);
        let mut gone = Vec::new();
        while passed.bytes > self.bytes_max || passed.parts.len() > PARTS_MAX {
            let is_too_much = passed.bytes > self.bytes_max;
            let Some(oldest) = passed.parts.pop_front() else {
                break;
            };
            passed.bytes -= oldest.bytes.end - oldest.bytes.start;
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
        let bytes = at..4 * MIB;
        assert_eq!(rest, [Part { node: 7, bytes }]);
        assert!(behind.closed(7, &handed).is_empty());
    }

    #[test]
    fn so_much_stays_as_may() {
        let behind = behind(8 * MIB);
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
