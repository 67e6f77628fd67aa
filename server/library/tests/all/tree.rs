//! Kinds of directory entries, and their treatment.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::{TempTree, fixture, resolve, scan, stream_of};
use headlong_engine::StreamSpec;
use headlong_library::{
    FolderContent, FolderEntryKind, Library, LibraryOptions, RecordKind, ResolveError, RootError,
    ScanChanges,
};

#[test]
fn all_wrong_roots_are_reported_together() {
    let tree = TempTree::new();
    tree.write("file", "x").write("good/inner/film.mp4", "x");
    let roots = [
        "good",
        "missing",
        "file",
        "good",
        "good/inner",
        "good/../good",
    ];
    let roots: Vec<PathBuf> = roots.map(|root| tree.at(root)).to_vec();
    let errors = Library::scan(&roots).expect_err("five of them are wrong");
    assert!(
        matches!(
            &errors[..],
            [
                RootError::Missing { .. },
                RootError::NotADirectory { .. },
                RootError::Duplicate { .. },
                RootError::Nested { .. },
                RootError::Duplicate { .. },
            ]
        ),
        "{errors:?}"
    );
    for error in &errors {
        let text = error.to_string();
        assert!(text.contains(&tree.path().display().to_string()), "{text}");
    }
    assert!(matches!(
        &Library::scan(&[]).expect_err("none")[..],
        [RootError::None]
    ));
}

#[test]
fn several_roots_are_one_tree_and_first_wins() {
    let (first, second) = (TempTree::new(), TempTree::new());
    first.write("both.mp4", "first").write("a/x.mp4", "x");
    second.write("both.mp4", "2").write("a/y.mp4", "y");
    let library = scan(&[first.path(), second.path()]);
    let both = resolve(&library, "both.mp4");
    assert_eq!((both.root, both.size), (0, 5));
    assert_eq!(resolve(&library, "a/y.mp4").root, 1);
    fs::remove_file(first.at("both.mp4")).expect("deleted");
    assert_eq!(resolve(&library, "both.mp4").root, 1);
    first.write("a/y.mp4", "now here");
    assert_eq!(
        resolve(&library, "a/y.mp4").root,
        1,
        "another disk was checked"
    );
    library.refresh();
    assert_eq!(resolve(&library, "a/y.mp4").root, 0);
    assert_eq!(library.titles().len(), 3);
}

#[test]
fn parts_on_different_devices_become_different_streams() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let (disk, memory) = (TempTree::new(), TempTree(memory));
    disk.write("t/v.m3u8", fixture("hls_fmp4.m3u8"));
    disk.write("t/init.mp4", "i").write("t/2.m4s", "2");
    memory.write("t/1.m4s", "1");
    let library = scan(&[disk.path(), memory.path()]);
    let devices = library.devices();
    let (init, one) = (
        resolve(&library, "t/init.mp4"),
        resolve(&library, "t/1.m4s"),
    );
    for file in [&init, &one] {
        assert!(devices[file.device].st_devs.contains(&file.identity.dev));
    }
    if devices.len() == 1 {
        return; // Temporary directories lie in memory on this machine too.
    }
    assert_eq!(devices[0].roots, [disk.path()]);
    assert_eq!(stream_of(&library, "t/2.m4s").0, ["t/init.mp4", "t/2.m4s"]);
    assert_eq!(stream_of(&library, "t/1.m4s").0, ["t/1.m4s"]);
    assert!(
        devices
            .iter()
            .all(|device| device.capacity_bytes > 0 && !device.name.is_empty())
    );
}

#[test]
fn files_outside_or_hidden_are_not_found() {
    let outer = TempTree::new();
    outer
        .write("secret.mp4", "secret")
        .write("root/film.mp4", "f")
        .write("root/.hidden/x.mp4", "h");
    outer.write("root/.env", "h").write("root/a/b.mp4", "b");
    symlink(outer.at("secret.mp4"), outer.at("root/out.mp4")).expect("link");
    symlink("../../secret.mp4", outer.at("root/a/out.mp4")).expect("link");
    symlink(outer.path(), outer.at("root/up")).expect("link");
    symlink("loop", outer.at("root/loop")).expect("link");
    symlink("nowhere", outer.at("root/dangling")).expect("link");
    let library = scan(&[outer.at("root")]);
    for path in [
        "out.mp4",
        "a/out.mp4",
        "up/secret.mp4",
        "loop",
        "dangling",
        ".env",
        ".hidden/x.mp4",
        "a",
        "",
        "/film.mp4",
        "../secret.mp4",
        "a/../film.mp4",
        "film.mp4/",
        "film.mp4/x",
        "a\0b",
        "./film.mp4",
    ] {
        assert!(library.resolve(path).is_err(), "{path}");
    }
    assert!(library.resolve(&"x".repeat(5000)).is_err());
    assert!(library.resolve(&"x".repeat(300)).is_err());
    let paths: Vec<_> = library
        .titles()
        .into_iter()
        .map(|title| title.path)
        .collect();
    assert_eq!(paths, ["/a/b.mp4", "/film.mp4"]);
    let counts = library.counts();
    assert_eq!((counts.files, counts.hidden, counts.links), (2, 2, 5));
    assert_eq!(counts.links_out, 3);
    let warnings = library.warnings();
    let warned: Vec<&str> = warnings.iter().map(|of| of.path.as_str()).collect();
    for path in ["out.mp4", "a/out.mp4", "up"] {
        assert!(warned.contains(&path), "{warned:?}");
    }
    assert!(warnings[0].reason.contains("link_targets"));
    assert!(library.refresh().warnings.is_empty(), "each once");
    assert_eq!(library.warnings().len(), 3);
    let told = headlong_library::links_out(&[outer.at("root")], 0);
    assert_eq!(told.len(), 2, "not below it: {told:?}");
}

#[test]
fn link_into_listed_target_is_followed_by_scans_and_requests() {
    let (root, disk, other) = (TempTree::new(), TempTree::new(), TempTree::new());
    let media = "#EXTM3U\n#EXTINF:4,\n1.ts\n#EXTINF:4,\n2.ts\n#EXT-X-ENDLIST\n";
    disk.write("films/a.mp4", "a").write("hls/v.m3u8", media);
    disk.write("hls/1.ts", "1").write("hls/2.ts", "2");
    other.write("b.mp4", "b");
    symlink(disk.path(), root.at("disk2")).expect("link");
    symlink(disk.at("films/a.mp4"), root.at("alone.mp4")).expect("link");
    symlink(disk.at("hls/v.m3u8"), root.at("linked.m3u8")).expect("link");
    symlink(other.path(), root.at("out")).expect("link");
    // A directory that contains itself, and a way back.
    symlink("..", disk.at("films/up")).expect("link");
    symlink(root.path(), disk.at("back")).expect("link");
    symlink(other.at("b.mp4"), disk.at("b.mp4")).expect("link");
    let options = LibraryOptions {
        revalidate: Duration::ZERO,
        unserved_roots: 1,
        link_targets: 1,
        ..LibraryOptions::default()
    };
    let library = Library::scan_with(&[root.path(), disk.path()], options).expect("scanned");
    let paths = || -> Vec<String> {
        let titles = library.titles().into_iter();
        titles.map(|title| title.path).collect()
    };
    let titles = paths();
    assert_eq!(titles.len(), 3, "{titles:?}");
    for path in ["/alone.mp4", "/disk2/films/a.mp4", "/disk2/hls/v.m3u8"] {
        assert!(titles.iter().any(|title| title == path), "{titles:?}");
    }
    let film = resolve(&library, "disk2/films/a.mp4");
    assert_eq!((&*film.path, film.size), ("disk2/films/a.mp4", 1));
    let mut text = String::new();
    let mut file = film.stream.open(film.part).expect("opened");
    file.read_to_string(&mut text).expect("read");
    assert_eq!(text, "a");
    assert!(film.stream.unchanged(film.part, &file));
    assert_eq!(resolve(&library, "disk2/hls/2.ts").stream.parts.len(), 2);
    assert_eq!(resolve(&library, "linked.m3u8").size, media.len() as u64);
    for outside in [
        "out/b.mp4",
        "disk2/b.mp4",
        "films/a.mp4",
        "disk2/hls/../../x",
    ] {
        assert!(library.resolve(outside).is_err(), "{outside}");
    }
    assert_eq!(library.counts().links_out, 2);
    assert!(library.refresh().warnings.is_empty());
    assert_eq!(paths(), titles);
    // A target that appears later.
    symlink(disk.at("late"), root.at("late")).expect("link");
    library.refresh();
    assert_eq!(library.counts().links_out, 2, "its target is listed");
    disk.write("late/c.mp4", "c");
    library.refresh();
    assert_eq!(paths().len(), titles.len() + 1);
    // Another target takes effect at once.
    fs::remove_file(root.at("disk2")).expect("removed");
    symlink(other.path(), root.at("disk2")).expect("link");
    for path in ["disk2/films/a.mp4", "disk2/b.mp4"] {
        assert!(library.resolve(path).is_err(), "{path}");
    }
    assert!(film.stream.open(film.part).is_err());
}

#[test]
fn link_inside_root_returns_its_target() {
    let tree = TempTree::new();
    tree.write("all/film.mp4", "film")
        .write(".store/object", "hidden but linked");
    symlink("all/film.mp4", tree.at("new.mp4")).expect("link");
    symlink(tree.at("all"), tree.at("absolute")).expect("link");
    symlink(".store/object", tree.at("annexed.mp4")).expect("link");
    symlink("..", tree.at("all/up")).expect("link");
    let library = tree.scan();
    let film = resolve(&library, "all/film.mp4");
    for path in ["new.mp4", "absolute/film.mp4", "all/up/all/up/new.mp4"] {
        assert_eq!(resolve(&library, path).stream.id, film.stream.id, "{path}");
    }
    assert_eq!(resolve(&library, "annexed.mp4").size, 17);
    assert_eq!(library.titles().len(), 1);
}

#[test]
fn file_replaced_by_link_out_is_not_followed() {
    let outer = TempTree::new();
    outer
        .write("secret", "secret")
        .write("root/film.mp4", "film");
    let library = scan(&[outer.at("root")]);
    let entry = resolve(&library, "film.mp4");
    fs::remove_file(outer.at("root/film.mp4")).expect("deleted");
    symlink(outer.at("secret"), outer.at("root/film.mp4")).expect("link");
    let error = entry.stream.open(0).expect_err("replaced by a link");
    assert!(headlong_library::is_changed(&error), "{error}");
    assert!(matches!(
        library.resolve("film.mp4"),
        Err(ResolveError::NotFound(_))
    ));
}

#[test]
fn special_files_are_counted_and_never_opened() {
    let tree = TempTree::new();
    tree.write("film.mp4", "f");
    let fifo = tree.at("pipe.m3u8");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .expect("a FIFO");
    let _socket = UnixListener::bind(tree.at("socket.mp4")).expect("a socket");
    let library = tree.scan();
    assert_eq!(library.counts().special, 2);
    for path in ["pipe.m3u8", "socket.mp4"] {
        assert!(
            matches!(library.resolve(path), Err(ResolveError::NotRegular(_))),
            "{path}"
        );
    }
    // A FIFO that replaces a known file does not block on a writer.
    let entry = resolve(&library, "film.mp4");
    fs::remove_file(tree.at("film.mp4")).expect("deleted");
    fs::rename(fifo, tree.at("film.mp4")).expect("replaced");
    assert!(headlong_library::is_changed(
        &entry.stream.open(0).expect_err("replaced by a FIFO")
    ));
}

#[test]
fn unusual_names_and_sizes_are_served() {
    let tree = TempTree::new();
    let names = [
        "with space.mp4",
        "ünïcödé 映画.mp4",
        "100%.mp4",
        "a#b?c.mp4",
        "-dash.mp4",
        "q\"uo\te.mp4",
    ];
    for name in names {
        tree.write(name, name);
    }
    tree.write("empty.mp4", "");
    fs::write(
        tree.at("x")
            .with_file_name(OsStr::from_bytes(b"bad\xff.mp4")),
        "x",
    )
    .expect("written");
    let library = tree.scan();
    for name in names {
        assert_eq!(resolve(&library, name).size, name.len() as u64);
    }
    let empty = resolve(&library, "empty.mp4");
    let spec = empty.stream.spec();
    assert_eq!(
        (empty.size, spec.parts[0].size_bytes, spec.bit_rate),
        (0, 0, None)
    );
    assert!(spec.parts[0].extents.is_empty());
    assert!(empty.stream.open(0).is_ok());
    let text = headlong_units::path_text(b"bad\xff.mp4");
    assert_eq!(resolve(&library, &text).size, 1);
    let titles = library.titles();
    let title = titles.iter().find(|title| title.path == "/bad%FF.mp4");
    assert_eq!(title.expect("it is listed").name, "bad\u{fffd}");
    assert_eq!(titles.len(), names.len() + 1);
    assert!(library.warnings().is_empty());
}

#[test]
fn name_is_found_in_either_normal_form_and_exact_one_wins() {
    let tree = TempTree::new();
    let (composed, decomposed) = ("\u{fc}/\u{e9}.mp4", "u\u{308}/e\u{301}.mp4");
    tree.write(composed, "composed");
    let library = tree.scan();
    for asked in [composed, decomposed, "\u{fc}/e\u{301}.mp4"] {
        assert_eq!(&*resolve(&library, asked).path, composed);
    }
    assert!(library.resolve("u\u{308}/e.mp4").is_err());
    tree.write(decomposed, "decomposed");
    for exact in [composed, decomposed] {
        assert_eq!(&*resolve(&library, exact).path, exact);
    }
}

#[test]
fn manifest_names_files_in_either_normal_form() {
    let tree = TempTree::new();
    let media = "#EXTM3U\n#EXTINF:4,\n\u{fc}1.ts\n#EXTINF:4,\n%C3%BC2.ts\n#EXT-X-ENDLIST\n";
    let master = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1000\n\u{fc}.m3u8\n";
    tree.write("master.m3u8", master);
    tree.write("u\u{308}.m3u8", media);
    for name in ["u\u{308}1.ts", "u\u{308}2.ts"] {
        tree.write(name, name);
    }
    let library = tree.scan();
    assert!(library.warnings().is_empty(), "{:?}", library.warnings());
    let titles: Vec<String> = library
        .titles()
        .into_iter()
        .map(|title| title.path)
        .collect();
    assert_eq!(titles, ["/master.m3u8"]);
    let first = resolve(&library, "\u{fc}1.ts");
    assert_eq!(
        (first.stream.parts.len(), &*first.stream.title),
        (2, "master.m3u8")
    );
}

/// Runs as a user without permissions: only this thread changes its user id.
fn as_nobody(call: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("permitted for root");
        }
        call();
    });
    thread.join().expect("no panic");
}

#[test]
fn unreadable_directory_causes_warning_and_is_left_out() {
    let tree = TempTree::new();
    let mode = |path: &str, mode| {
        fs::set_permissions(tree.at(path), fs::Permissions::from_mode(mode)).expect("set");
    };
    tree.write("closed/x.mp4", "x").write("open.mp4", "o");
    fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o755)).expect("set");
    mode("closed", 0o755);
    mode("open.mp4", 0o644);
    let path = tree.path().to_path_buf();
    let closed = tree.at("closed");
    as_nobody(move || {
        let library = scan(&[path]);
        assert_eq!((library.titles().len(), library.warnings().len()), (2, 0));
    });
    mode("closed", 0o700);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("closed");
    let path = tree.path().to_path_buf();
    as_nobody(move || {
        let library = scan(&[path]);
        assert_eq!(library.warnings()[0].path, "closed");
        let said = &library.warnings()[0].reason;
        assert!(said.contains("left out"), "{said}");
        assert_eq!(library.titles().len(), 1);
        assert_eq!(resolve(&library, "open.mp4").size, 1);
    });
    mode("closed", 0o700);
}

#[test]
fn file_in_unlistable_directory_is_kept() {
    let tree = TempTree::new();
    tree.write("closed/deep/x.mp4", "x").write("open.mp4", "o");
    let closed = tree.at("closed");
    for (path, mode) in [(tree.path(), 0o755), (closed.clone(), 0o311)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    }
    let path = tree.path().to_path_buf();
    as_nobody(move || {
        let library = scan(&[path]);
        assert_eq!(library.titles().len(), 1);
        let id = || resolve(&library, "closed/deep/x.mp4").stream.id;
        let first = id();
        assert_eq!(
            library.refresh(),
            ScanChanges::default(),
            "the scan found changes"
        );
        let again = library.rescan();
        assert_eq!((again.gone_streams.len(), id()), (0, first));
    });
    fs::set_permissions(closed, fs::Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn unreadable_manifest_is_read_by_next_scan() {
    let tree = TempTree::new();
    tree.write("t/v.m3u8", fixture("hls_fmp4.m3u8"));
    for name in ["init.mp4", "1.m4s", "2.m4s"] {
        tree.write(&format!("t/{name}"), name);
    }
    let (manifest, path) = (tree.at("t/v.m3u8"), tree.path());
    for open in [&path, &tree.at("t")] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).expect("set");
    }
    let library = std::sync::Arc::new(std::sync::OnceLock::new());
    let part = |library: &std::sync::OnceLock<Library>| {
        resolve(library.get().expect("the library"), "t/2.m4s").part
    };
    fs::set_permissions(&manifest, fs::Permissions::from_mode(0o000)).expect("set");
    as_nobody({
        let library = std::sync::Arc::clone(&library);
        move || {
            let found = library.get_or_init(|| scan(&[path]));
            let said = &found.warnings()[0].reason;
            assert!(said.contains("could not be read"), "{said}");
            assert_eq!(part(&library), 0);
        }
    });
    fs::set_permissions(&manifest, fs::Permissions::from_mode(0o644)).expect("set");
    as_nobody(move || {
        library.get().expect("the library").refresh();
        assert_eq!(part(&library), 2);
    });
}

#[test]
fn unreadable_file_is_a_title_with_a_remark_until_it_is_readable() {
    let tree = TempTree::new();
    tree.write("a.mp4", "a").write("b.mp4", "b");
    let (file, path) = (tree.at("a.mp4"), tree.path());
    let mode = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    };
    mode(&path, 0o755);
    mode(&tree.at("b.mp4"), 0o644);
    mode(&file, 0o000);
    let library = std::sync::Arc::new(std::sync::OnceLock::new());
    let remarks = |library: &Library| -> Vec<bool> {
        let titles = library.titles().into_iter();
        let said = |odd: String| odd.contains("give that user read permission");
        titles.map(|title| title.odd.is_some_and(said)).collect()
    };
    let names = |library: &Library| {
        let FolderContent::Names(names) = library.list_folder(0, "", None) else {
            panic!("not listed");
        };
        let served = names
            .iter()
            .filter(|name| name.kind != FolderEntryKind::Unserved);
        served.count()
    };
    as_nobody({
        let library = std::sync::Arc::clone(&library);
        move || {
            let options = LibraryOptions {
                settle: Duration::ZERO,
                ..LibraryOptions::default()
            };
            let opened = || Library::open(&[path], options).expect("a valid root");
            let found = library.get_or_init(opened);
            found.rescan();
            assert_eq!((remarks(found), names(found)), (vec![true, false], 1));
            // It is remembered with the names of an unchanged folder.
            found.refresh();
            assert_eq!((remarks(found), names(found)), (vec![true, false], 1));
        }
    });
    mode(&file, 0o644);
    as_nobody(move || {
        let library = library.get().expect("the library");
        library.refresh();
        assert_eq!((remarks(library), names(library)), (vec![false, false], 2));
    });
}

/// A user without access to a folder does not get its files from memory.
#[test]
fn directory_that_becomes_unreadable_is_left_out() {
    let tree = TempTree::new();
    tree.write("closed/x.mp4", "x").write("open.mp4", "o");
    let closed = tree.at("closed");
    for (path, mode) in [(tree.path(), 0o755), (closed.clone(), 0o755)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    }
    let path = tree.path().to_path_buf();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let (shut, is_shut) = std::sync::mpsc::channel::<()>();
    let closer = std::thread::spawn({
        let closed = closed.clone();
        move || {
            is_ready.recv().expect("scanned");
            fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("closed");
            shut.send(()).expect("waited for");
        }
    });
    as_nobody(move || {
        let library = scan(&[path]);
        assert_eq!(library.titles().len(), 2);
        ready.send(()).expect("waited for");
        is_shut.recv().expect("closed");
        library.refresh();
        assert_eq!(library.titles().len(), 1);
        assert!(library.resolve("closed/x.mp4").is_err());
    });
    closer.join().expect("no panic");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("opened");
}

#[test]
fn directories_beyond_depth_limit_cause_warning() {
    let tree = TempTree::new();
    let path = |depth: usize| "d/".repeat(depth) + "film.mp4";
    tree.write(&path(64), "x").write(&path(65), "x");
    let library = tree.scan();
    assert_eq!(library.counts().files, 1);
    let warnings = library.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].reason.contains("more than 64"), "{warnings:?}");
    assert_eq!(resolve(&library, &path(64)).size, 1);
}

#[test]
fn twenty_thousand_files_are_scanned_and_kept() {
    let tree = TempTree::new();
    for directory in 0..100 {
        fs::create_dir(tree.at(&format!("d{directory}"))).expect("created");
        for file in 0..200 {
            tree.write(&format!("d{directory}/{file}.ts"), "x");
        }
    }
    let library = tree.scan();
    assert_eq!(library.counts().files, 20_000);
    let id = resolve(&library, "d50/100.ts").stream.id;
    assert_eq!(library.rescan(), ScanChanges::default());
    assert_eq!(resolve(&library, "d50/100.ts").stream.id, id);
    assert!(library.titles().is_empty());
}

#[test]
fn extents_lie_within_file_in_order() {
    let tree = TempTree::new();
    tree.write("film.mp4", vec![7; 1_000_001]);
    let library = tree.scan();
    let stream = resolve(&library, "film.mp4").stream.clone();
    assert!(stream.spec().parts[0].extents.is_empty(), "no neighbour");
    let located = stream.locate(0, &stream.open(0).expect("there"));
    let spec = stream.spec();
    let part = &spec.parts[0];
    assert_eq!(part.size_bytes, 1_000_001);
    // Empty if the file system does not report extents.
    assert_eq!(part.extents, located.unwrap_or_default());
    let mut end = 0;
    for extent in &part.extents {
        assert!(extent.offset >= end && extent.length > 0);
        end = extent.offset + extent.length;
        assert!(end <= part.size_bytes);
    }
}

/// Opens made to describe a file.
fn opens_of(library: &Library, name: &str) -> (StreamSpec, usize) {
    let mut opens = 0;
    let stream = &resolve(library, name).stream;
    let spec = stream.describe(&mut |_, _| opens += 1);
    (spec, opens)
}

#[test]
fn place_is_known_to_next_process_without_an_open() {
    let tree = TempTree::new();
    tree.write("a.mp4", vec![7; 100_000])
        .write("b.mp4", vec![8; 100_000])
        .write("c.mp4", vec![9; 100_000]);
    let first = tree.scan();
    let locate = |name| {
        let stream = &resolve(&first, name).stream;
        stream.locate(0, &stream.open(0).expect("there"))
    };
    let (Some(place_a), Some(place_b)) = (locate("a.mp4"), locate("b.mp4")) else {
        return println!("skipped: the file system reports no extents");
    };
    let flash_key = resolve(&first, "a.mp4").stream.spec().parts[0].flash_key;
    let records = first.take_new_records(RecordKind::Places);
    assert_eq!(first.all_records(RecordKind::Places).len(), records.len());

    // Another version, and a damaged record.
    tree.write("b.mp4", vec![1; 100_000]);
    let next = tree.scan();
    let loaded = next.recall_records(RecordKind::Places, &records[..records.len() - 1]);
    assert_eq!((loaded.records, loaded.damaged), (1, 1));
    let next = tree.scan();
    let loaded = next.recall_records(RecordKind::Places, &records);
    assert_eq!((loaded.records, loaded.damaged), (2, 0));
    let (spec, opens) = opens_of(&next, "a.mp4");
    assert_eq!((&spec.parts[0].extents, opens), (&place_a, 0));
    assert_eq!(spec.parts[0].flash_key, flash_key);
    let (spec, opens) = opens_of(&next, "b.mp4");
    assert_eq!(opens, 1, "another version is described again");
    assert_ne!(spec.parts[0].extents, place_b);
    // An unknown file is assumed to lie near its neighbour.
    let (spec, opens) = opens_of(&next, "c.mp4");
    assert_eq!(opens, 1);
    assert_eq!(spec.parts[0].extents[0].physical, place_a[0].physical);
    assert!(next.take_new_records(RecordKind::Places).is_empty());
}

#[test]
fn subtitles_beside_plain_file_are_listed_with_it() {
    let tree = TempTree::new();
    tree.write("a/film one.mp4", "x")
        .write("a/film one.vtt", "WEBVTT")
        .write("a/film one.de.vtt", "WEBVTT")
        .write("a/other.mp4", "x");
    let library = scan(&[tree.path()]);
    let titles = library.titles();
    let texts = titles[0].texts.iter();
    let texts = texts.map(|text| (text.path.as_str(), text.language.as_deref()));
    let expected = [
        ("/a/film%20one.vtt", None),
        ("/a/film%20one.de.vtt", Some("de")),
    ];
    assert_eq!(texts.collect::<Vec<_>>(), expected);
    assert_eq!(titles[1].texts, []);
}
