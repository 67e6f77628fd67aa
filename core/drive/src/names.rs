//! The nearest known names to one that nobody knows.

use alloc::vec::Vec;

/// How many letters must be put in, taken out or changed to make one word of the other
/// (Levenshtein).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let changed = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

/// Up to three of `known` that `name` may have meant, the likeliest first: those that contain it,
/// then those that are spelt alike.
pub(crate) fn nearest(name: &str, known: &[&'static str]) -> Vec<&'static str> {
    let lower = name.to_ascii_lowercase();
    let cost = |candidate: &'static str| {
        let is_part = lower.len() >= 2 && candidate.contains(&lower);
        let cost = if is_part {
            0
        } else {
            distance(&lower, candidate)
        };
        (cost, candidate)
    };
    let mut ranked: Vec<(usize, &'static str)> = known.iter().copied().map(cost).collect();
    ranked.sort();
    ranked.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_name_and_a_slip_of_the_finger_are_both_understood() {
        let known = ["wd-red-wd10efrx", "hp-146-10k-sas", "nearline-20tb"];
        assert_eq!(nearest("WD-RED", &known)[0], "wd-red-wd10efrx");
        assert_eq!(nearest("hp-146-10-sas", &known)[0], "hp-146-10k-sas");
        assert_eq!(nearest("", &known).len(), 3);
    }

    #[test]
    fn distance_counts_changes() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
