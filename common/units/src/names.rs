//! The name that a user probably meant.

use alloc::string::String;
use alloc::vec::Vec;

/// Maximum length of a name that is compared, in characters; no valid name is near a longer one.
const CHARACTERS_MAX: usize = 64;

/// The element of `names` closest to `typed`, if it is close enough: at most one edit per three
/// letters, and two for short names. Case is ignored.
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
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

/// Up to three of `names` that `typed` may stand for, the most similar first, with no limit on the
/// distance: first those that contain it, then those with a similar spelling.
pub fn nearest_three<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let typed: String = typed.to_lowercase().chars().take(CHARACTERS_MAX).collect();
    let cost = |name: &'a str| {
        let is_part = typed.len() >= 2 && name.contains(&typed);
        (if is_part { 0 } else { edits(&typed, name) }, name)
    };
    let mut ranked: Vec<(usize, &str)> = names.map(cost).collect();
    ranked.sort_unstable();
    ranked.into_iter().take(3).map(|(_, name)| name).collect()
}

/// The minimum number of insertions, deletions, replacements and swaps of adjacent letters that
/// change one into the other (optimal string alignment).
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, letter) in from.iter().enumerate() {
        let mut next = alloc::vec![at + 1];
        for (index, other) in to.iter().enumerate() {
            let replaced = row[index] + usize::from(letter != other);
            let mut fewest = replaced.min(row[index + 1] + 1).min(next[index] + 1);
            if at > 0 && index > 0 && *letter == to[index - 1] && from[at - 1] == *other {
                fewest = fewest.min(before[index - 1] + 1);
            }
            next.push(fewest);
        }
        before = core::mem::replace(&mut row, next);
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_recognised_and_nonsense_is_not() {
        let names = || ["memory", "prefetch", "sessions.rate", "io"].into_iter();
        assert_eq!(nearest("memroy", names()), Some("memory"));
        assert_eq!(nearest("pre_fetch", names()), Some("prefetch"));
        assert_eq!(nearest("session.rate", names()), Some("sessions.rate"));
        assert_eq!(nearest("IO", names()), Some("io"));
        assert_eq!(nearest("colour", names()), None);
        assert_eq!(nearest("ab", names()), None);
        assert_eq!(nearest(&"x".repeat(10_000), names()), None);
    }

    #[test]
    fn three_names_are_found_for_any_text_partial_matches_first() {
        let names = || ["wd-red-wd10efrx", "hp-146-10k-sas", "nearline-20tb", "x"].into_iter();
        assert_eq!(nearest_three("WD-RED", names())[0], "wd-red-wd10efrx");
        assert_eq!(nearest_three("hp-146-10-sas", names())[0], "hp-146-10k-sas");
        assert_eq!(nearest_three("", names()).len(), 3);
        assert_eq!(nearest_three(&"y".repeat(10_000), names()).len(), 3);
    }

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("youtube-ds", "youtube-sd"), 1);
        assert_eq!(edits("youtube-ds", "youtube-hd"), 2);
        assert_eq!(edits("abcd", "badc"), 2);
    }
}
