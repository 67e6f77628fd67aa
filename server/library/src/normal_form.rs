//! Unicode normal forms of names.
//!
//! A Mac writes decomposed names (`u` and U+0308), browsers ask for composed ones (U+00FC). Both
//! are the same name for people and different files for Linux, so the exact name is looked up
//! first.

use std::borrow::Cow;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

/// The path in composed form (NFC).
pub fn composed(path: &str) -> Cow<'_, str> {
    match path.is_ascii() {
        true => Cow::Borrowed(path),
        false => ComposingNormalizerBorrowed::new_nfc().normalize(path),
    }
}

fn decomposed(path: &str) -> Cow<'_, str> {
    DecomposingNormalizerBorrowed::new_nfd().normalize(path)
}

/// The other paths with the same name in another form, at most three: folders and the name of the
/// file may come from different machines. None for ASCII.
pub fn other_forms(path: &str) -> Vec<String> {
    if path.is_ascii() {
        return Vec::new();
    }
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    let (folder, name) = path.split_at(name);
    let mut forms: Vec<String> = Vec::new();
    for folder in [composed(folder), decomposed(folder)] {
        for name in [composed(name), decomposed(name)] {
            let form = format!("{folder}{name}");
            if form != path && !forms.contains(&form) {
                forms.push(form);
            }
        }
    }
    forms
}

/// The first result of `find` for a path, or for another form of it.
pub(crate) fn in_any_form<T>(path: &str, find: impl Fn(&str) -> Option<T>) -> Option<T> {
    find(path).or_else(|| other_forms(path).iter().find_map(|form| find(form)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_units::path_text;

    #[test]
    fn folder_and_name_are_looked_up_in_both_forms() {
        let forms = other_forms("\u{fc}/\u{e9}.mp4");
        let expected = [
            "\u{fc}/e\u{301}.mp4",
            "u\u{308}/\u{e9}.mp4",
            "u\u{308}/e\u{301}.mp4",
        ];
        assert_eq!(forms, expected);
        assert_eq!(other_forms("u\u{308}.mp4"), ["\u{fc}.mp4"]);
        assert!(other_forms("films/a b.mp4").is_empty());
        assert!(other_forms("\u{6620}\u{753b}.mp4").is_empty());
    }

    #[test]
    fn bytes_that_are_no_utf8_have_one_form() {
        let path = path_text(b"\xe9\xcc\x81.mp4");
        assert_eq!(composed(&path), path);
        assert!(other_forms(&path).is_empty());
    }
}
