//! The checks, on this workspace.

use std::collections::BTreeSet;
use std::path::Path;

use headlong_house_tests::workspace::{Member, members, root, tree};
use headlong_house_tests::{arrows, purity, source, tidy};

fn pass(failures: Vec<String>) {
    assert!(
        failures.is_empty(),
        "{} to put right:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn cores() -> Vec<Member> {
    let members = members(&root()).expect("the manifests can be read");
    let cores: Vec<_> = members
        .into_iter()
        .filter(|member| member.room() == "core")
        .collect();
    assert!(
        cores.iter().any(|core| core.noun() == "engine"),
        "the engine is not found: {cores:?}"
    );
    cores
}

fn sources() -> Vec<source::Source> {
    let sources = source::files(&root()).expect("the files can be read");
    let this = Path::new(file!())
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a name");
    assert!(
        sources.iter().any(|s| s.path.ends_with(this)),
        "this file is not found"
    );
    sources
}

#[test]
fn arrows_point_from_shells_to_cores() {
    pass(arrows::wrong_arrows(
        &members(&root()).expect("the manifests can be read"),
    ));
}

#[test]
fn cores_are_made_of_cores() {
    let cores = cores();
    let names: BTreeSet<String> = cores.iter().map(|core| core.name.clone()).collect();
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
fn cores_have_no_standard_library_and_no_unsafe_code() {
    let sources = sources();
    let mut failures = Vec::new();
    for core in cores() {
        let folder = format!("{}/src/", core.folder);
        let mut files = sources
            .iter()
            .filter(|s| s.path.starts_with(&folder) && s.extension() == "rs");
        let lib = files.clone().find(|s| s.path == format!("{folder}lib.rs"));
        match lib {
            Some(lib) => failures.extend(purity::unguarded(lib)),
            None => failures.push(format!("{folder}lib.rs is missing; a core is a library")),
        }
        failures.extend(files.by_ref().flat_map(purity::smuggled));
    }
    pass(failures);
}

#[test]
fn no_file_is_too_long_to_read() {
    pass(tidy::too_long(&sources()));
}

#[test]
fn nothing_is_left_unfinished() {
    pass(tidy::unfinished(&sources()));
}

#[test]
fn unsafe_code_stays_in_its_rooms() {
    pass(tidy::unsafe_outside(&sources(), tidy::UNSAFE_PLACES));
}
