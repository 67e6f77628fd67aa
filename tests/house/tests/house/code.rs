//! Checks of the code of this workspace.

use std::collections::BTreeSet;

use headlong_house_tests::workspace::{Member, root, tree};
use headlong_house_tests::{arrows, dependencies, purity, tidy};

use super::{members, pass, sources};

fn pure_crates() -> Vec<&'static Member> {
    let pure: Vec<_> = members().iter().filter(|member| member.pure).collect();
    assert!(
        pure.iter().any(|member| member.noun() == "engine"),
        "the engine is not among the pure crates: {pure:?}"
    );
    pure
}

#[test]
fn dependencies_point_down() {
    pass(arrows::wrong_arrows(members()));
}

#[test]
fn every_dependency_is_used() {
    pass(dependencies::unused(members(), sources()));
}

/// Packages for measuring and verifying only: the operator's program stays small without them.
const NOT_FOR_OPERATORS: [&str; 5] = ["parquet", "zstd", "csv", "headlong-drive", "headlong-vdisk"];

#[test]
fn operators_program_links_no_lab_package() {
    let operator = tree(&root(), "headlong").expect("cargo tree answers");
    let lab = tree(&root(), "headlong-lab").expect("cargo tree answers");
    for package in NOT_FOR_OPERATORS.map(str::to_string) {
        assert!(
            lab.contains(&package),
            "headlong-lab no longer links {package}; remove it from this list"
        );
        assert!(
            !operator.contains(&package),
            "headlong links {package}; `cargo tree --package headlong --invert {package}` shows why; \
             move the code that needs it to headlong-lab"
        );
    }
}

#[test]
fn operators_program_uses_fuse_for_its_mount_only() {
    let operator = tree(&root(), "headlong").expect("cargo tree answers");
    let makers = members()
        .iter()
        .filter(|member| member.needs.contains("fuser"));
    let makers: Vec<&str> = makers
        .map(|member| member.name.as_str())
        .filter(|name| operator.iter().any(|linked| linked == name))
        .collect();
    assert_eq!(makers, ["headlong-mount"]);
}

#[test]
fn pure_crates_depend_on_pure_crates_only() {
    let pure = pure_crates();
    let names: BTreeSet<String> = pure.iter().map(|member| member.name.clone()).collect();
    let mut failures = Vec::new();
    let mut trees = Vec::new();
    for name in &names {
        let tree = tree(&root(), name).expect("cargo tree answers");
        assert!(
            tree.contains(name),
            "{name} is not in its own tree: {tree:?}"
        );
        failures.extend(purity::impure(name, &tree, &names, purity::ALLOWED));
        trees.push(tree);
    }
    failures.extend(purity::stale(&trees, purity::ALLOWED));
    pass(failures);
}

#[test]
fn pure_crates_have_no_std_and_no_unsafe_code() {
    let sources = sources();
    let mut failures = Vec::new();
    for member in pure_crates() {
        let folder = format!("{}/src/", member.folder);
        let mut files = sources
            .iter()
            .filter(|s| s.path.starts_with(&folder) && s.extension() == "rs");
        let lib = files.clone().find(|s| s.path == format!("{folder}lib.rs"));
        match lib {
            Some(lib) => failures.extend(purity::unguarded(lib)),
            None => failures.push(format!(
                "{folder}lib.rs is missing; a pure crate is a library"
            )),
        }
        failures.extend(files.by_ref().flat_map(purity::smuggled));
    }
    pass(failures);
}

#[test]
fn no_file_is_too_long() {
    pass(tidy::too_long(sources()));
}

#[test]
fn no_unfinished_work() {
    pass(tidy::unfinished(sources()));
}

#[test]
fn unsafe_code_is_in_listed_files_only() {
    pass(tidy::unsafe_outside(sources(), tidy::UNSAFE_PLACES));
}
