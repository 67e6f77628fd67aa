//! No unused dependencies: code names each dependency of a manifest.

use crate::source::{Source, Token, tokens};
use crate::workspace::Member;

/// Dependencies that no code names.
pub fn unused(members: &[Member], sources: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for member in members {
        let below = |part: &str| {
            let path = format!("{}/{part}", member.folder);
            sources
                .iter()
                .filter(move |s| s.path.starts_with(&path) && s.extension() == "rs")
        };
        let code: Vec<&Source> = ["src/", "build.rs", "fuzz_targets/"]
            .into_iter()
            .flat_map(below)
            .collect();
        let folders = ["tests/", "examples/", "benches/"];
        let tests = code
            .iter()
            .copied()
            .chain(folders.into_iter().flat_map(below))
            .collect();
        for (names, files, section) in [
            (&member.needs, code, "dependencies"),
            (&member.tests_need, tests, "dev-dependencies"),
        ] {
            let files: Vec<Vec<Token>> =
                files.iter().filter_map(|file| tokens(file).ok()).collect();
            for name in names {
                if !files.iter().any(|tokens| is_named(name, tokens)) {
                    wrong.push(format!(
                        "{}/Cargo.toml: no code names {name}; remove it from [{section}]",
                        member.folder
                    ));
                }
            }
        }
    }
    wrong
}

/// Whether code names the crate: at the start of a path, or alone after `use`.
fn is_named(name: &str, tokens: &[Token]) -> bool {
    let text = |index: usize| tokens.get(index).map_or("", |token| token.text.as_str());
    let starts_path = |index: usize| text(index + 1) == ":" && text(index + 2) == ":";
    let in_path = |index: usize| index > 1 && text(index - 1) == ":" && text(index - 2) == ":";
    (0..tokens.len()).any(|index| {
        text(index) == name
            && ((starts_path(index) && !in_path(index))
                || (index > 0 && ["use", "crate"].contains(&text(index - 1))))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn reports_unused_dependencies() {
        let set = |names: &[&str]| {
            names
                .iter()
                .map(|name| name.to_string())
                .collect::<BTreeSet<_>>()
        };
        let member = Member {
            folder: "server/a".into(),
            needs: set(&[
                "used",
                "derived",
                "only_in_tests",
                "only_in_comments",
                "a_module",
            ]),
            tests_need: set(&["in_tests", "beside_code", "nowhere"]),
            ..Member::default()
        };
        let code = "// only_in_comments::x\nuse used;\n#[derive(derived::Embed)]\nstruct A;\n\
                    fn f() { super::a_module::g(\"only_in_comments::x\") }\n\
                    #[cfg(test)] mod tests { use beside_code::*; }\n";
        let files = [
            source("server/a/src/lib.rs", code),
            source(
                "server/a/tests/t.rs",
                "use only_in_tests::x; fn f() { in_tests::g() }",
            ),
            source("server/ab/src/lib.rs", "use nowhere::x;"),
        ];
        let expected = [
            "server/a/Cargo.toml: no code names a_module; remove it from [dependencies]",
            "server/a/Cargo.toml: no code names only_in_comments; remove it from [dependencies]",
            "server/a/Cargo.toml: no code names only_in_tests; remove it from [dependencies]",
            "server/a/Cargo.toml: no code names nowhere; remove it from [dev-dependencies]",
        ];
        assert_eq!(unused(&[member], &files), expected);
    }
}
