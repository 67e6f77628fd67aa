//! A stream always stands for one version of the bytes.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use crate::common::{TempTree, fixture, resolve};
use headlong_library::{Library, LibraryOptions, RemovedStream, ResolveError, is_changed};

fn chunked() -> TempTree {
    let tree = TempTree::new();
    tree.write("t/v.m3u8", fixture("hls_fmp4.m3u8"));
    for name in ["init.mp4", "1.m4s", "2.m4s"] {
        tree.write(&format!("t/{name}"), name);
    }
    tree
}

#[test]
fn changed_chunk_makes_rendition_a_new_stream() {
    let tree = chunked();
    let library = tree.scan();
    let (old_init, old) = (
        resolve(&library, "t/init.mp4"),
        resolve(&library, "t/2.m4s"),
    );
    assert_eq!(old_init.stream.id, old.stream.id);
    tree.write("t/2.m4s", "another length");
    let new = resolve(&library, "t/2.m4s");
    assert_ne!(new.stream.id, old.stream.id);
    assert_eq!((new.size, new.part), (14, 2));
    assert_eq!(resolve(&library, "t/init.mp4").stream.id, new.stream.id);
    assert_eq!(new.stream.manifest_bit_rate, old.stream.manifest_bit_rate);
    let gone = RemovedStream {
        id: old.stream.id,
        is_regrouped: true,
    };
    assert_eq!(library.take_removed_streams(), [gone]);
    let error = old
        .stream
        .open(2)
        .expect_err("the old version was replaced");
    assert!(is_changed(&error), "{error}");
    assert!(old.stream.open(0).is_ok());
}

#[test]
fn file_truncated_under_reader_is_noticed() {
    let tree = TempTree::new();
    tree.write("film.mp4", [5; 4096]);
    let library = tree.scan();
    let entry = resolve(&library, "film.mp4");
    let file = entry.stream.open(0).expect("the file exists");
    assert!(entry.stream.unchanged(0, &file));
    assert!(!entry.stream.unchanged(1, &file));
    let truncate = fs::OpenOptions::new().write(true).open(tree.at("film.mp4"));
    truncate.expect("writable").set_len(100).expect("truncated");
    assert!(!entry.stream.unchanged(0, &file));
    assert_eq!(resolve(&library, "film.mp4").size, 100);
}

#[test]
fn link_mode_and_rename_cut_no_reply_and_keep_the_tag() {
    use std::os::unix::fs::PermissionsExt;
    let tree = TempTree::new();
    tree.write("film.mp4", "one");
    let library = tree.scan();
    let old = resolve(&library, "film.mp4");
    let file = old.stream.open(0).expect("the file exists");
    fs::hard_link(tree.at("film.mp4"), tree.at("snapshot")).expect("linked");
    let mode = fs::Permissions::from_mode(0o640);
    fs::set_permissions(tree.at("film.mp4"), mode).expect("changed");
    let new = resolve(&library, "film.mp4");
    assert_ne!(
        new.stream.id, old.stream.id,
        "the kernel tells no more than of a rewrite"
    );
    assert_eq!(new.distinction, None);
    assert_eq!(library.rescan().changed, 0);
    // Open files are unaffected.
    assert!(old.stream.unchanged(0, &file));
    assert!(old.stream.open(0).is_ok());
    fs::rename(tree.at("film.mp4"), tree.at("other.mp4")).expect("renamed");
    assert!(old.stream.unchanged(0, &file));
    fs::remove_file(tree.at("other.mp4")).expect("deleted");
    assert!(old.stream.unchanged(0, &file));
}

/// Gives a file an old modification time, always the same one.
fn set_time_back(path: &Path) {
    let time = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let file = File::options().write(true).open(path).expect("writable");
    file.set_modified(time).expect("a time");
}

#[test]
fn same_size_and_time_do_not_make_another_file_the_same_version() {
    let tree = TempTree::new();
    for name in ["a.mp4", "b", "c"] {
        tree.write(name, format!("bytes of {}", &name[..1]));
        set_time_back(&tree.at(name));
    }
    let library = tree.scan();
    let old = resolve(&library, "a.mp4");
    let file = old.stream.open(0).expect("the file exists");
    assert_eq!(old.distinction, None);
    fs::rename(tree.at("b"), tree.at("a.mp4")).expect("replaced");
    let new = resolve(&library, "a.mp4");
    assert_ne!(new.stream.id, old.stream.id);
    assert!(new.distinction.is_some(), "its tag must differ");
    assert!(old.stream.unchanged(0, &file), "the old one is complete");
    library.rescan();
    assert_eq!(resolve(&library, "a.mp4").distinction, new.distinction);
    // Missing in between.
    fs::remove_file(tree.at("a.mp4")).expect("removed");
    assert!(library.resolve("a.mp4").is_err());
    fs::rename(tree.at("c"), tree.at("a.mp4")).expect("replaced");
    let third = resolve(&library, "a.mp4");
    assert!(third.distinction.is_some() && third.distinction != new.distinction);
}

#[test]
fn file_rewritten_in_place_with_its_time_set_back_is_a_new_version() {
    let tree = TempTree::new();
    tree.write("a.mp4", "old bytes");
    set_time_back(&tree.at("a.mp4"));
    let library = tree.scan();
    let old = resolve(&library, "a.mp4");
    let file = old.stream.open(0).expect("the file exists");
    assert!(old.stream.unchanged(0, &file));
    fs::write(tree.at("a.mp4"), "new bytes").expect("written");
    // Seen while its time is new.
    let young = resolve(&library, "a.mp4");
    assert!(!young.identity.is_settled);
    set_time_back(&tree.at("a.mp4"));
    let new = resolve(&library, "a.mp4");
    assert!(old.identity.has_bytes_of(&new.identity), "by size and time");
    assert_ne!(new.stream.id, old.stream.id);
    assert_ne!(new.stream.lasting_name(), old.stream.lasting_name());
    assert!(new.distinction.is_some(), "its tag must differ");
    assert!(!old.stream.unchanged(0, &file), "no reply mixes both");
    assert!(is_changed(&old.stream.open(0).expect_err("rewritten")));
}

#[test]
fn each_part_of_stream_has_full_path() {
    let tree = chunked();
    let library = tree.scan();
    let stream = resolve(&library, "t/1.m4s").stream.clone();
    let paths: Vec<_> = stream
        .parts
        .iter()
        .map(|part| stream.path_of(part))
        .collect();
    let names = ["t/init.mp4", "t/1.m4s", "t/2.m4s"];
    let expected = names.map(|name| tree.at(name).display().to_string());
    assert_eq!(paths, expected);
}

#[test]
fn recently_written_file_is_new_version_once_settled() {
    let tree = TempTree::new();
    fs::write(tree.at("film.mp4"), "one").expect("written");
    let options = LibraryOptions {
        revalidate: Duration::ZERO,
        settle_file: Duration::from_secs(1),
        ..LibraryOptions::default()
    };
    let library = Library::scan_with(&[tree.path()], options).expect("scanned");
    let first = resolve(&library, "film.mp4");
    assert!(!first.identity.is_settled, "settled although just written");
    let settled = loop {
        let entry = resolve(&library, "film.mp4");
        if entry.identity.is_settled {
            break entry;
        }
        assert_eq!(entry.stream.id, first.stream.id);
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_ne!(settled.stream.id, first.stream.id);
    assert!(first.identity.has_bytes_of(&settled.identity));
}

#[test]
fn replaced_file_is_new_version_and_open_one_readable() {
    let tree = TempTree::new();
    tree.write("film.mp4", "old").write("upload", "new bytes");
    let library = tree.scan();
    let old = resolve(&library, "film.mp4");
    let mut file = old.stream.open(old.part).expect("the file exists");
    fs::rename(tree.at("upload"), tree.at("film.mp4")).expect("replaced");
    let new = resolve(&library, "film.mp4");
    assert_ne!(new.stream.id, old.stream.id);
    let mut text = String::new();
    file.read_to_string(&mut text).expect("readable");
    assert_eq!(text, "old");
    assert!(matches!(
        library.resolve("upload"),
        Err(ResolveError::NotFound(_))
    ));
}

#[test]
fn deleted_chunk_leaves_stream_of_the_others() {
    let tree = chunked();
    let library = tree.scan();
    let old = resolve(&library, "t/1.m4s").stream.id;
    fs::remove_file(tree.at("t/1.m4s")).expect("deleted");
    assert!(matches!(
        library.resolve("t/1.m4s"),
        Err(ResolveError::NotFound(_))
    ));
    let left = resolve(&library, "t/2.m4s");
    assert_eq!((left.stream.parts.len(), left.part), (2, 1));
    let gone = library.take_removed_streams();
    assert_eq!(gone.iter().map(|gone| gone.id).collect::<Vec<_>>(), [old]);
    assert!(library.take_removed_streams().is_empty());
}

#[test]
fn file_replaced_by_directory_and_back_is_tracked() {
    let tree = TempTree::new();
    tree.write("x", "file");
    let library = tree.scan();
    let first = resolve(&library, "x").stream.id;
    fs::remove_file(tree.at("x")).expect("deleted");
    fs::create_dir(tree.at("x")).expect("created");
    assert!(matches!(
        library.resolve("x"),
        Err(ResolveError::Directory(_))
    ));
    fs::remove_dir(tree.at("x")).expect("deleted");
    tree.write("x", "file");
    assert_ne!(resolve(&library, "x").stream.id, first);
}

#[test]
fn new_file_is_found_at_once_and_joins_at_next_scan() {
    let tree = chunked();
    fs::remove_file(tree.at("t/2.m4s")).expect("deleted");
    let library = tree.scan();
    let before = resolve(&library, "t/1.m4s").stream.id;
    tree.write("t/2.m4s", "late");
    let alone = resolve(&library, "t/2.m4s");
    assert_eq!(alone.stream.parts.len(), 1);
    let changes = library.rescan();
    let joined = resolve(&library, "t/2.m4s");
    assert_eq!((joined.stream.parts.len(), joined.part), (3, 2));
    let gone = [before, alone.stream.id].map(|id| RemovedStream {
        id,
        is_regrouped: true,
    });
    assert_eq!(changes.gone_streams, gone);
}

#[test]
fn scan_keeps_ids_of_unchanged_files() {
    let tree = chunked();
    tree.write("a.mp4", "a")
        .write("b.mp4", "b")
        .write("c.mp4", "c");
    let library = tree.scan();
    let kept: Vec<u64> = ["t/1.m4s", "a.mp4"]
        .map(|p| resolve(&library, p).stream.id)
        .to_vec();
    let gone: Vec<u64> = ["b.mp4", "c.mp4"]
        .map(|p| resolve(&library, p).stream.id)
        .to_vec();
    tree.write("b.mp4", "changed").write("new.mp4", "n");
    fs::remove_file(tree.at("c.mp4")).expect("deleted");
    let changes = library.rescan();
    assert_eq!((changes.added, changes.removed, changes.changed), (1, 1, 1));
    let mut ids = gone.clone();
    ids.sort_unstable();
    let gone = changes.gone_streams.iter();
    assert_eq!(gone.map(|gone| gone.id).collect::<Vec<_>>(), ids);
    let after: Vec<u64> = ["t/1.m4s", "a.mp4"]
        .map(|p| resolve(&library, p).stream.id)
        .to_vec();
    assert_eq!(after, kept);
    assert_eq!(library.rescan(), headlong_library::ScanChanges::default());
}

#[test]
fn changed_manifest_reorders_its_files() {
    let tree = chunked();
    let library = tree.scan();
    let text = fixture("hls_fmp4.m3u8")
        .replace("1.m4s", "x")
        .replace("2.m4s", "1.m4s");
    tree.write("t/v.m3u8", text.replace("\nx\n", "\n2.m4s\n"));
    library.rescan();
    assert_eq!(resolve(&library, "t/1.m4s").part, 2);
    fs::remove_file(tree.at("t/v.m3u8")).expect("deleted");
    library.rescan();
    assert_eq!(resolve(&library, "t/1.m4s").stream.parts.len(), 1);
}

#[test]
fn recently_checked_file_is_trusted_for_a_while() {
    let tree = TempTree::new();
    tree.write("film.mp4", "one");
    let options = LibraryOptions {
        revalidate: Duration::from_secs(3600),
        ..LibraryOptions::default()
    };
    let library = Library::scan_with(&[tree.path()], options).expect("scanned");
    let entry = resolve(&library, "film.mp4");
    fs::remove_file(tree.at("film.mp4")).expect("deleted");
    assert_eq!(resolve(&library, "film.mp4").stream.id, entry.stream.id);
    // It cannot be opened any more, under this id or another.
    assert!(is_changed(&entry.stream.open(0).expect_err("removed")));
    library.rescan();
    assert!(library.resolve("film.mp4").is_err());
}

#[test]
fn concurrent_threads_see_one_version_each_time() {
    let tree = chunked();
    let library = tree.scan();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    if let Ok(entry) = library.resolve("t/1.m4s") {
                        let part = &entry.stream.parts[entry.part as usize];
                        assert_eq!((part.identity, &part.path), (entry.identity, &entry.path));
                    }
                }
            });
        }
        for i in 0..100 {
            tree.write("t/1.m4s", "x".repeat(i));
            if i % 10 == 0 {
                library.rescan();
            }
        }
    });
    let last = resolve(&library, "t/1.m4s");
    assert_eq!((last.size, last.stream.parts.len()), (99, 3));
}

#[test]
fn flash_key_is_stable_and_unique_per_file_and_version() {
    let tree = TempTree::new();
    tree.write("a.mp4", "one").write("b.mp4", "one");
    let key = |library: &Library, path| resolve(library, path).stream.spec().parts[0].flash_key;
    let library = tree.scan();
    let (a, b) = (key(&library, "a.mp4"), key(&library, "b.mp4"));
    assert!(a.is_some() && b.is_some());
    assert_ne!(a, b);
    assert_eq!(key(&tree.scan(), "a.mp4"), a, "differs in another process");
    tree.write("a.mp4", "other bytes");
    assert_ne!(key(&library, "a.mp4"), a);
    // Until it has settled, other bytes may have the same length and mtime.
    fs::write(tree.at("c.mp4"), "one").expect("written");
    assert_eq!(key(&library, "c.mp4"), None);
}

#[test]
fn reused_inode_with_same_times_has_other_flash_key() {
    let tree = TempTree::new();
    tree.write("a.mp4", "one");
    let path = tree.at("a.mp4");
    let key = || resolve(&tree.scan(), "a.mp4").stream.spec().parts[0].flash_key;
    let (first, before) = (key(), fs::metadata(&path).expect("there"));
    assert!(first.is_some());
    // Most file systems reuse the inode number of a removed file.
    let has_its_inode = (0..1000).any(|_| {
        fs::remove_file(&path).expect("removed");
        tree.write("a.mp4", "two");
        fs::metadata(&path).expect("there").ino() == before.ino()
    });
    let file = File::options().write(true).open(&path).expect("opens");
    file.set_modified(before.modified().expect("a time"))
        .expect("set");
    assert_ne!(key(), first, "has its inode: {has_its_inode}");
}
