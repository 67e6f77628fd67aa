//! Checks of this workspace: its code, its documents and its systemd units.

mod code;
mod documents;
mod units;

use std::sync::LazyLock;

use headlong_house_tests::source::{Source, files};
use headlong_house_tests::workspace::{self, Member, root};

/// All files, which most checks read.
fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> =
        LazyLock::new(|| files(&root()).expect("the files can be read"));
    for file in ["README.md", file!()] {
        let is_found = SOURCES.iter().any(|source| source.path == file);
        assert!(is_found, "{file} is not found");
    }
    &SOURCES
}

fn members() -> &'static [Member] {
    static MEMBERS: LazyLock<Vec<Member>> =
        LazyLock::new(|| workspace::members(&root()).expect("the manifests can be read"));
    &MEMBERS
}

fn pass(failures: Vec<String>) {
    let (count, failures) = (failures.len(), failures.join("\n"));
    assert!(count == 0, "{count} failures:\n{failures}");
}
