//! No circles of files: if a file names items of another, that one names none of its, at any
//! distance. Then every file can be read and tested after those it stands on.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Names, names};
use crate::source::Source;

/// Circles that are still to be opened, each as its files in order. One that is gone has to go
/// from this list too, so that it only gets shorter.
pub const REMAINING: &[&[&str]] = &[
    &[
        "lab/bench/src/servers/apache.rs",
        "lab/bench/src/servers/headlong.rs",
        "lab/bench/src/servers/mod.rs",
        "lab/bench/src/servers/nginx.rs",
    ],
    &["lab/fill/src/error.rs", "lab/fill/src/manifest.rs"],
    &["lab/load/src/play.rs", "lab/load/src/schedule.rs"],
    &[
        "lab/vdisk/src/control/protocol.rs",
        "lab/vdisk/src/control/server.rs",
        "lab/vdisk/src/device.rs",
    ],
    &[
        "lab/workload/src/ideal.rs",
        "lab/workload/src/specification/check.rs",
        "lab/workload/src/specification/mod.rs",
        "lab/workload/src/specification/players.rs",
        "lab/workload/src/trace/mod.rs",
    ],
    &[
        "lab/workload/src/trace/read.rs",
        "lab/workload/src/trace/read_adaptive.rs",
    ],
    &[
        "lab/workload/src/trace/write.rs",
        "lab/workload/src/trace/write_adaptive.rs",
    ],
];

/// Circles of the crates that lie in `folders`, but for those in `remaining`; and what is in
/// `remaining` without being one.
pub fn circles(folders: &[String], sources: &[Source], remaining: &[&[&str]]) -> Vec<String> {
    let files: BTreeMap<&str, &Source> = sources.iter().map(|s| (s.path.as_str(), s)).collect();
    let mut wrong = Vec::new();
    let mut seen = Vec::new();
    for folder in folders {
        let roots = ["lib.rs", "main.rs"].map(|root| format!("{folder}/src/{root}"));
        for root in roots
            .iter()
            .filter(|root| files.contains_key(root.as_str()))
        {
            match names(root, &files) {
                Ok(names) => {
                    for circle in in_circles(&names) {
                        if !remaining.iter().any(|known| *known == circle) {
                            wrong.push(describe(&circle, &names));
                        }
                        seen.push(
                            circle
                                .iter()
                                .map(|file| file.to_string())
                                .collect::<Vec<_>>(),
                        );
                    }
                }
                Err(error) => wrong.push(error),
            }
        }
    }
    for known in remaining {
        if !seen.iter().any(|circle| circle == known) {
            wrong.push(format!(
                "tests/house/src/circles.rs: {} is no circle any more; take it from the list",
                known.join(" <-> ")
            ));
        }
    }
    wrong
}

/// Groups of files, each of which reaches all others of its group.
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

/// All files that a file names, and those name.
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
        "{}: a circle of files; move what both need to a file below them:",
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

    /// Circles of a crate `a` that has these files below `src`.
    fn found(files: &[(&str, &str)], remaining: &[&[&str]]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source {
            path: format!("a/src/{path}"),
            text: text.to_string(),
        };
        let sources: Vec<Source> = files.iter().map(source).collect();
        circles(&["a".into()], &sources, remaining)
    }

    #[test]
    fn two_files_that_name_each_other_are_a_circle() {
        let wrong = found(
            &[
                ("lib.rs", "mod one;\nmod two;\npub use one::One;\n"),
                ("one.rs", "use crate::two::Two;\npub struct One(Two);\n"),
                ("two.rs", "pub struct Two;\nfn f() { let _: super::One; }\n"),
            ],
            &[],
        );
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert_eq!(
            wrong[0],
            "a/src/one.rs: a circle of files; move what both need to a file below them:\n    \
             a/src/one.rs names a/src/two.rs: Two\n    a/src/two.rs names a/src/one.rs: One"
        );
    }

    #[test]
    fn a_long_circle_through_a_parent_a_glob_and_a_macro_is_found() {
        let wrong = found(
            &[
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
            ],
            &[],
        );
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
    fn declarations_exports_and_tests_make_no_circle() {
        let wrong = found(
            &[
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
            ],
            &[],
        );
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn a_known_circle_is_let_pass_until_it_is_open() {
        let known: &[&[&str]] = &[&["a/src/one.rs", "a/src/two.rs"]];
        let lib = ("lib.rs", "mod one;\nmod two;\n");
        let one = ("one.rs", "pub struct One(super::two::Two);\n");
        let circle = [
            lib,
            one,
            ("two.rs", "pub struct Two;\nuse super::one::One;\n"),
        ];
        assert_eq!(found(&circle, known), Vec::<String>::new());
        let open = [lib, one, ("two.rs", "pub struct Two;\n")];
        let wrong = found(&open, known);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(
            wrong[0].contains("one.rs <-> a/src/two.rs is no circle any more"),
            "{wrong:?}"
        );
    }

    #[test]
    fn a_module_without_a_file_is_an_error_with_its_name() {
        let wrong = found(&[("lib.rs", "mod gone;\n")], &[]);
        assert_eq!(wrong, ["a/src/lib.rs: module gone has no file"]);
    }
}
