//! Input: the size of a file on the first line, then the value of a `range` field.

use headlong_http::{ByteRangeSet, RangeLimits, RangeSelection};

use crate::input::{number, split_line};

/// Selected ranges lie within the file, are not empty, and do not overlap.
pub fn run(data: &[u8]) {
    let (size, value) = split_line(data);
    let size = number(size);
    let Ok(value) = str::from_utf8(value) else {
        return;
    };
    let limits = RangeLimits { ranges_max: 8 };
    let Some(set) = ByteRangeSet::parse(value, &limits) else {
        return;
    };
    let RangeSelection::Ranges(selected) = set.select(size) else {
        return;
    };
    assert!(!selected.is_empty() && selected.len() <= limits.ranges_max);
    for (index, one) in selected.iter().enumerate() {
        assert!(one.range.start < one.range.end && one.range.end <= size);
        for other in &selected[index + 1..] {
            assert!(!one.range.touches(other.range));
        }
    }
}
