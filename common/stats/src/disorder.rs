//! Elements that are out of order, and by how much: titles whose position is before an earlier one
//! or after a later one (thesis 3.5.3).

use alloc::vec::Vec;

/// For each number of a sequence, its distance from the position that the order requires; 0 for
/// numbers in order.
///
/// The numbers in order are the longest non-decreasing subsequence. For any other number, the
/// distance is that to the gap between its neighbours in that subsequence. So a single outlier is
/// out of order, but not all the numbers after it. For a number that is not finite, the distance is
/// NaN.
pub fn out_of_order(row: &[f64]) -> Vec<f64> {
    let in_order = longest_rising(row);
    let mut off = Vec::with_capacity(row.len());
    let mut next = 0;
    for (index, value) in row.iter().enumerate() {
        if in_order.get(next) == Some(&index) {
            next += 1;
            off.push(0.0);
            continue;
        }
        if !value.is_finite() {
            off.push(f64::NAN);
            continue;
        }
        let before = next
            .checked_sub(1)
            .map_or(f64::NEG_INFINITY, |at| row[in_order[at]]);
        let after = in_order.get(next).map_or(f64::INFINITY, |at| row[*at]);
        off.push((before - value).max(value - after).max(0.0));
    }
    off
}

/// Indices of the longest non-decreasing subsequence, by patience sorting: `ends[n]` is the index
/// of the smallest last element of a subsequence of length n + 1.
fn longest_rising(row: &[f64]) -> Vec<usize> {
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(row.len());
    for (index, value) in row.iter().enumerate() {
        if !value.is_finite() {
            before.push(None);
            continue;
        }
        let length = ends.partition_point(|end| row[*end] <= *value);
        before.push(length.checked_sub(1).map(|last| ends[last]));
        if length == ends.len() {
            ends.push(index);
        } else {
            ends[length] = index;
        }
    }
    let mut places = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some(index) = at {
        places.push(index);
        at = before[index];
    }
    places.reverse();
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_outlier_is_out_of_order_but_later_numbers_are_not() {
        let off = out_of_order(&[1.0, 2.0, 90.0, 3.0, 4.0, 0.5, 5.0]);
        assert_eq!(off, [0.0, 0.0, 87.0, 0.0, 0.0, 3.5, 0.0]);
        assert_eq!(out_of_order(&[]), []);
        assert_eq!(out_of_order(&[7.0, 7.0, 7.0]), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_permanent_jump_is_not_out_of_order() {
        assert_eq!(out_of_order(&[1.0, 2.0, 500.0, 501.0, 502.0]), [0.0; 5]);
    }

    #[test]
    fn numbers_that_are_not_finite_affect_no_others() {
        let off = out_of_order(&[1.0, f64::NAN, 2.0]);
        assert_eq!((off[0], off[2]), (0.0, 0.0));
        assert!(off[1].is_nan());
    }

    proptest! {
        #[test]
        fn the_distance_is_that_to_the_neighbours_in_order(
            row in prop::collection::vec(0u16..500, 0..80),
        ) {
            let row: Vec<f64> = row.into_iter().map(f64::from).collect();
            let off = out_of_order(&row);
            prop_assert_eq!(off.len(), row.len());
            let kept = longest_rising(&row);
            prop_assert!(kept.windows(2).all(|pair| row[pair[0]] <= row[pair[1]]));
            prop_assert!(off.iter().all(|off| *off >= 0.0));
            prop_assert!(off.iter().filter(|off| **off == 0.0).count() >= kept.len());
            let mut sorted = row.clone();
            sorted.sort_by(f64::total_cmp);
            prop_assert!(out_of_order(&sorted).iter().all(|off| *off == 0.0));
        }
    }
}
