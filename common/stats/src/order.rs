//! What is out of order, and by how much: titles that lie where a later or an earlier one should
//! (thesis 3.5.3).

use alloc::vec::Vec;

/// For each of a row of numbers, how far it is from where the row would have it; 0 for those in
/// order.
///
/// In order is the longest rising row that can be had by leaving numbers out (equal ones rise).
/// Whoever was left out is as far off as it is from the gap between its neighbours in that row. So
/// one stray number is off, and not all that come after it. A number that is not finite is off by
/// as much: not a number.
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

/// Places of the longest row that never falls, by patience sorting: `ends[n]` is where the row of
/// n + 1 numbers ends that leaves most room for more.
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
    fn one_stray_is_off_and_those_behind_it_are_not() {
        let off = out_of_order(&[1.0, 2.0, 90.0, 3.0, 4.0, 0.5, 5.0]);
        assert_eq!(off, [0.0, 0.0, 87.0, 0.0, 0.0, 3.5, 0.0]);
        assert_eq!(out_of_order(&[]), []);
        assert_eq!(out_of_order(&[7.0, 7.0, 7.0]), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_jump_that_lasts_is_no_disorder() {
        assert_eq!(out_of_order(&[1.0, 2.0, 500.0, 501.0, 502.0]), [0.0; 5]);
    }

    #[test]
    fn what_has_no_place_disturbs_nobody() {
        let off = out_of_order(&[1.0, f64::NAN, 2.0]);
        assert_eq!((off[0], off[2]), (0.0, 0.0));
        assert!(off[1].is_nan());
    }

    proptest! {
        #[test]
        fn those_in_order_never_fall_and_the_others_are_between_their_neighbours(
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
