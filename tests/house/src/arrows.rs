//! Who may know whom. Wings are ordered: a crate knows its own wing and those below it.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace::Member;

/// The wings, from the lowest up; `testkit` and `tests` stand beside them.
pub const WINGS: &[&str] = &[
    "common",
    "server",
    "anyprogram",
    "logs",
    "lab",
    "papers",
    "programs",
];
/// Pure crates that meet only in a world, real or virtual: each is one side's rules and must not
/// learn another's.
const STRANGERS: &[&str] = &["engine", "player", "drive"];
/// Arrows that still point up, to be taken away.
const NOT_YET: &[(&str, &str)] = &[];

/// Every arrow that points the wrong way.
pub fn wrong_arrows(members: &[Member]) -> Vec<String> {
    let by_name: BTreeMap<&str, &Member> = members.iter().map(|m| (m.name.as_str(), m)).collect();
    let mut wrong = Vec::new();
    for member in members {
        let name = &member.name;
        if height(member).is_none() && !["testkit", "tests"].contains(&member.wing()) {
            wrong.push(format!(
                "{}: {name} lives in no wing; move it to one of {}, testkit or tests",
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

/// Where the member's wing stands in the order.
fn height(member: &Member) -> Option<usize> {
    WINGS.iter().position(|wing| *wing == member.wing())
}

/// What to do instead of letting `member` depend on `other`; `None` if it may.
fn forbidden(member: &Member, other: &Member) -> Option<&'static str> {
    if other.wing() == "tests" {
        return Some("nothing depends on tests; move what is needed to testkit");
    }
    if other.wing() == "testkit" && !["tests", "testkit"].contains(&member.wing()) {
        return Some("the test kit is for tests only; move the line to [dev-dependencies]");
    }
    if NOT_YET.contains(&(member.noun(), other.noun())) {
        return None;
    }
    if let (Some(own), Some(theirs)) = (height(member), height(other))
        && theirs > own
    {
        return Some(
            "that wing is above its own; pass what is needed as an argument, or move it down",
        );
    }
    if member.wing() == "programs" && other.wing() == "programs" {
        return Some("programs know nothing of one another; move what both need into a library");
    }
    if member.pure && !other.pure {
        return Some("a pure crate knows only pure crates; pass what it needs as an argument");
    }
    are_strangers(member, other)
}

/// The same for what only tests need.
fn forbidden_in_tests(member: &Member, other: &Member) -> Option<&'static str> {
    if other.wing() == "tests" {
        return Some("nothing depends on tests; move what is needed to testkit");
    }
    are_strangers(member, other)
}

fn are_strangers(member: &Member, other: &Member) -> Option<&'static str> {
    let both = STRANGERS.contains(&member.noun()) && STRANGERS.contains(&other.noun());
    both.then_some("engine, player and drive meet only in a world; let it pass messages")
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
    fn the_house_as_it_is_meant_has_no_wrong_arrow() {
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
    fn each_wrong_arrow_is_found_and_says_what_to_do() {
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
            "common/units/Cargo.toml: headlong-units depends on headlong-serve; that wing is above",
            "server/engine/Cargo.toml: headlong-engine depends on headlong-library; a pure crate knows",
            "server/engine/Cargo.toml: headlong-engine depends on headlong-testkit; the test kit",
            "server/library/Cargo.toml: headlong-library depends on headlong-drive; that wing is above",
            "server/serve/Cargo.toml: headlong-serve depends on headlong-testkit; the test kit",
            "server/serve/Cargo.toml: tests of headlong-serve depend on headlong-tests; nothing",
            "lab/drive/Cargo.toml: headlong-drive depends on headlong-player; engine, player and drive",
            "lab/player/Cargo.toml: tests of headlong-player depend on headlong-engine; engine, player",
            "programs/lab/Cargo.toml: headlong-lab depends on headlong-two; programs know nothing",
            "extra/odd: headlong-odd lives in no wing; move it",
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
