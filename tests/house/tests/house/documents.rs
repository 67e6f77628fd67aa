//! Checks of the documents of this workspace.

use headlong_house_tests::workspace::root;
use headlong_house_tests::{documents, features, map, watching};

use super::{members, pass, sources};

#[test]
fn links_in_documents_have_targets() {
    let root = root();
    let wrong = documents::broken_links(sources(), |path| root.join(path).exists());
    pass(wrong);
}

#[test]
fn files_named_for_developers_exist() {
    pass(documents::unknown_files(sources()));
}

#[test]
fn summary_of_the_book_lists_every_page() {
    pass(documents::wrong_in_summary(sources()));
}

#[test]
fn each_feature_has_a_test() {
    pass(features::without_test(sources()));
}

#[test]
fn each_report_has_a_test_or_a_reason() {
    pass(features::reports_without_test(sources()));
}

#[test]
fn lines_of_documents_are_not_too_long() {
    pass(documents::too_wide(sources()));
}

#[test]
fn map_in_architecture_md_matches_the_workspace() {
    let root = root();
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page");
    let wrong = map::wrong_places(&page, members(), |folder| root.join(folder).is_dir());
    pass(wrong);
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
    pass(wrong);
}
