//! Evaluation of a `range` field against the size of a file (RFC 9110 section 14).
//!
//! A client with an unusable range still wants the file: a malformed field, another unit, or too
//! many ranges are ignored, and the whole file is sent (14.2 permits this). Only well-formed ranges
//! that all lie beyond the end are refused.
//!
//! Invariants of the selection: no range is empty or exceeds the file, no two overlap or touch, and
//! they are in the order in which the client first requested any of their bytes.

use alloc::vec::Vec;

use headlong_units::ByteRange;

use crate::fields::trim_ows;

/// Limits of the ranges in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeLimits {
    /// With more ranges the field is ignored: many small ranges indicate a broken client or an
    /// attack (RFC 9110 17.15), and on a disk each may cost a seek.
    pub ranges_max: usize,
}

impl Default for RangeLimits {
    /// 16: PDF viewers, the heaviest legitimate users of multiple ranges, send fewer.
    fn default() -> Self {
        Self { ranges_max: 16 }
    }
}

/// Form of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeForm {
    /// `first-last`: a chunk, probably needed as a whole.
    Closed,
    /// `first-`: from there to the end; the client may stop anywhere (thesis 5.1).
    Open,
    /// `-length`: the end of the file, often an index.
    Suffix,
}

/// A range as written; numbers beyond 64 bits are `u64::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RangeSpec {
    Closed { first: u64, last: u64 },
    Open { first: u64 },
    Suffix { length: u64 },
}

/// A well-formed `bytes=` range set, independent of a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteRangeSet(Vec<RangeSpec>);

/// Bytes to send, and the form of their range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectedRange {
    /// Never empty, never beyond the end of the file.
    pub range: ByteRange,
    /// For merged ranges: [`RangeForm::Open`] if any was, otherwise that of the first.
    pub form: RangeForm,
}

/// Result of a range set for a file of a certain size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeSelection {
    /// The whole file, as without a range.
    Whole,
    /// These ranges, at least one.
    Ranges(Vec<SelectedRange>),
    /// No range overlaps the file: 416.
    Unsatisfiable,
}

impl ByteRangeSet {
    /// Parses the value of a `range` field; `None` if it must be ignored because it is malformed,
    /// uses a unit other than bytes, or has more ranges than `limits` allows.
    pub fn parse(value: &str, limits: &RangeLimits) -> Option<Self> {
        let (unit, set) = trim_ows(value).split_once('=')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let mut specs = Vec::new();
        // Empty list members must be accepted (RFC 9110 5.6.1.2).
        for member in set.split(',').map(trim_ows).filter(|m| !m.is_empty()) {
            if specs.len() >= limits.ranges_max {
                return None;
            }
            specs.push(RangeSpec::parse(member)?);
        }
        (!specs.is_empty()).then_some(Self(specs))
    }

    /// Selects bytes of a file of `size` bytes.
    ///
    /// An empty file has no byte that a `content-range` could name. A suffix of it is satisfied by
    /// the whole, empty file (14.1.2 calls every non-zero suffix satisfiable), and so is a range
    /// from its first byte on, as in nginx: a cache that fetches in slices asks for `0-N` before it
    /// knows the size. Any other range of it is unsatisfiable.
    pub fn select(&self, size: u64) -> RangeSelection {
        let takes_empty = |spec: &RangeSpec| match spec {
            RangeSpec::Suffix { length } => *length > 0,
            RangeSpec::Open { first } | RangeSpec::Closed { first, .. } => *first == 0,
        };
        if size == 0 && self.0.iter().any(takes_empty) {
            return RangeSelection::Whole;
        }
        let within = self.0.iter().filter_map(|spec| spec.resolve(size));
        let selected = coalesce(within.collect());
        if selected.is_empty() {
            RangeSelection::Unsatisfiable
        } else {
            RangeSelection::Ranges(selected)
        }
    }
}

impl RangeSpec {
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        match (first, last) {
            ("", length) => Some(Self::Suffix {
                length: number(length)?,
            }),
            (first, "") => Some(Self::Open {
                first: number(first)?,
            }),
            (first, last) => {
                let spec = Self::Closed {
                    first: number(first)?,
                    last: number(last)?,
                };
                // A range that ends before it begins is malformed (14.1.1), even if both ends
                // exceed 64 bits and would compare as equal.
                (!is_below(last, first)).then_some(spec)
            }
        }
    }

    fn resolve(self, size: u64) -> Option<SelectedRange> {
        let (range, form) = match self {
            Self::Closed { first, last } => {
                let end = last.saturating_add(1).min(size);
                (ByteRange::new(first, end), RangeForm::Closed)
            }
            Self::Open { first } => (ByteRange::new(first, size), RangeForm::Open),
            Self::Suffix { length } => {
                let start = size.saturating_sub(length);
                (ByteRange::new(start, size), RangeForm::Suffix)
            }
        };
        (!range.is_empty()).then_some(SelectedRange { range, form })
    }
}

/// One or more digits; a number beyond 64 bits counts as infinite.
fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

/// Compares two digit strings of any length as numbers.
fn is_below(left: &str, right: &str) -> bool {
    let left = left.trim_start_matches('0');
    let right = right.trim_start_matches('0');
    (left.len(), left) < (right.len(), right)
}

/// Merges ranges that overlap or touch (15.3.7.2 permits this), so no byte is read or sent twice.
fn coalesce(selected: Vec<SelectedRange>) -> Vec<SelectedRange> {
    if selected.len() < 2 {
        return selected;
    }
    let mut by_start: Vec<(usize, SelectedRange)> = selected.into_iter().enumerate().collect();
    by_start.sort_by_key(|(_, selected)| selected.range);
    let mut merged: Vec<(usize, SelectedRange)> = Vec::with_capacity(by_start.len());
    for (order, next) in by_start {
        match merged.last_mut() {
            Some((first_order, last)) if last.range.touches(next.range) => {
                last.range.end = last.range.end.max(next.range.end);
                last.form = match (last.form, next.form) {
                    (RangeForm::Open, _) | (_, RangeForm::Open) => RangeForm::Open,
                    (_, form) if order < *first_order => form,
                    (form, _) => form,
                };
                *first_order = order.min(*first_order);
            }
            _ => merged.push((order, next)),
        }
    }
    merged.sort_by_key(|(order, _)| *order);
    merged.into_iter().map(|(_, selected)| selected).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(value: &str, size: u64) -> RangeSelection {
        let set = ByteRangeSet::parse(value, &RangeLimits::default());
        set.map_or(RangeSelection::Whole, |set| set.select(size))
    }

    fn one(start: u64, end: u64, form: RangeForm) -> RangeSelection {
        let range = ByteRange::new(start, end);
        RangeSelection::Ranges(alloc::vec![SelectedRange { range, form }])
    }

    #[test]
    fn single_range_reports_its_form() {
        assert_eq!(select("bytes=2-5", 10), one(2, 6, RangeForm::Closed));
        assert_eq!(select("bytes=2-", 10), one(2, 10, RangeForm::Open));
        assert_eq!(select("bytes=-2", 10), one(8, 10, RangeForm::Suffix));
        assert_eq!(select("bytes=-20", 10), one(0, 10, RangeForm::Suffix));
    }

    #[test]
    fn merged_range_is_open_if_any_was() {
        assert_eq!(select("bytes=0-3,2-", 10), one(0, 10, RangeForm::Open));
        assert_eq!(select("bytes=5-,0-4", 10), one(0, 10, RangeForm::Open));
        assert_eq!(select("bytes=-4,0-6", 10), one(0, 10, RangeForm::Suffix));
        assert_eq!(select("bytes=0-6,-4", 10), one(0, 10, RangeForm::Closed));
    }
}
