//! Who may know whom. Arrows point one way: shells know cores, never the other way round.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace::Member;

/// Cores that meet only in a shell: each is one world's rules and must not learn another's.
const STRANGERS: &[&str] = &["engine", "player", "drive"];
/// Shells that know all others: the binary, and the one that starts them as a user would.
const TOP_SHELLS: &[&str] = &["cli", "bench"];
/// Shells that other shells may use, and which.
const BOTTOM_SHELLS: &[(&str, &str)] = &[
    ("library", "server"),
    ("library", "vdisk"),
    ("report", "sim"),
    ("report", "trace"),
];

/// Every arrow that points the wrong way.
pub fn wrong_arrows(members: &[Member]) -> Vec<String> {
    let by_name: BTreeMap<&str, &Member> = members.iter().map(|m| (m.name.as_str(), m)).collect();
    let mut wrong = Vec::new();
    for member in members {
        let name = &member.name;
        if !["core", "shell", "testkit", "tests"].contains(&member.room()) {
            wrong.push(format!(
                "{}: {name} lives in no room; move it to core/, shell/, testkit/ or tests/",
                member.folder
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

/// What to do instead of letting `member` depend on `other`; `None` if it may.
fn forbidden(member: &Member, other: &Member) -> Option<&'static str> {
    if other.room() == "tests" {
        return Some("nothing depends on tests; move what is needed to testkit");
    }
    if other.room() == "testkit" && !["tests", "testkit"].contains(&member.room()) {
        return Some("the test kit is for tests only; move the line to [dev-dependencies]");
    }
    match (member.room(), other.room()) {
        ("core", "core") => are_strangers(member, other),
        ("core", _) => Some("a core knows only cores; pass what it needs as an argument"),
        ("shell", "shell") => {
            let may = TOP_SHELLS.contains(&member.noun())
                || BOTTOM_SHELLS.contains(&(other.noun(), member.noun()));
            (!may).then_some("a shell knows no other shell; join them in cli, or move what both decide into a core")
        }
        _ => None,
    }
}

/// The same for what only tests need.
fn forbidden_in_tests(member: &Member, other: &Member) -> Option<&'static str> {
    if other.room() == "tests" {
        return Some("nothing depends on tests; move what is needed to testkit");
    }
    match (member.room(), other.room()) {
        ("core", "core") => are_strangers(member, other),
        ("core", "shell") => Some("a core is tested without shells; test them together in tests/"),
        _ => None,
    }
}

fn are_strangers(member: &Member, other: &Member) -> Option<&'static str> {
    let both = STRANGERS.contains(&member.noun()) && STRANGERS.contains(&other.noun());
    both.then_some("engine, player and drive meet only in a shell; let the shell pass messages")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(folder: &str, knows: &[&str], tests_know: &[&str]) -> Member {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| format!("headlong-{name}"))
                .collect()
        };
        Member {
            name: format!("headlong-{}", folder.rsplit('/').next().expect("a noun")),
            folder: folder.into(),
            knows: names(knows),
            tests_know: names(tests_know),
            inherits_lints: true,
        }
    }

    #[test]
    fn the_house_as_it_is_meant_has_no_wrong_arrow() {
        let house = [
            member("core/units", &[], &[]),
            member("core/engine", &["units"], &["testkit"]),
            member("core/player", &["units"], &[]),
            member("shell/library", &["units"], &["testkit"]),
            member(
                "shell/server",
                &["engine", "library", "units"],
                &["testkit"],
            ),
            member("shell/sim", &["engine", "player"], &[]),
            member("shell/bench", &["server", "sim"], &[]),
            member("shell/cli", &["server", "sim", "bench"], &[]),
            member("testkit", &["server", "units"], &[]),
            member("tests/end_to_end", &["server", "testkit"], &[]),
        ];
        assert_eq!(wrong_arrows(&house), Vec::<String>::new());
    }

    #[test]
    fn each_wrong_arrow_is_found_and_says_what_to_do() {
        let house = [
            member("core/units", &["server"], &[]),
            member("core/engine", &["drive", "testkit"], &["server"]),
            member("core/player", &[], &["engine"]),
            member("core/drive", &[], &[]),
            member("shell/library", &["server"], &[]),
            member("shell/server", &["testkit", "cli"], &["tests"]),
            member("shell/load", &["library"], &[]),
            member("shell/cli", &[], &[]),
            member("testkit", &[], &[]),
            member("tests/tests", &[], &[]),
            Member {
                inherits_lints: false,
                ..member("extra/odd", &[], &[])
            },
        ];
        let wrong = wrong_arrows(&house);
        for expected in [
            "core/units/Cargo.toml: headlong-units depends on headlong-server; a core knows only cores",
            "core/engine/Cargo.toml: headlong-engine depends on headlong-drive; engine, player and drive",
            "core/engine/Cargo.toml: headlong-engine depends on headlong-testkit; the test kit",
            "core/engine/Cargo.toml: tests of headlong-engine depend on headlong-server; a core is tested",
            "core/player/Cargo.toml: tests of headlong-player depend on headlong-engine; engine, player",
            "shell/library/Cargo.toml: headlong-library depends on headlong-server; a shell knows no",
            "shell/server/Cargo.toml: headlong-server depends on headlong-testkit; the test kit",
            "shell/server/Cargo.toml: headlong-server depends on headlong-cli; a shell knows no",
            "shell/server/Cargo.toml: tests of headlong-server depend on headlong-tests; nothing",
            "shell/load/Cargo.toml: headlong-load depends on headlong-library; a shell knows no",
            "extra/odd: headlong-odd lives in no room; move it",
            "extra/odd/Cargo.toml: headlong-odd has lints of its own; write `[lints]`",
        ] {
            assert!(
                wrong.iter().any(|w| w.starts_with(expected)),
                "{expected}\n{wrong:#?}"
            );
        }
        assert_eq!(wrong.len(), 12, "{wrong:#?}");
    }
}
