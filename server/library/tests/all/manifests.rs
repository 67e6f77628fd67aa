//! Manifests on disk become titles and ordered streams.

use crate::common::{TempTree, fixture, resolve, stream_of};
use headlong_library::{Library, LibraryOptions, TitleView};

fn hls_tree() -> TempTree {
    let tree = TempTree::new();
    tree.write("films/A_Film/master.m3u8", fixture("hls_master.m3u8"));
    for directory in ["hi", "low rate"] {
        let base = format!("films/A_Film/{directory}");
        tree.write(&format!("{base}/v.m3u8"), fixture("hls_media.m3u8"));
        for name in ["seg10.ts", "seg9.ts", "seg 8.ts"] {
            tree.write(&format!("{base}/{name}"), [7; 1000]);
        }
    }
    tree.write("films/A_Film/hi/iframes.m3u8", fixture("hls_iframes.m3u8"));
    tree.write("films/A_Film/audio/en.m3u8", fixture("hls_fmp4.m3u8"));
    for name in ["init.mp4", "1.m4s", "2.m4s"] {
        tree.write(&format!("films/A_Film/audio/{name}"), [1; 500]);
    }
    tree.write("films/A_Film/poster.jpg", "jpg");
    tree
}

fn only(titles: Vec<TitleView>) -> TitleView {
    assert_eq!(titles.len(), 1, "{titles:?}");
    titles.into_iter().next().expect("one")
}

#[test]
fn master_playlist_is_one_title_with_a_stream_per_rendition() {
    let tree = hls_tree();
    let library = tree.scan();
    let title = only(library.titles());
    assert_eq!(title.name, "A Film");
    assert_eq!(title.kind, "hls");
    assert_eq!(title.path, "/films/A_Film/master.m3u8");
    assert_eq!(title.duration_s, Some(10.5));
    assert_eq!(title.bit_rates_bps, [2_000_000, 800_000]);
    assert_eq!(title.bytes, 6 * 1000 + 3 * 500);
    assert_eq!(title.poster.as_deref(), Some("/films/A_Film/poster.jpg"));
    let json = serde_json::to_value(&title).expect("serializable");
    assert_eq!(json["kind"], "hls");

    let (parts, place) = stream_of(&library, "films/A_Film/low rate/seg 8.ts");
    let expected =
        ["seg10.ts", "seg9.ts", "seg 8.ts"].map(|n| format!("films/A_Film/low rate/{n}"));
    assert_eq!((parts, place), (expected.to_vec(), 2));
    let (parts, place) = stream_of(&library, "films/A_Film/audio/1.m4s");
    let expected = ["init.mp4", "1.m4s", "2.m4s"].map(|n| format!("films/A_Film/audio/{n}"));
    assert_eq!((parts, place), (expected.to_vec(), 1));

    let rate = |path: &str| {
        resolve(&library, path)
            .stream
            .spec()
            .bit_rate
            .map(|rate| rate.0)
    };
    assert_eq!(rate("films/A_Film/hi/seg9.ts"), Some(2_000_000));
    assert_eq!(rate("films/A_Film/low rate/seg9.ts"), Some(800_000));
    // Not declared: 1500 bytes in 8 seconds.
    assert_eq!(rate("films/A_Film/audio/2.m4s"), Some(1500));
    let manifest = resolve(&library, "films/A_Film/master.m3u8");
    assert_eq!((manifest.stream.parts.len(), manifest.part), (1, 0));
    assert!(library.warnings().is_empty(), "{:?}", library.warnings());
}

#[test]
fn byte_range_playlist_is_stream_of_one_file() {
    let tree = TempTree::new();
    tree.write("v.m3u8", fixture("hls_byte_range.m3u8"))
        .write("all.mp4", [0; 1000]);
    let library = tree.scan();
    assert_eq!(
        stream_of(&library, "all.mp4"),
        (vec!["all.mp4".to_string()], 0)
    );
    let title = only(library.titles());
    assert_eq!((title.duration_s, title.bytes), (Some(10.0), 1000));
    assert_eq!(title.bit_rates_bps, [800]);
    let stream = &resolve(&library, "all.mp4").stream;
    assert_eq!(stream.bit_rate().map(|rate| rate.0), Some(800));
    assert_eq!(&*stream.title, "v.m3u8");
}

#[test]
fn dash_templates_lists_and_single_files_become_streams() {
    let tree = TempTree::new();
    tree.write("number/x.mpd", fixture("dash_number.mpd"));
    for name in [
        "v0/init.mp4",
        "v0/00001.m4s",
        "v0/00002.m4s",
        "v0/00003.m4s",
        "v1/00001.m4s",
    ] {
        tree.write(&format!("number/{name}"), [0; 10]);
    }
    for name in ["a/init.mp4", "a/0.m4s", "a/192000.m4s", "a/384000.m4s"] {
        tree.write(&format!("number/{name}"), [0; 10]);
    }
    tree.write("time/x.mpd", fixture("dash_time.mpd"));
    for name in ["900000", "1260000", "1620000"] {
        tree.write(&format!("time/1000000/{name}.m4s"), [0; 10]);
    }
    tree.write("list/x.mpd", fixture("dash_list.mpd"));
    for name in ["init.mp4", "a.m4s", "b.m4s", "c.m4s"] {
        tree.write(&format!("list/media/{name}"), [0; 1000]);
    }
    tree.write("base/x.mpd", fixture("dash_base.mpd"))
        .write("base/film.mp4", [0; 1000]);
    let library = tree.scan();

    let names = |path: &str| {
        let (parts, _) = stream_of(&library, path);
        let names = parts
            .iter()
            .map(|part| part.rsplit('/').next().unwrap_or("").to_string());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        names("number/v0/00002.m4s"),
        "init.mp4 00001.m4s 00002.m4s 00003.m4s"
    );
    assert_eq!(names("number/v1/00001.m4s"), "00001.m4s");
    assert_eq!(
        names("number/a/0.m4s"),
        "init.mp4 0.m4s 192000.m4s 384000.m4s"
    );
    assert_eq!(
        names("time/1000000/900000.m4s"),
        "900000.m4s 1260000.m4s 1620000.m4s"
    );
    assert_eq!(names("list/media/a.m4s"), "init.mp4 b.m4s a.m4s");
    assert_eq!(names("list/media/c.m4s"), "c.m4s");
    assert_eq!(names("base/film.mp4"), "film.mp4");

    let titles = library.titles();
    let brief = titles
        .iter()
        .map(|t| (t.path.as_str(), t.kind, t.duration_s, &t.bit_rates_bps[..]));
    assert_eq!(
        brief.collect::<Vec<_>>(),
        [
            ("/base/x.mpd", "dash", Some(8.0), &[900_000][..]),
            (
                "/list/x.mpd",
                "dash",
                Some(10.0),
                &[(1000 + 1000 + 500) * 8 / 10][..]
            ),
            (
                "/number/x.mpd",
                "dash",
                Some(10.0),
                &[800_000, 2_000_000][..]
            ),
            ("/time/x.mpd", "dash", Some(10.0), &[1_000_000][..]),
        ]
    );
    let warnings = library.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].path == "list/x.mpd" && warnings[0].reason.contains("cdn.example"));
    assert!(warnings[1].path == "number/x.mpd" && warnings[1].reason.contains("3 of the 12"));
}

#[test]
fn hls_and_dash_manifest_share_one_stream() {
    let tree = TempTree::new();
    tree.write("t/a.m3u8", fixture("hls_fmp4.m3u8"));
    let mpd = r#"<MPD mediaPresentationDuration="PT8S"><Period><AdaptationSet mimeType="video/mp4">
        <Representation id="v" bandwidth="5000"><SegmentTemplate initialization="init.mp4"
        media="$Number$.m4s" duration="4"/></Representation></AdaptationSet></Period></MPD>"#;
    tree.write("t/b.mpd", mpd);
    for name in ["init.mp4", "1.m4s", "2.m4s"] {
        tree.write(&format!("t/{name}"), [0; 1000]);
    }
    let library = tree.scan();
    let kinds: Vec<_> = library.titles().iter().map(|title| title.kind).collect();
    assert_eq!(kinds, ["hls", "dash"]);
    let entry = resolve(&library, "t/2.m4s");
    assert_eq!(
        (&*entry.stream.title, entry.stream.parts.len(), entry.part),
        ("t/a.m3u8", 3, 2)
    );
}

#[test]
fn broken_manifest_is_plain_file_with_one_warning() {
    let tree = TempTree::new();
    tree.write("a.m3u8", "not a playlist")
        .write("b.mpd", "<MPD><Period>");
    tree.write("c.m3u8", [0xff, 0xfe, 0x00])
        .write("d.mpd", "")
        .write("e.mpd", "<html></html>");
    tree.write("film.mp4", [1; 10]);
    let library = tree.scan();
    let mut paths: Vec<_> = library
        .warnings()
        .into_iter()
        .map(|warning| warning.path)
        .collect();
    paths.sort();
    assert_eq!(paths, ["a.m3u8", "b.mpd", "c.m3u8", "d.mpd", "e.mpd"]);
    assert_eq!(resolve(&library, "a.m3u8").size, 14);
    assert_eq!(only(library.titles()).path, "/film.mp4");
    assert!(library.rescan().warnings.is_empty());
    tree.write("a.m3u8", "still not a playlist");
    let again: Vec<_> = library
        .rescan()
        .warnings
        .into_iter()
        .map(|w| w.path)
        .collect();
    assert_eq!(again, ["a.m3u8"]);
}

#[test]
fn manifest_with_missing_files_causes_one_warning() {
    let tree = TempTree::new();
    let list = |names: &[&str]| {
        let lines = names.iter().map(|name| format!("#EXTINF:2,\n{name}.ts\n"));
        let lines: String = lines.collect();
        format!("#EXTM3U\n#EXT-X-TARGETDURATION:2\n{lines}#EXT-X-ENDLIST\n")
    };
    tree.write("a/v.m3u8", list(&["1", "2", "3", "4"]))
        .write("b/v.m3u8", list(&["gone"]));
    for name in ["1", "3", "4"] {
        tree.write(&format!("a/{name}.ts"), [7; 100_000]);
    }
    let library = tree.scan();
    let title = only(library.titles());
    assert_eq!(title.duration_s, Some(8.0));
    assert_eq!(title.bit_rates_bps, [400_000]);
    let entry = resolve(&library, "a/1.ts");
    assert_eq!(entry.stream.bit_rate().map(|rate| rate.0), Some(400_000));
    let mut warnings = library.warnings();
    warnings.sort_by(|a, b| a.path.cmp(&b.path));
    let told: Vec<_> = warnings
        .iter()
        .map(|w| (&w.path[..], &w.reason[..]))
        .collect();
    let expected = [
        (
            "a/v.m3u8",
            "1 of the 4 files that it names is missing, or only links; \
             the first is `a/2.ts`",
        ),
        (
            "b/v.m3u8",
            "1 of the 1 files that it names is missing, or only links; \
             the first is `b/gone.ts`",
        ),
    ];
    assert_eq!(told, expected);
    assert!(library.rescan().warnings.is_empty());
    tree.write("a/2.ts", [7; 100_000]);
    assert!(library.rescan().warnings.is_empty());
    assert_eq!(library.warnings().len(), 1);
    std::fs::remove_file(tree.at("a/4.ts")).expect("removed");
    assert_eq!(library.rescan().warnings.len(), 1);
}

#[test]
fn file_in_another_root_is_not_missing() {
    let roots = [TempTree::new(), TempTree::new(), TempTree::new()];
    roots[0].write("v.m3u8", "#EXTM3U\n#EXTINF:2,\n1.ts\n#EXT-X-ENDLIST\n");
    roots[1].write("1.ts", [7; 1000]);
    let paths = roots.each_ref().map(TempTree::path);
    let library = crate::common::scan(&paths);
    assert!(library.warnings().is_empty(), "{:?}", library.warnings());
    // Each root is scanned by itself; missing files are known when all roots have been scanned.
    let library = Library::open(&paths, LibraryOptions::default()).expect("valid roots");
    for root in 0..3 {
        library.scan_root(root);
        assert!(library.warnings().is_empty(), "{:?}", library.warnings());
    }
    std::fs::remove_file(roots[1].at("1.ts")).expect("removed");
    assert_eq!(library.rescan().warnings[0].path, "v.m3u8");
    // The root that is scanned last is empty.
    let library = Library::open(&paths, LibraryOptions::default()).expect("valid roots");
    let told = [0, 1, 2].map(|root| library.scan_root(root).warnings.len());
    assert_eq!(told, [0, 0, 1]);
}

#[test]
fn manifest_cannot_name_files_outside_its_root() {
    let outer = TempTree::new();
    outer
        .write("secret.ts", "secret")
        .write("root/1.ts", [0; 10]);
    outer.write(
        "root/v.m3u8",
        "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n../secret.ts\n#EXTINF:4,\n1.ts\n",
    );
    let library = crate::common::scan(&[outer.at("root")]);
    assert_eq!(stream_of(&library, "1.ts").0, ["1.ts"]);
    assert!(
        library.warnings()[0]
            .reason
            .contains("climbs out of the tree")
    );
}

/// Scans a tree whose server is `films.example`.
fn scan_as_films_example(tree: &TempTree) -> Library {
    let options = LibraryOptions {
        server_names: vec!["films.example".to_string()],
        ..LibraryOptions::default()
    };
    Library::scan_with(&[tree.path()], options).expect("a valid root")
}

/// A tree with three files of 200 kB each, `v/s1.ts` to `v/s3.ts`.
fn segments_tree() -> TempTree {
    let tree = TempTree::new();
    for name in ["v/s1.ts", "v/s2.ts", "v/s3.ts"] {
        tree.write(name, vec![0; 200_000]);
    }
    tree
}

#[test]
fn playlist_as_packagers_write_it_has_right_bit_rate() {
    for (name, text, is_odd) in [
        (
            "blanks",
            "#EXT-X-TARGETDURATION:4\n#EXTINF:4.0,\ns1.ts\n#EXTINF: 4.0,\ns2.ts\n#EXTINF:4,0\ns3.ts\n",
            false,
        ),
        (
            "no duration",
            "#EXT-X-TARGETDURATION:4\n#EXTINF:4.0,\ns1.ts\n#EXTINF:-1,\ns2.ts\ns3.ts\n",
            true,
        ),
        (
            "variable",
            "#EXT-X-DEFINE:NAME=\"p\",VALUE=\"s\"\n#EXTINF:4,\n{$p}1.ts\n#EXTINF:4,\n{$p}2.ts\n\
             #EXTINF:4,\n{$p}3.ts\n",
            false,
        ),
        (
            "own host",
            "#EXTINF:4,\nhttps://films.example/v/s1.ts\n#EXTINF:4,\n//Films.example:81/v/s2.ts\n\
             #EXTINF:4,\n/v/s3.ts\n",
            false,
        ),
    ] {
        let tree = segments_tree();
        tree.write("v/v.m3u8", format!("#EXTM3U\n{text}#EXT-X-ENDLIST\n"));
        let library = scan_as_films_example(&tree);
        let title = only(library.titles());
        assert_eq!(title.duration_s, Some(12.0), "{name}");
        assert_eq!(title.bit_rates_bps, [400_000], "{name}");
        assert_eq!(title.odd.is_some(), is_odd, "{name}: {:?}", title.odd);
        let warnings = library.warnings();
        assert_eq!(warnings.len(), usize::from(is_odd), "{name}: {warnings:?}");
    }
}

#[test]
fn gap_is_not_a_missing_file() {
    let tree = segments_tree();
    let text = "#EXTM3U\n#EXTINF:4,\ns1.ts\n#EXT-X-GAP\n#EXTINF:4,\ngone.ts\n#EXTINF:4,\ns3.ts\n";
    tree.write("v/v.m3u8", text);
    let library = tree.scan();
    let title = only(library.titles());
    assert_eq!(title.duration_s, Some(12.0));
    assert_eq!(title.bit_rates_bps, [400_000]);
    assert!(library.warnings().is_empty(), "{:?}", library.warnings());
}

#[test]
fn imported_variable_has_value_of_master_playlist() {
    let tree = segments_tree();
    tree.write(
        "master.m3u8",
        "#EXTM3U\n#EXT-X-DEFINE:NAME=\"p\",VALUE=\"s\"\n#EXT-X-STREAM-INF:BANDWIDTH=66406.2\n\
         v/v.m3u8\n",
    );
    let text = "#EXTM3U\n#EXT-X-DEFINE:IMPORT=\"p\"\n#EXTINF:4,\n{$p}1.ts\n#EXTINF:4,\n{$p}2.ts\n";
    tree.write("v/v.m3u8", text);
    let library = tree.scan();
    let title = only(library.titles());
    assert_eq!(title.bit_rates_bps, [66_406]);
    assert_eq!(stream_of(&library, "v/s2.ts").1, 1);
    assert!(library.warnings().is_empty(), "{:?}", library.warnings());
}

#[test]
fn master_with_invalid_attributes_is_one_title() {
    let tree = segments_tree();
    tree.write(
        "master.m3u8",
        "#EXTM3U\n#EXT-X-STREAM-INF:RESOLUTION=wide\nv/1.m3u8\n\
         #EXT-X-STREAM-INF:BANDWIDTH=x,FRAME-RATE=25p\nv/2.m3u8\n",
    );
    for name in ["1", "2"] {
        let text = format!("#EXTM3U\n#EXTINF:4,\ns{name}.ts\n");
        tree.write(&format!("v/{name}.m3u8"), text);
    }
    let library = tree.scan();
    let title = only(library.titles());
    assert_eq!(title.bit_rates_bps, [400_000, 400_000]);
    let odd = title.odd.expect("a reason");
    assert!(odd.contains("no valid BANDWIDTH"), "{odd}");
}

#[test]
fn playlist_in_latin_1_is_a_title() {
    let tree = segments_tree();
    let text = b"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,Caf\xe9\ns1.ts\n";
    tree.write("v/v.m3u8", text);
    let library = tree.scan();
    let odd = only(library.titles()).odd.expect("a reason");
    assert!(odd.contains("Latin-1"), "{odd}");
}

#[test]
fn m3u_is_a_title_if_it_is_of_hls() {
    let tree = segments_tree();
    let text = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\ns1.ts\n";
    tree.write("v/v.m3u", text)
        .write("music/all.m3u", "#EXTM3U\n#EXTINF:60,One\n1.mp3\n")
        .write("music/plain.m3u", "1.mp3\n")
        .write("music/1.mp3", [0; 1000]);
    let library = tree.scan();
    let titles = library.titles().into_iter().map(|title| title.path);
    assert_eq!(titles.collect::<Vec<_>>(), ["/music/1.mp3", "/v/v.m3u"]);
    assert!(library.warnings().is_empty(), "{:?}", library.warnings());
}

#[test]
fn mpd_of_own_host_with_decimal_bandwidth_is_a_title() {
    let tree = segments_tree();
    let mpd = |host: &str| {
        format!(
            "<MPD mediaPresentationDuration=\"PT4S\"><Period><AdaptationSet mimeType=\"video/mp4\">\
             <Representation id=\"a\" bandwidth=\"64000.5\"><BaseURL>http://{host}/v/s1.ts</BaseURL>\
             </Representation></AdaptationSet></Period></MPD>"
        )
    };
    tree.write("a.mpd", mpd("films.example:8080"))
        .write("b.mpd", mpd("cdn.example"));
    let library = scan_as_films_example(&tree);
    let title = only(library.titles());
    assert_eq!(
        (title.path.as_str(), &title.bit_rates_bps[..]),
        ("/a.mpd", &[64_000][..])
    );
    let warnings = library.warnings();
    assert!(
        warnings.len() == 1 && warnings[0].reason.contains("`server_names`"),
        "{warnings:?}"
    );
}

#[test]
fn poster_belongs_to_one_title() {
    let tree = TempTree::new();
    for name in [
        "flat/one.mp4",
        "flat/two.mp4",
        "flat/three.webm",
        "alone/film.mp4",
        "alone/film.webm",
    ] {
        tree.write(name, "film");
    }
    for name in [
        "flat/poster.jpg",
        "flat/one.png",
        "flat/two-poster.webp",
        "alone/poster.jpg",
    ] {
        tree.write(name, "picture");
    }
    let titles = tree.scan().titles();
    let posters = titles.iter().map(|title| title.poster.as_deref());
    let expected = [
        Some("/alone/poster.jpg"),
        Some("/alone/poster.jpg"),
        Some("/flat/one.png"),
        None,
        Some("/flat/two-poster.webp"),
    ];
    assert_eq!(posters.collect::<Vec<_>>(), expected);
}
