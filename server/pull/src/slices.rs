//! Division of a title into slices.
//!
//! Invariant: slices are contiguous; all have the same size except the last, which may be shorter
//! but is never empty. An empty title has none.

use headlong_units::ByteRange;

/// Upper limit of slices per title, because the state of each is held in memory.
const SLICES_MAX: u64 = 1 << 20;

/// The slices of a title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slices {
    size_bytes: u64,
    slice_bytes: u64,
}

impl Slices {
    /// Divides a title of `size_bytes` into slices of `slice_bytes`; `None` if that gives too many
    /// slices, or if the slice size is zero.
    pub fn new(size_bytes: u64, slice_bytes: u64) -> Option<Self> {
        let is_fit = slice_bytes > 0 && size_bytes.div_ceil(slice_bytes) <= SLICES_MAX;
        is_fit.then_some(Self {
            size_bytes,
            slice_bytes,
        })
    }

    /// Number of slices.
    pub fn count(self) -> u32 {
        self.size_bytes.div_ceil(self.slice_bytes) as u32
    }

    /// The slice that contains an offset of the title.
    pub fn at(self, offset: u64) -> u32 {
        (offset / self.slice_bytes) as u32
    }

    /// The bytes of the title in a slice; empty if there is no such slice.
    pub fn range(self, index: u32) -> ByteRange {
        let start = u64::from(index).saturating_mul(self.slice_bytes);
        let end = start.saturating_add(self.slice_bytes).min(self.size_bytes);
        ByteRange::new(start.min(end), end)
    }

    /// The slices to prefetch for a reader of slice `index` that continues to the byte `until`: at
    /// most `ahead_bytes`. A reader that came from the previous slice is expected to continue
    /// further.
    pub fn ahead(self, index: u32, until: u64, ahead_bytes: u64, reads_on: bool) -> ByteRange {
        let wanted = match until.min(self.size_bytes) {
            0 => 0,
            until => self.at(until - 1) + 1,
        };
        let more = (ahead_bytes / self.slice_bytes) as u32;
        let further = index.saturating_add(1 + u32::from(reads_on));
        let end = wanted
            .max(further)
            .min(index.saturating_add(1).saturating_add(more))
            .min(self.count());
        let start = index.saturating_add(1).min(end);
        ByteRange::new(u64::from(start), u64::from(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn too_many_slices_or_zero_size_is_refused() {
        assert!(Slices::new(u64::MAX, 1).is_none());
        assert!(Slices::new(1, 0).is_none());
        assert_eq!(Slices::new(0, 5).map(Slices::count), Some(0));
    }

    #[test]
    fn prefetch_is_limited_by_request_and_setting() {
        let slices = Slices::new(100, 10).expect("few");
        let ahead = |index, until, bytes, on| slices.ahead(index, until, bytes, on);
        assert_eq!(ahead(2, 25, 30, false), ByteRange::new(3, 3));
        assert_eq!(ahead(2, 25, 30, true), ByteRange::new(3, 4));
        assert_eq!(ahead(2, 100, 30, true), ByteRange::new(3, 6));
        assert_eq!(ahead(9, 100, 30, true), ByteRange::new(10, 10));
        assert_eq!(ahead(2, 100, 9, true), ByteRange::new(3, 3));
    }

    proptest! {
        #[test]
        fn slices_cover_a_title_without_a_gap(size in 0_u64..5000, slice in 1_u64..300) {
            let slices = Slices::new(size, slice).expect("few");
            let mut at = 0;
            for index in 0..slices.count() {
                let range = slices.range(index);
                prop_assert_eq!(range.start, at);
                prop_assert!(!range.is_empty() && range.len() <= slice);
                prop_assert_eq!(slices.at(range.start), index);
                prop_assert_eq!(slices.at(range.end - 1), index);
                at = range.end;
            }
            prop_assert_eq!(at, size);
            prop_assert!(slices.range(slices.count()).is_empty());
        }
    }
}
