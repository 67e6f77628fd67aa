//! Roots at a prefix of the tree, and of different sites.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use crate::common::{TempTree, resolve, stream_of};
use headlong_library::{Library, LibraryOptions, MountedRoot, ResolveError};

const PLAYLIST: &str = "#EXTM3U\n#EXTINF:4,\n1.ts\n#EXTINF:4,\n/v/2.ts\n#EXT-X-ENDLIST\n";

fn open(roots: &[(&str, &TempTree)]) -> Library {
    let mounted = |(prefix, tree): &(&str, &TempTree)| MountedRoot::at(*prefix, &tree.path());
    let roots: Vec<_> = roots.iter().map(mounted).collect();
    let options = LibraryOptions {
        revalidate: Duration::ZERO,
        ..LibraryOptions::default()
    };
    Library::open_mounted(&roots, options).expect("valid roots")
}

fn title_paths(library: &Library) -> Vec<String> {
    let titles = library.titles().into_iter();
    titles.map(|title| title.path).collect()
}

/// A tree with a title of two files.
fn title(tree: &TempTree) {
    tree.write("v/m.m3u8", PLAYLIST)
        .write("v/1.ts", "1")
        .write("v/2.ts", "22");
}

#[test]
fn root_at_prefix_covers_what_others_have_there() {
    let (top, films) = (TempTree::new(), TempTree::new());
    top.write("a.mp4", "a").write("films/secret.mp4", "s");
    top.write("filmsx/b.mp4", "b");
    films.write("c.mp4", "cc").write("d/e.mp4", "e");
    let library = open(&[("", &top), ("films/", &films)]);
    library.rescan();
    let expected = ["/a.mp4", "/films/c.mp4", "/films/d/e.mp4", "/filmsx/b.mp4"];
    assert_eq!(title_paths(&library), expected);
    assert_eq!(resolve(&library, "films/c.mp4").root, 1);
    assert_eq!(resolve(&library, "filmsx/b.mp4").root, 0);
    for missing in ["films/secret.mp4", "c.mp4", "films/a.mp4"] {
        let found = library.resolve(missing);
        assert!(matches!(found, Err(ResolveError::NotFound(_))), "{missing}");
    }
    assert!(matches!(
        library.resolve("films"),
        Err(ResolveError::Directory(_))
    ));
    let file = resolve(&library, "films/d/e.mp4");
    file.stream.open(file.part).expect("opened by its own root");
    symlink("d/e.mp4", films.path().join("link.mp4")).expect("linked");
    let real = resolve(&library, "films/link.mp4");
    assert_eq!(&*real.path, "films/d/e.mp4");
    // A link to what is covered leads to no file.
    symlink("films/secret.mp4", top.path().join("link.mp4")).expect("linked");
    library.resolve("link.mp4").expect_err("covered");
}

#[test]
fn equal_paths_of_sites_are_different_files() {
    let trees = [TempTree::new(), TempTree::new(), TempTree::new()];
    for (tree, bytes) in trees.iter().zip(["0", "11", "222"]) {
        tree.write("x/m.mp4", bytes);
    }
    let places = ["", "/a.example/", "/b.example/"];
    let library = open(&[
        (places[0], &trees[0]),
        (places[1], &trees[1]),
        (places[2], &trees[2]),
    ]);
    library.rescan();
    let expected = ["//a.example/x/m.mp4", "//b.example/x/m.mp4", "/x/m.mp4"];
    assert_eq!(title_paths(&library), expected);
    let mut streams = Vec::new();
    for (root, place) in places.into_iter().enumerate() {
        let file = resolve(&library, &format!("{place}x/m.mp4"));
        assert_eq!((file.root, file.size), (root, root as u64 + 1));
        streams.push(file.stream.id);
    }
    streams.dedup();
    assert_eq!(streams.len(), 3);
    fs::remove_file(trees[1].path().join("x/m.mp4")).expect("removed");
    library.resolve("/a.example/x/m.mp4").expect_err("removed");
    assert_eq!(resolve(&library, "/b.example/x/m.mp4").size, 3);
    let roots = library.roots_at("/a.example/x/m.mp4");
    assert_eq!(roots.collect::<Vec<_>>(), [1], "no other disk is asked");
    for odd in ["/c.example/x/m.mp4", "//a.example/x", "/a.example//x", "/x"] {
        library.resolve(odd).expect_err(odd);
    }
}

#[test]
fn manifest_of_site_or_prefix_names_files_of_its_own_tree() {
    for place in ["", "films/", "/a.example/", "/a.example/films/"] {
        let (tree, other) = (TempTree::new(), TempTree::new());
        title(&tree);
        // Also the place of the absolute reference, in another site.
        title(&other);
        // An absolute reference starts at the site, not at the prefix.
        let is_whole = !place.contains("films");
        for is_scanned in [true, false] {
            let library = open(&[("/b.example/", &other), (place, &tree)]);
            let at = |name: &str| format!("{place}v/{name}");
            if is_scanned {
                library.rescan();
            } else {
                let file = resolve(&library, &at("1.ts"));
                library.scan_out_of_order(1, &file.path);
            }
            let expected = match is_whole {
                true => vec![at("1.ts"), at("2.ts")],
                false => vec![at("1.ts")],
            };
            let name = format!("{place} {is_scanned}");
            assert_eq!(stream_of(&library, &at("1.ts")).0, expected, "{name}");
        }
    }
}

#[test]
fn manifest_above_segments_at_prefix_is_found_on_request() {
    let tree = TempTree::new();
    tree.write(
        "m.m3u8",
        "#EXTM3U\n#EXTINF:4,\nv/1.ts\n#EXTINF:4,\nv/2.ts\n",
    )
    .write("v/1.ts", "1")
    .write("v/2.ts", "22");
    for place in ["films/", "/a.example/"] {
        let library = open(&[(place, &tree)]);
        let file = resolve(&library, &format!("{place}v/1.ts"));
        library.scan_out_of_order(0, &file.path);
        let parts = stream_of(&library, &format!("{place}v/1.ts")).0;
        assert_eq!(parts.len(), 2, "{place}: {parts:?}");
        // At the top of the root, where there is no folder above.
        let alone = resolve(&library, &format!("{place}m.m3u8"));
        library.scan_out_of_order(0, &alone.path);
    }
}

#[test]
fn folder_may_be_of_several_sites_but_of_one_place_in_each() {
    let tree = TempTree::new();
    tree.write("films/a.mp4", "a");
    let inner = tree.path().join("films");
    for (first, second) in [(tree.path(), tree.path()), (tree.path(), inner)] {
        for (places, is_one_site) in [
            (["", "x/"], true),
            (["/a.example/", "/a.example/x/"], true),
            (["", "/a.example/"], false),
            (["/a.example/", "/b.example/"], false),
        ] {
            let roots = [
                MountedRoot::at(places[0], Path::new(&first)),
                MountedRoot::at(places[1], Path::new(&second)),
            ];
            let opened = Library::open_mounted(&roots, LibraryOptions::default());
            let errors = opened.err().map_or(0, |errors| errors.len());
            assert_eq!(errors, usize::from(is_one_site), "{places:?}");
        }
    }
}
