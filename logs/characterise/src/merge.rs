//! How sums of one part of a log take in those of another.

use alloc::vec::Vec;

/// Sums to which those of another part of the log can be added. They are whole numbers, so the
/// order in which parts are added does not matter.
pub trait Merge {
    /// Adds the other part's.
    fn merge(&mut self, other: Self);
}

macro_rules! merge_numbers {
    ($($number:ty),*) => {
        $(impl Merge for $number {
            fn merge(&mut self, other: Self) {
                *self += other;
            }
        })*
    };
}

merge_numbers!(u32, u64, u128);

impl Merge for bool {
    fn merge(&mut self, other: Self) {
        *self |= other;
    }
}

impl<T: Merge, const N: usize> Merge for [T; N] {
    fn merge(&mut self, other: Self) {
        for (mine, other) in self.iter_mut().zip(other) {
            mine.merge(other);
        }
    }
}

/// The shorter list counts as if it went on with nothing.
impl<T: Merge> Merge for Vec<T> {
    fn merge(&mut self, other: Self) {
        let mut other = other.into_iter();
        for mine in self.iter_mut() {
            match other.next() {
                Some(other) => mine.merge(other),
                None => return,
            }
        }
        self.extend(other);
    }
}

impl Merge for headlong_chains::Lengths {
    fn merge(&mut self, other: Self) {
        self.merge(other);
    }
}

/// Implements [`Merge`] field by field. It names every field, those behind `same` being alike in all
/// parts, so that the compiler refuses one that was forgotten.
macro_rules! merge_fields {
    ($name:ident { $($sum:ident),* $(; same $($same:ident),*)? }) => {
        impl $crate::merge::Merge for $name {
            fn merge(&mut self, other: Self) {
                let Self { $($sum,)* $($($same: _,)*)? } = other;
                $($crate::merge::Merge::merge(&mut self.$sum, $sum);)*
            }
        }
    };
}

pub(crate) use merge_fields;
