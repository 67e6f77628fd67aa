//! Checks of the documents of this workspace.

use headlong_house_tests::workspace::{members, root};
use headlong_house_tests::{documents, features, map, source, watching};

fn sources() -> Vec<source::Source> {
    let sources = source::files(&root()).expect("the files can be read");
    assert!(
        sources.iter().any(|source| source.path == "README.md"),
        "the README is not found"
    );
    sources
}

#[test]
fn links_in_documents_have_targets() {
    let root = root();
    let wrong = documents::broken_links(&sources(), |path| root.join(path).exists());
    assert!(wrong.is_empty(), "failures:\n{}", wrong.join("\n"));
}

#[test]
fn files_named_for_developers_exist() {
    let wrong = documents::unknown_files(&sources());
    assert!(wrong.is_empty(), "failures:\n{}", wrong.join("\n"));
}

#[test]
fn summary_of_the_book_lists_every_page() {
    let wrong = documents::wrong_in_summary(&sources());
    assert!(wrong.is_empty(), "failures:\n{}", wrong.join("\n"));
}

#[test]
fn each_feature_has_a_test() {
    let wrong = features::without_test(&sources());
    assert!(wrong.is_empty(), "failures:\n{}", wrong.join("\n"));
}

#[test]
fn each_report_has_a_test_or_a_reason() {
    let wrong = features::reports_without_test(&sources());
    assert!(wrong.is_empty(), "failures:\n{}", wrong.join("\n"));
}

#[test]
fn lines_of_documents_are_not_too_long() {
    let wrong = documents::too_wide(&sources());
    assert!(wrong.is_empty(), "failures:\n{}", wrong.join("\n"));
}

#[test]
fn map_in_architecture_md_matches_the_workspace() {
    let root = root();
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page");
    let members = members(&root).expect("the manifests can be read");
    let wrong = map::wrong_places(&page, &members, |folder| root.join(folder).is_dir());
    assert!(wrong.is_empty(), "failures:\n{}", wrong.join("\n"));
}

#[test]
fn alerts_have_summary_runbook_and_examples() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).expect("the file");
    let wrong = watching::wrong_alerts(
        &read("packaging/prometheus/alerts.yml"),
        &read("packaging/prometheus/alerts_test.yml"),
        &read("docs/operate/watch.md"),
        "file:/usr/share/doc/headlong/watch.md",
    );
    assert!(wrong.is_empty(), "failures:\n{}", wrong.join("\n"));
}
