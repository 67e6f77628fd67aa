//! No cyclic references between files: if a file names items of another, the other names none of
//! its items, directly or indirectly. Then every file can be read and tested after the files it
//! depends on.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Names, names};
use crate::source::Source;

/// Cycles in the crates of these `folders`.
pub fn circles(folders: &[String], sources: &[Source]) -> Vec<String> {
    let files: BTreeMap<&str, &Source> = sources.iter().map(|s| (s.path.as_str(), s)).collect();
    let mut wrong = Vec::new();
    for folder in folders {
        let roots = ["lib.rs", "main.rs"].map(|root| format!("{folder}/src/{root}"));
        for root in roots
            .iter()
            .filter(|root| files.contains_key(root.as_str()))
        {
            match names(root, &files) {
                Ok(names) => wrong.extend(
                    in_circles(&names)
                        .iter()
                        .map(|circle| describe(circle, &names)),
                ),
                Err(error) => wrong.push(error),
            }
        }
    }
    wrong
}

/// Groups of files in which each file reaches all others.
fn in_circles(names: &Names) -> Vec<Vec<&str>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> = names
        .keys()
        .map(|file| (file.as_str(), reached(file, names)))
        .collect();
    let mut groups = BTreeSet::new();
    for (file, far) in &reach {
        let both = |other: &&&str| reach.get(*other).is_some_and(|back| back.contains(file));
        let group: Vec<&str> = far.iter().filter(both).copied().collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    groups.into_iter().collect()
}

/// All files that a file names, directly or indirectly.
fn reached<'a>(file: &'a str, names: &'a Names) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next = vec![file];
    while let Some(file) = next.pop() {
        for other in names
            .get(file)
            .into_iter()
            .flatten()
            .map(|(other, _)| other.as_str())
        {
            if found.insert(other) {
                next.push(other);
            }
        }
    }
    found
}

fn describe(circle: &[&str], names: &Names) -> String {
    let mut text = format!(
        "{}: a cycle of files; move the shared code to a lower file:",
        circle[0]
    );
    for file in circle {
        for (other, items) in &names[*file] {
            if circle.contains(&other.as_str()) {
                let items: Vec<&str> = items.iter().map(String::as_str).collect();
                text.push_str(&format!("\n    {file} names {other}: {}", items.join(", ")));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles of a crate `a` that has these files below `src`.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source {
            path: format!("a/src/{path}"),
            text: text.to_string(),
        };
        let sources: Vec<Source> = files.iter().map(source).collect();
        circles(&["a".into()], &sources)
    }

    #[test]
    fn two_files_that_name_each_other_are_a_cycle() {
        let wrong = found(&[
            ("lib.rs", "mod one;\nmod two;\npub use one::One;\n"),
            ("one.rs", "use crate::two::Two;\npub struct One(Two);\n"),
            ("two.rs", "pub struct Two;\nfn f() { let _: super::One; }\n"),
        ]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert_eq!(
            wrong[0],
            "a/src/one.rs: a cycle of files; move the shared code to a lower file:\n    \
             a/src/one.rs names a/src/two.rs: Two\n    a/src/two.rs names a/src/one.rs: One"
        );
    }

    #[test]
    fn finds_long_cycle_through_parent_glob_and_macro() {
        let wrong = found(&[
            ("main.rs", "mod deep;\nmod top;\nfn main() { top::run() }\n"),
            ("top.rs", "use crate::deep::*;\npub fn run() { work() }\n"),
            (
                "deep/mod.rs",
                "mod low;\npub fn work() { println!(\"{}\", low::low()) }\n",
            ),
            (
                "deep/low.rs",
                "pub fn low() -> u8 { use crate::top as t; t::run(); 1 }\n",
            ),
        ]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        let files = [
            "a/src/deep/low.rs names",
            "a/src/deep/mod.rs names",
            "a/src/top.rs names",
        ];
        assert!(
            files.iter().all(|file| wrong[0].contains(file)),
            "{wrong:?}"
        );
    }

    #[test]
    fn declarations_exports_and_tests_are_no_cycle() {
        let wrong = found(&[
            (
                "lib.rs",
                "mod part;\nmod whole;\npub use part::{Part, part};\npub trait Kind {}\n",
            ),
            (
                "part.rs",
                "use super::Kind;\npub struct Part;\nimpl Kind for Part {}\npub fn part() {}\n\
                     #[cfg(test)]\nmod tests { use crate::whole::Whole; }\n\
                     #[cfg(test)]\nuse crate::whole::Whole as W;\n",
            ),
            (
                "whole.rs",
                "use std::fmt;\nuse crate::{Part, part};\npub struct Whole(Part);\n",
            ),
        ]);
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn module_without_file_is_a_named_error() {
        let wrong = found(&[("lib.rs", "mod gone;\n")]);
        assert_eq!(wrong, ["a/src/lib.rs: module gone has no file"]);
    }
}
