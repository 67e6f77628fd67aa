//! Out-of-order scans: finds the title of a requested file before the scan has reached it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::common::{TempTree, resolve, stream_of};
use headlong_library::{Library, LibraryOptions, RemovedStream};

const MEDIA: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n1.ts\n#EXTINF:4,\n2.ts\n\
                     #EXTINF:4,\n3.ts\n#EXT-X-ENDLIST\n";
const MASTER: &str = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=100000\nlow/index.m3u8\n\
                      #EXT-X-STREAM-INF:BANDWIDTH=900000\nhigh/index.m3u8\n";

fn open(trees: &[&TempTree]) -> Library {
    let roots: Vec<_> = trees.iter().map(|tree| tree.path()).collect();
    let options = LibraryOptions {
        revalidate: Duration::ZERO,
        ..LibraryOptions::default()
    };
    Library::open(&roots, options).expect("valid roots")
}

/// Three segments in a folder; the caller adds their playlist.
fn write_segments(tree: &TempTree, folder: &str) {
    for name in ["1.ts", "2.ts", "3.ts"] {
        tree.write(&format!("{folder}/{name}"), format!("{folder} {name}"));
    }
}

/// Like a viewer's look-up.
fn ask_for(library: &Library, path: &str) {
    let file = resolve(library, path);
    if library.is_alone(&file) {
        library.scan_out_of_order(file.root, &file.path);
    }
}

fn names(library: &Library) -> Vec<String> {
    let titles = library.titles().into_iter();
    titles
        .map(|title| title.path.trim_start_matches('/').to_owned())
        .collect()
}

/// A scan of root 0 that hangs in its first look-up until the sender is dropped.
fn hung_search(library: &Library) -> (Sender<()>, std::thread::JoinHandle<()>) {
    let (release, hang): (Sender<()>, Receiver<()>) = channel();
    let (begun, begins) = channel();
    let library = library.clone();
    let search = std::thread::spawn(move || {
        library.scan_root_gently(0, &mut |_| {
            let _ = begun.send(());
            let _ = hang.recv();
        });
    });
    begins.recv().expect("the scan has begun");
    (release, search)
}

#[test]
fn title_is_found_during_hung_scan_and_keeps_its_streams() {
    let tree = TempTree::new();
    for folder in ["shows/a", "shows/b"] {
        write_segments(&tree, folder);
        tree.write(&format!("{folder}/index.m3u8"), MEDIA);
    }
    let library = open(&[&tree]);
    let (release, search) = hung_search(&library);
    let alone = resolve(&library, "shows/a/2.ts").stream.id;
    assert_eq!(stream_of(&library, "shows/a/2.ts").0.len(), 1);
    ask_for(&library, "shows/a/2.ts");
    let (paths, part) = stream_of(&library, "shows/a/2.ts");
    assert_eq!(paths, ["shows/a/1.ts", "shows/a/2.ts", "shows/a/3.ts"]);
    assert_eq!(part, 1);
    assert_eq!(names(&library), ["shows/a/index.m3u8"]);
    let gone = RemovedStream {
        id: alone,
        is_regrouped: true,
    };
    assert_eq!(library.take_removed_streams(), [gone]);
    let of_title = resolve(&library, "shows/a/3.ts").stream.id;

    drop(release);
    search.join().expect("no panic");
    assert_eq!(resolve(&library, "shows/a/1.ts").stream.id, of_title);
    assert_eq!(stream_of(&library, "shows/b/1.ts").0.len(), 3);
    assert_eq!(
        names(&library),
        ["shows/a/index.m3u8", "shows/b/index.m3u8"]
    );
    assert!(library.take_removed_streams().is_empty());
    assert!(library.warnings().is_empty(), "{:?}", library.warnings());
}

#[test]
fn requested_playlist_adds_its_whole_title() {
    let tree = TempTree::new();
    write_segments(&tree, "t/low");
    write_segments(&tree, "t/high");
    tree.write("t/low/index.m3u8", MEDIA)
        .write("t/high/index.m3u8", MEDIA)
        .write("t/master.m3u8", MASTER);
    for asked in ["t/master.m3u8", "t/low/index.m3u8", "t/high/2.ts"] {
        let library = open(&[&tree]);
        ask_for(&library, asked);
        for path in ["t/low/1.ts", "t/high/1.ts"] {
            let stream = &resolve(&library, path).stream;
            assert_eq!((stream.parts.len(), &*stream.title), (3, "t/master.m3u8"));
        }
        let streams = ["t/low/3.ts", "t/high/3.ts"].map(|path| resolve(&library, path).stream.id);
        library.rescan();
        let after = ["t/low/3.ts", "t/high/3.ts"].map(|path| resolve(&library, path).stream.id);
        assert_eq!(streams, after, "requested {asked}");
        assert_eq!(names(&library), ["t/master.m3u8"]);
    }
}

#[test]
fn folder_is_scanned_out_of_order_once_and_not_after_scan() {
    let tree = TempTree::new();
    tree.write("films/a.mp4", "a").write("films/b.mp4", "b");
    tree.write("x/index.m3u8", MEDIA);
    write_segments(&tree, "x");
    let library = open(&[&tree]);
    let is_alone = |path: &str| library.is_alone(&resolve(&library, path));
    assert!(is_alone("films/a.mp4"));
    ask_for(&library, "films/a.mp4");
    assert!(!is_alone("films/a.mp4") && !is_alone("films/b.mp4"));
    assert!(is_alone("x/index.m3u8") && is_alone("x/1.ts"));
    library.rescan();
    assert!(!is_alone("x/index.m3u8") && !is_alone("x/1.ts"));
    // Files added since the last scan are found too.
    tree.write("new/index.m3u8", MEDIA);
    write_segments(&tree, "new");
    ask_for(&library, "new/index.m3u8");
    assert_eq!(stream_of(&library, "new/1.ts").0.len(), 3);
}

#[test]
fn requested_playlist_is_read_among_too_many() {
    let tree = TempTree::new();
    for number in 0..100 {
        let playlist = MEDIA.replace(".ts", &format!(".{number:03}.ts"));
        tree.write(&format!("flat/{number:03}.m3u8"), playlist);
        for segment in 1..=3 {
            tree.write(&format!("flat/{segment}.{number:03}.ts"), "bytes");
        }
    }
    let library = open(&[&tree]);
    for number in ["050", "099", "000"] {
        ask_for(&library, &format!("flat/{number}.m3u8"));
        let segment = format!("flat/2.{number}.ts");
        assert_eq!(stream_of(&library, &segment).0.len(), 3, "{number}");
    }
}

#[test]
fn out_of_order_titles_survive_scan_of_another_root() {
    let (first, second) = (TempTree::new(), TempTree::new());
    write_segments(&first, "t");
    first.write("t/index.m3u8", MEDIA);
    second.write("film.mp4", "f");
    let library = open(&[&first, &second]);
    ask_for(&library, "t/1.ts");
    let id = resolve(&library, "t/1.ts").stream.id;
    library.scan_root(1);
    assert_eq!(resolve(&library, "t/1.ts").stream.id, id);
    assert_eq!(names(&library), ["film.mp4", "t/index.m3u8"]);
    library.scan_root(0);
    assert_eq!(resolve(&library, "t/1.ts").stream.id, id);
}

#[test]
fn file_of_other_version_or_root_joins_no_stream() {
    let (first, second) = (TempTree::new(), TempTree::new());
    first.write("t/2.ts", "hides the other");
    write_segments(&second, "t");
    second.write("t/index.m3u8", MEDIA);
    let library = open(&[&first, &second]);
    assert_eq!(resolve(&library, "t/2.ts").root, 0);
    ask_for(&library, "t/index.m3u8");
    assert_eq!(stream_of(&library, "t/1.ts").0, ["t/1.ts", "t/3.ts"]);
    assert_eq!(resolve(&library, "t/2.ts").root, 0);
    // A manifest cannot name a link.
    let third = TempTree::new();
    third
        .write("t/index.m3u8", MEDIA)
        .write("t/1.ts", "one")
        .write("t/3.ts", "three");
    std::os::unix::fs::symlink("/etc/hostname", third.at("t/2.ts")).expect("a link");
    let library = open(&[&third]);
    ask_for(&library, "t/1.ts");
    assert_eq!(stream_of(&library, "t/1.ts").0, ["t/1.ts", "t/3.ts"]);
}
