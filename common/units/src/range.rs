//! Half-open ranges of bytes.

use serde::{Deserialize, Serialize};

/// The bytes `start..end`, `end` excluded. Its written form is `[start, end]`, or
/// `[start, null]` if it ends at `u64::MAX`: to the end of a file.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "(u64, Option<u64>)", into = "(u64, Option<u64>)")]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte; never less than `start`.
    pub end: u64,
}

impl ByteRange {
    /// The bytes from `start` up to `end`, exclusive; empty if `end` is less than `start`.
    pub const fn new(start: u64, end: u64) -> Self {
        Self {
            start,
            end: if end < start { start } else { end },
        }
    }

    /// The number of bytes.
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether the range is empty.
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The bytes in both ranges; if there are none, an empty range at the start of this one.
    pub fn intersection(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        let end = self.end.min(other.end);
        if start < end {
            Self { start, end }
        } else {
            Self {
                start: self.start,
                end: self.start,
            }
        }
    }

    /// Whether the two overlap or are adjacent.
    pub const fn touches(self, other: Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// Whether `offset` is in the range.
    pub const fn contains(self, offset: u64) -> bool {
        self.start <= offset && offset < self.end
    }
}

impl TryFrom<(u64, Option<u64>)> for ByteRange {
    type Error = &'static str;

    fn try_from((start, end): (u64, Option<u64>)) -> Result<Self, Self::Error> {
        let end = end.unwrap_or(u64::MAX);
        let error = "a range ends before it begins; write [FIRST, LAST + 1]";
        (start < end).then_some(Self { start, end }).ok_or(error)
    }
}

impl From<ByteRange> for (u64, Option<u64>) {
    fn from(range: ByteRange) -> Self {
        (range.start, (range.end < u64::MAX).then_some(range.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_ranges_touch_but_do_not_intersect() {
        let (left, right) = (ByteRange::new(0, 10), ByteRange::new(10, 20));
        assert!(left.touches(right) && right.touches(left));
        assert!(left.intersection(right).is_empty());
        assert!(!left.touches(ByteRange::new(11, 20)));
    }
}
