//! Dependencies between crates. Wings are ordered: a crate may use its own wing and lower ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace::Member;

/// The wings, from the lowest up; `testkit`, `tests` and `fuzz` are outside this order.
pub const WINGS: &[&str] = &[
    "common",
    "server",
    "anyprogram",
    "logs",
    "lab",
    "papers",
    "programs",
];
/// Pure crates that may meet only in a world, real or virtual: each holds one side's rules and must
/// not depend on another's.
const INDEPENDENT_CRATES: &[&str] = &["engine", "player", "drive"];
/// Known upward dependencies, to be removed.
const KNOWN_EXCEPTIONS: &[(&str, &str)] = &[];

/// All forbidden dependencies.
pub fn wrong_arrows(members: &[Member]) -> Vec<String> {
    let by_name: BTreeMap<&str, &Member> = members.iter().map(|m| (m.name.as_str(), m)).collect();
    let mut wrong = Vec::new();
    for member in members {
        let name = &member.name;
        if height(member).is_none() && !["testkit", "tests", "fuzz"].contains(&member.wing()) {
            wrong.push(format!(
                "{}: {name} is in no wing; move it to one of {}, testkit, tests or fuzz",
                member.folder,
                WINGS.join(", ")
            ));
        }
        if !member.inherits_lints {
            wrong.push(format!(
                "{}/Cargo.toml: {name} has lints of its own; write `[lints]` and below it \
                 `workspace = true`",
                member.folder
            ));
        }
        let known = |names: &BTreeSet<String>| -> Vec<&Member> {
            names
                .iter()
                .filter_map(|name| by_name.get(name.as_str()).copied())
                .collect()
        };
        for other in known(&member.knows) {
            if let Some(remedy) = forbidden(member, other) {
                wrong.push(format!(
                    "{}/Cargo.toml: {name} depends on {}; {remedy}",
                    member.folder, other.name
                ));
            }
        }
        for other in known(&member.tests_know) {
            if let Some(remedy) = forbidden_in_tests(member, other) {
                wrong.push(format!(
                    "{}/Cargo.toml: tests of {name} depend on {}; {remedy}",
                    member.folder, other.name
                ));
            }
        }
    }
    wrong
}

/// Position of the member's wing in the order.
fn height(member: &Member) -> Option<usize> {
    WINGS.iter().position(|wing| *wing == member.wing())
}

/// Remedy for a dependency of `member` on `other`; `None` if it is allowed.
fn forbidden(member: &Member, other: &Member) -> Option<&'static str> {
    if other.wing() == "tests" {
        return Some("no crate depends on tests; move the code to testkit");
    }
    if other.wing() == "testkit" && !["tests", "testkit"].contains(&member.wing()) {
        return Some("the test kit is for tests only; move the line to [dev-dependencies]");
    }
    if KNOWN_EXCEPTIONS.contains(&(member.noun(), other.noun())) {
        return None;
    }
    if let (Some(own), Some(theirs)) = (height(member), height(other))
        && theirs > own
    {
        return Some("that wing is higher; pass the value as an argument, or move the code down");
    }
    if member.wing() == "programs" && other.wing() == "programs" {
        return Some("programs do not depend on each other; move shared code into a library");
    }
    if member.pure && !other.pure {
        return Some("a pure crate uses only pure crates; pass the value as an argument");
    }
    are_strangers(member, other)
}

/// The same for dependencies of tests.
fn forbidden_in_tests(member: &Member, other: &Member) -> Option<&'static str> {
    if other.wing() == "tests" {
        return Some("no crate depends on tests; move the code to testkit");
    }
    are_strangers(member, other)
}

fn are_strangers(member: &Member, other: &Member) -> Option<&'static str> {
    let both =
        INDEPENDENT_CRATES.contains(&member.noun()) && INDEPENDENT_CRATES.contains(&other.noun());
    both.then_some("engine, player and drive meet only in a world; pass messages there")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Crates whose nouns end in `!` are pure.
    fn member(folder: &str, knows: &[&str], tests_know: &[&str]) -> Member {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| format!("headlong-{name}"))
                .collect()
        };
        let pure = folder.ends_with('!');
        let folder = folder.trim_end_matches('!');
        Member {
            name: format!("headlong-{}", folder.rsplit('/').next().expect("a noun")),
            folder: folder.into(),
            pure,
            knows: names(knows),
            tests_know: names(tests_know),
            inherits_lints: true,
            ..Member::default()
        }
    }

    #[test]
    fn accepts_allowed_dependencies() {
        let house = [
            member("common/units!", &[], &[]),
            member("server/engine!", &["units"], &["testkit"]),
            member("server/library", &["units", "engine"], &["testkit"]),
            member("server/serve", &["engine", "library"], &["testkit"]),
            member("lab/player!", &["units"], &[]),
            member("lab/sim", &["engine", "player"], &[]),
            member("lab/bench", &["serve", "sim"], &[]),
            member("programs/headlong-lab", &["sim", "bench"], &[]),
            member("testkit", &["serve", "units"], &[]),
            member("tests/end_to_end", &["serve", "testkit"], &[]),
        ];
        assert_eq!(wrong_arrows(&house), Vec::<String>::new());
    }

    #[test]
    fn reports_each_forbidden_dependency_with_remedy() {
        let house = [
            member("common/units!", &["serve"], &[]),
            member("server/engine!", &["library", "testkit"], &[]),
            member("server/library", &["drive"], &[]),
            member("server/serve", &["testkit"], &["tests"]),
            member("lab/drive!", &["player"], &[]),
            member("lab/player!", &[], &["engine"]),
            member("programs/headlong", &["headlong-lab"], &[]),
            member("programs/lab", &["two"], &[]),
            member("programs/two", &[], &[]),
            member("testkit", &[], &[]),
            member("tests/tests", &[], &[]),
            Member {
                inherits_lints: false,
                ..member("extra/odd", &[], &[])
            },
        ];
        let wrong = wrong_arrows(&house);
        for expected in [
            "common/units/Cargo.toml: headlong-units depends on headlong-serve; that wing is higher",
            "server/engine/Cargo.toml: headlong-engine depends on headlong-library; a pure crate uses",
            "server/engine/Cargo.toml: headlong-engine depends on headlong-testkit; the test kit",
            "server/library/Cargo.toml: headlong-library depends on headlong-drive; that wing is higher",
            "server/serve/Cargo.toml: headlong-serve depends on headlong-testkit; the test kit",
            "server/serve/Cargo.toml: tests of headlong-serve depend on headlong-tests; no crate",
            "lab/drive/Cargo.toml: headlong-drive depends on headlong-player; engine, player and drive",
            "lab/player/Cargo.toml: tests of headlong-player depend on headlong-engine; engine, player",
            "programs/lab/Cargo.toml: headlong-lab depends on headlong-two; programs do not",
            "extra/odd: headlong-odd is in no wing; move it",
            "extra/odd/Cargo.toml: headlong-odd has lints of its own; write `[lints]`",
        ] {
            assert!(
                wrong.iter().any(|w| w.starts_with(expected)),
                "{expected}\n{wrong:#?}"
            );
        }
        assert_eq!(wrong.len(), 11, "{wrong:#?}");
    }
}
