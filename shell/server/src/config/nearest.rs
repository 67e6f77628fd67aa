//! The name a person probably meant.

/// The one of `names` closest to `typed`, if one is close enough to be what was meant: at most
/// one edit for each three letters, and two for short names; capitals do not count.
pub(super) fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let edits_max = (typed.chars().count() / 3).max(2);
    names
        .map(|name| (strsim::damerau_levenshtein(&typed, name), name))
        .filter(|(edits, name)| *edits <= edits_max && *edits < name.len())
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_finger_is_recognised_and_nonsense_is_not() {
        let names = || ["memory", "prefetch", "policy", "io"].into_iter();
        assert_eq!(nearest("memroy", names()), Some("memory"));
        assert_eq!(nearest("pre_fetch", names()), Some("prefetch"));
        assert_eq!(nearest("IO", names()), Some("io"));
        assert_eq!(nearest("colour", names()), None);
        assert_eq!(nearest("ab", names()), None);
    }
}
