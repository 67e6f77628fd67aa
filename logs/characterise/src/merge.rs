//! Merging of sums over parts of a log.

use alloc::vec::Vec;

/// Sums that can be merged with those of another part of the log. They are integers, so the order
/// of merging does not matter.
pub trait Merge {
    /// Adds the sums of another part.
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

/// The shorter list is padded with zeros.
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

impl Merge for headlong_chains::LengthCounts {
    fn merge(&mut self, other: Self) {
        self.merge(other);
    }
}

/// Implements [`Merge`] field by field. It names every field, including those after `same`, which
/// are equal in all parts, so that the compiler rejects a forgotten one.
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
