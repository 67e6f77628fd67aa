//! How a title is cut.
//!
//! Invariant: slices follow one another without a gap; all have the same size but the last, which
//! is shorter and never empty. An empty title has none.

use headlong_units::ByteRange;

/// Most slices of one title: what is remembered of each is held in memory.
const SLICES_MAX: u64 = 1 << 20;

/// The slices of a title of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slices {
    size_bytes: u64,
    slice_bytes: u64,
}

impl Slices {
    /// A title of `size_bytes` in slices of `slice_bytes`; `None` if they are too many, or of no size.
    pub fn new(size_bytes: u64, slice_bytes: u64) -> Option<Self> {
        let is_fit = slice_bytes > 0 && size_bytes.div_ceil(slice_bytes) <= SLICES_MAX;
        is_fit.then_some(Self {
            size_bytes,
            slice_bytes,
        })
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        self.size_bytes.div_ceil(self.slice_bytes) as u32
    }

    /// The one that holds this byte of the title.
    pub fn at(self, offset: u64) -> u32 {
        (offset / self.slice_bytes) as u32
    }

    /// Which bytes of the title it holds; none of one that is not there.
    pub fn range(self, index: u32) -> ByteRange {
        let start = u64::from(index).saturating_mul(self.slice_bytes);
        let end = start.saturating_add(self.slice_bytes).min(self.size_bytes);
        ByteRange::new(start.min(end), end)
    }

    /// Which are to be fetched ahead for who reads slice `index` and goes on to the byte `until`: as
    /// many as `ahead_bytes` hold. Who reads on from the slice before is thought to go on further.
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
    fn a_title_of_too_many_slices_or_slices_of_nothing_is_refused() {
        assert!(Slices::new(u64::MAX, 1).is_none());
        assert!(Slices::new(1, 0).is_none());
        assert_eq!(Slices::new(0, 5).map(Slices::count), Some(0));
    }

    #[test]
    fn as_many_are_fetched_ahead_as_are_asked_for_and_as_fit() {
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
