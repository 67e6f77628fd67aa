//! The name a person probably meant.

use alloc::string::String;
use alloc::vec::Vec;

/// Longest name that is compared, in characters; nobody means one of ours by a longer one.
const CHARACTERS_MAX: usize = 64;

/// The one of `names` closest to `typed`, if one is close enough to be what was meant: at most one
/// edit for each three letters, and two for short names; capitals do not count.
pub(crate) fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed: String = typed.to_lowercase();
    let length = typed.chars().count();
    if length > CHARACTERS_MAX {
        return None;
    }
    let edits_max = (length / 3).max(2);
    names
        .map(|name| (edits(&typed, name), name))
        .filter(|(edits, name)| *edits <= edits_max && *edits < name.len())
        .min()
        .map(|(_, name)| name)
}

/// Fewest insertions, deletions and replacements from one to the other (Levenshtein).
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (index, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(diagonal + 1).min(row[index] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_recognised_and_nonsense_is_not() {
        let names = || ["sessions.rate", "requests.size", "pacing"].into_iter();
        assert_eq!(nearest("session.rate", names()), Some("sessions.rate"));
        assert_eq!(nearest("Pacign", names()), Some("pacing"));
        assert_eq!(nearest("colour", names()), None);
        assert_eq!(nearest("ab", names()), None);
        assert_eq!(nearest(&"x".repeat(10_000), names()), None);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
    }
}
