//! Scans that only check changed directories.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use crate::common::{TempTree, fixture, resolve};
use headlong_library::{Library, LibraryOptions, RemovedStream, ScanChanges};
use proptest::prelude::*;

/// Longer than a tick of the clock of the test's file system.
const TICK: Duration = Duration::from_millis(25);

/// A library that trusts directories immediately; later changes are visible.
fn believing(roots: &[PathBuf]) -> Library {
    let library = scanned(roots, Duration::ZERO);
    sleep(TICK);
    library
}

fn scanned(roots: &[PathBuf], settle: Duration) -> Library {
    let options = LibraryOptions {
        revalidate: Duration::ZERO,
        settle,
        ..LibraryOptions::default()
    };
    Library::scan_with(roots, options).expect("valid roots")
}

#[test]
fn changed_entries_are_found_and_others_keep_their_ids() {
    let tree = TempTree::new();
    tree.write("a/kept.mp4", "k").write("b/kept.mp4", "k");
    tree.write("b/gone.mp4", "g").write("b/c/deep.mp4", "d");
    let library = believing(&[tree.path()]);
    let ids = |library: &Library| {
        ["a/kept.mp4", "b/kept.mp4", "b/c/deep.mp4"].map(|path| resolve(library, path).stream.id)
    };
    let before = ids(&library);
    let gone = resolve(&library, "b/gone.mp4").stream.id;
    fs::remove_file(tree.at("b/gone.mp4")).expect("deleted");
    tree.write("b/new.mp4", "n").write("new/far.mp4", "f");
    let changes = library.refresh();
    assert_eq!((changes.added, changes.removed, changes.changed), (2, 1, 0));
    let gone = RemovedStream {
        id: gone,
        is_regrouped: false,
    };
    assert_eq!(changes.gone_streams, [gone]);
    assert_eq!(ids(&library), before);
    assert_eq!(library.titles().len(), 5);
    assert_eq!(library.refresh(), ScanChanges::default());
}

#[test]
fn folder_that_replaces_a_root_is_served_after_next_scan() {
    let tree = TempTree::new();
    tree.write("root/old.mp4", "o").write("root/same.mp4", "o");
    tree.write("next/new.mp4", "n")
        .write("next/same.mp4", "new");
    let library = believing(&[tree.at("root")]);
    let before = resolve(&library, "same.mp4");
    fs::rename(tree.at("root"), tree.at("away")).expect("renamed");
    assert_eq!(
        library.refresh(),
        ScanChanges::default(),
        "not replaced yet"
    );
    fs::rename(tree.at("next"), tree.at("root")).expect("renamed");
    let changes = library.scan_root(0);
    assert_eq!((changes.added, changes.removed, changes.changed), (1, 1, 1));
    assert_eq!(resolve(&library, "new.mp4").size, 1);
    assert_eq!(resolve(&library, "same.mp4").size, 3);
    assert!(library.resolve("old.mp4").is_err());
    let open = before.stream.open(0);
    assert!(open.is_err_and(|error| headlong_library::is_changed(&error)));
}

#[test]
fn removed_folder_removes_all_files_below_it() {
    let tree = TempTree::new();
    tree.write("a/x.mp4", "x").write("a/b/c/y.mp4", "y");
    tree.write("z.mp4", "z");
    let library = believing(&[tree.path()]);
    fs::remove_dir_all(tree.at("a")).expect("deleted");
    let changes = library.refresh();
    assert_eq!((changes.added, changes.removed), (0, 2));
    assert_eq!(library.counts().files, 1);
}

#[test]
fn file_rewritten_in_place_is_noticed_on_request_or_full_scan() {
    let tree = TempTree::new();
    tree.write("d/film.mp4", "one").write("d/other.mp4", "one");
    let library = believing(&[tree.path()]);
    tree.write("d/film.mp4", "longer")
        .write("d/other.mp4", "longer");
    assert_eq!(library.refresh(), ScanChanges::default());
    assert_eq!(resolve(&library, "d/film.mp4").size, 6);
    assert_eq!(library.rescan().changed, 1);
}

fn with_a_playlist() -> (TempTree, Library) {
    let tree = TempTree::new();
    tree.write("t/v.m3u8", fixture("hls_fmp4.m3u8"));
    for name in ["init.mp4", "1.m4s", "2.m4s"] {
        tree.write(&format!("t/{name}"), name);
    }
    let library = believing(&[tree.path()]);
    (tree, library)
}

/// The playlist is rewritten in place, with its two segments swapped.
fn turn_round(tree: &TempTree) {
    let text = fixture("hls_fmp4.m3u8").replace("1.m4s", "x");
    let text = text.replace("2.m4s", "1.m4s").replace("\nx\n", "\n2.m4s\n");
    tree.write("t/v.m3u8", text);
}

#[test]
fn manifest_rewritten_in_place_reorders_its_files() {
    let (tree, library) = with_a_playlist();
    assert_eq!(resolve(&library, "t/1.m4s").part, 1);
    turn_round(&tree);
    assert_eq!(library.refresh().changed, 1);
    assert_eq!(resolve(&library, "t/1.m4s").part, 2);
}

#[test]
fn manifest_rewritten_and_played_before_scan_does_too() {
    let (tree, library) = with_a_playlist();
    turn_round(&tree);
    resolve(&library, "t/v.m3u8");
    library.refresh();
    assert_eq!(resolve(&library, "t/1.m4s").part, 2);
    assert_eq!(library.refresh(), ScanChanges::default());
}

#[test]
fn directory_changed_recently_is_not_trusted() {
    let tree = TempTree::new();
    tree.write("d/film.mp4", "one");
    let library = scanned(&[tree.path()], Duration::from_secs(3600));
    assert_eq!(library.refresh(), ScanChanges::default());
    tree.write("d/film.mp4", "longer");
    assert_eq!(library.refresh().changed, 1);
}

#[test]
fn hidden_file_is_found_when_hiding_one_is_removed() {
    let (first, second) = (TempTree::new(), TempTree::new());
    first.write("d/film.mp4", "first").write("d/more.mp4", "m");
    second.write("d/film.mp4", "the second");
    let library = believing(&[first.path(), second.path()]);
    assert_eq!(resolve(&library, "d/film.mp4").root, 0);
    fs::remove_file(first.at("d/film.mp4")).expect("deleted");
    let changes = library.refresh();
    // Each root is committed by itself.
    assert_eq!((changes.removed, changes.added), (1, 1));
    let entry = resolve(&library, "d/film.mp4");
    assert_eq!((entry.root, entry.size), (1, 10));
}

/// A change of a tree. All files have the same size, so that only names differ.
#[derive(Debug, Clone)]
enum TreeChange {
    Write(u8),
    Remove(u8),
    Rename(u8, u8),
    RemoveFolder(u8),
    Ask(u8),
}

fn deed() -> impl Strategy<Value = TreeChange> {
    let file = 0u8..12;
    prop_oneof![
        3 => file.clone().prop_map(TreeChange::Write),
        2 => file.clone().prop_map(TreeChange::Remove),
        2 => (file.clone(), file.clone()).prop_map(|(from, to)| TreeChange::Rename(from, to)),
        1 => (0u8..4).prop_map(TreeChange::RemoveFolder),
        1 => file.prop_map(TreeChange::Ask),
    ]
}

/// Twelve files in four folders, one of them below another.
fn path(file: u8) -> String {
    format!("{}/{}.mp4", folder(file % 4), file / 4)
}

fn folder(number: u8) -> &'static str {
    ["a", "b", "b/c", "d"][usize::from(number)]
}

fn apply(deed: &TreeChange, tree: &TempTree, library: &Library) {
    // Removing a missing file changes nothing.
    match deed {
        TreeChange::Write(file) => {
            tree.write(&path(*file), "x");
        }
        TreeChange::Remove(file) => drop(fs::remove_file(tree.at(&path(*file)))),
        TreeChange::Rename(from, to) => {
            drop(fs::rename(tree.at(&path(*from)), tree.at(&path(*to))));
        }
        TreeChange::RemoveFolder(number) => drop(fs::remove_dir_all(tree.at(folder(*number)))),
        TreeChange::Ask(file) => drop(library.resolve(&path(*file))),
    }
}

fn names(library: &Library) -> (BTreeSet<String>, u64) {
    let titles = library.titles();
    let paths = titles.iter().map(|title| title.path.to_string());
    (paths.collect(), library.counts().files)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn partial_scans_find_the_same_as_full_scans(
        rounds in prop::collection::vec(prop::collection::vec(deed(), 0..6), 1..6),
    ) {
        let tree = TempTree::new();
        tree.write("a/0.mp4", "x").write("b/c/0.mp4", "x");
        let library = believing(&[tree.path()]);
        for deeds in rounds {
            for deed in &deeds {
                apply(deed, &tree, &library);
            }
            library.refresh();
            sleep(TICK);
            let whole = scanned(&[tree.path()], Duration::ZERO);
            prop_assert_eq!(names(&library), names(&whole), "{:?}", deeds);
        }
    }
}
