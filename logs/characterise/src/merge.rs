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

/// Sums by type and kind, each type followed by its total, and the total of all last.
pub(crate) fn with_totals<T: Merge + Copy + Default>(by_kind: &[[T; 3]; 2]) -> Vec<T> {
    let (mut rows, mut whole) = (Vec::new(), T::default());
    for kinds in by_kind {
        let mut total = T::default();
        kinds.iter().for_each(|sum| total.merge(*sum));
        rows.extend(kinds.iter().chain([&total]));
        whole.merge(total);
    }
    rows.push(whole);
    rows
}

impl Merge for headlong_chains::LengthCounts {
    fn merge(&mut self, other: Self) {
        self.merge(other);
    }
}

/// Declares sums that are merged field by field, and can be stored: `sums! { struct Pair { one: u64, two: u64 } }`.
/// Fields after `; same` are equal in all parts.
macro_rules! sums {
    ($(#[$of_type:meta])* $of_struct:vis struct $name:ident {
        $($(#[$of_sum:meta])* $vis:vis $sum:ident: $type:ty),+ $(,)?
        $(; same $($(#[$of_same:meta])* $same:ident: $same_type:ty),+ $(,)?)?
    }) => {
        $(#[$of_type])*
        #[derive(serde::Serialize, serde::Deserialize)]
        $of_struct struct $name {
            $($(#[$of_sum])* $vis $sum: $type,)+
            $($($(#[$of_same])* $same: $same_type,)+)?
        }

        impl $crate::merge::Merge for $name {
            fn merge(&mut self, other: Self) {
                $($crate::merge::Merge::merge(&mut self.$sum, other.$sum);)+
            }
        }
    };
}

pub(crate) use sums;
