//! HLS and DASH made from MP4 files: ffmpeg gets the packets of the file, by the rules of the file,
//! and never those of two versions of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use headlong_e2e_tests::edge::metric;
use headlong_e2e_tests::http2::{Client, initial_window, request, window_update};
use headlong_e2e_tests::{eventually, have_or_skip};
use headlong_testkit::client::{Response, fetch};
use headlong_testkit::server::ServerBuilder;
use headlong_testkit::{Scratch, Server};
use serde_json::Value;

/// Runs ffmpeg; returns its output.
pub(super) fn ffmpeg(arguments: &[&str]) -> String {
    let output = Command::new("ffmpeg")
        .args(["-nostdin", "-hide_banner", "-v", "error", "-y"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("ffmpeg");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// Lets a file be older than the time in which it may still change.
pub(super) fn settle(path: &Path, age: Duration) {
    let file = File::options().write(true).open(path).expect("a file");
    file.set_modified(SystemTime::now() - age).expect("a time");
}

/// Files of ten seconds with B-frames: index first, last, with two languages, and with edit lists
/// that delay the sound.
pub(super) fn make_films(root: &Path) -> Vec<String> {
    let path = |name: &str| root.join(name).display().to_string();
    let last = path("last.mp4");
    let sources = ["testsrc2=s=160x90:r=25:d=10", "sine=f=330:r=48000:d=10"];
    let mut arguments = Vec::new();
    for source in &sources {
        arguments.extend(["-f", "lavfi", "-i", source]);
    }
    arguments.extend([
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-bf",
        "2",
        "-g",
        "50",
    ]);
    arguments.extend(["-pix_fmt", "yuv420p", "-c:a", "aac", &last]);
    ffmpeg(&arguments);
    let copied: [(&str, &[&str]); 4] = [
        ("first.mp4", &["-i", &last, "-movflags", "+faststart"]),
        (
            "languages.mp4",
            &[
                "-i",
                &last,
                "-map",
                "0:v",
                "-map",
                "0:a",
                "-map",
                "0:a",
                "-metadata:s:a:0",
                "language=eng",
                "-metadata:s:a:1",
                "language=deu",
            ],
        ),
        (
            "delayed.mp4",
            &[
                "-i",
                &last,
                "-itsoffset",
                "1.5",
                "-i",
                &last,
                "-map",
                "0:v",
                "-map",
                "1:a",
            ],
        ),
        ("sound.m4a", &["-i", &last, "-map", "0:a"]),
    ];
    let mut names = vec!["last.mp4".to_owned()];
    for (name, arguments) in copied {
        let to = path(name);
        ffmpeg(&[arguments, &["-c", "copy", &to]].concat());
        names.push(name.to_owned());
    }
    for name in &names {
        settle(&root.join(name), Duration::from_secs(3600));
    }
    names
}

/// A film of ten seconds in several sizes, each with key frames at so many frames.
pub(super) fn make_sizes(root: &Path, sizes: &[(&str, &str, u32)]) {
    for (name, size, gop) in sizes {
        let video = format!("testsrc2=s={size}:r=25:d=10");
        let (gop, path) = (gop.to_string(), root.join(name));
        let mut arguments = vec!["-f", "lavfi", "-i", &video];
        arguments.extend(["-f", "lavfi", "-i", "sine=f=330:r=48000:d=10"]);
        arguments.extend(["-c:v", "libx264", "-preset", "ultrafast", "-bf", "2"]);
        arguments.extend(["-g", &gop, "-keyint_min", &gop, "-sc_threshold", "0"]);
        arguments.extend([
            "-pix_fmt",
            "yuv420p",
            "-c:a",
            "aac",
            "-movflags",
            "+faststart",
        ]);
        let text = path.display().to_string();
        arguments.push(&text);
        ffmpeg(&arguments);
        settle(&path, Duration::from_secs(3600));
    }
}

/// Decoding and presentation time, size and hash of each packet, in units of its stream.
fn packets(url: &str) -> BTreeSet<String> {
    packets_of(url, "0")
}

/// The same of some streams.
fn packets_of(url: &str, streams: &str) -> BTreeSet<String> {
    let arguments = [
        "-copyts",
        "-i",
        url,
        "-map",
        streams,
        "-c",
        "copy",
        "-f",
        "framehash",
        "-",
    ];
    let text = ffmpeg(&arguments);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            // Without the order of streams, and durations, which demuxers estimate.
            [fields[1], fields[2], fields[4], fields[5]].join(" ")
        })
        .collect()
}

pub(super) fn get(address: SocketAddr, target: &str, fields: &[(&str, &str)]) -> Response {
    fetch(address, "GET", target, fields).expect("a reply")
}

/// Links of a playlist or of attributes in it.
pub(super) fn links(playlist: &str) -> Vec<String> {
    let quoted = playlist.split("URI=\"").skip(1);
    let quoted = quoted.filter_map(|rest| rest.split('"').next());
    let lines = playlist.lines().filter(|line| !line.starts_with('#'));
    quoted.chain(lines).map(str::to_owned).collect()
}

pub(super) fn server(root: &Path, config: &str) -> Server {
    let config = format!("package = \"on\"\npackage_segment = \"2s\"\n{config}");
    let server = ServerBuilder::new([root]).config(&config);
    server.start()
}

#[test]
fn packets_by_hls_and_dash_are_those_of_the_file() {
    let test = "packets_by_hls_and_dash_are_those_of_the_file";
    if !have_or_skip(test, "ffmpeg") {
        return;
    }
    let root = Scratch::new("packaging").expect("a folder");
    let names = make_films(root.path());
    let server = server(root.path(), "");
    for name in names {
        let file = packets(&root.path().join(&name).display().to_string());
        assert!(file.len() > 400, "{name}: {}", file.len());
        let url = format!("http://{}/{name}", server.address());
        let hls = packets(&format!("{url}/master.m3u8"));
        assert_eq!(file.symmetric_difference(&hls).next(), None, "{name}");
        // ffmpeg stops where the first of the streams ends.
        let dash = packets(&format!("{url}/manifest.mpd"));
        assert_eq!(dash.difference(&file).next(), None, "{name}");
        assert!(dash.len() * 8 > file.len() * 7, "{name}: {}", dash.len());
    }
}

#[test]
fn segments_are_replies_like_those_of_files() {
    let test = "segments_are_replies_like_those_of_files";
    if !have_or_skip(test, "ffmpeg") {
        return;
    }
    let root = Scratch::new("packaging").expect("a folder");
    make_films(root.path());
    std::fs::write(root.path().join("text.mp4"), vec![b'x'; 5000]).expect("a file");
    let folder = root.path().join("folder.mp4");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("master.m3u8"), "#EXTM3U\n").expect("a file");
    let off = "[cors]\norigins = [\"https://tv.example\"]\n[path.\"/last\"]\npackage = \"off\"\n";
    let server = server(root.path(), off);
    let address = server.address();
    let before = server.status().counter("reads");
    let master = get(address, "/first.mp4/master.m3u8", &[]);
    assert_eq!(
        master.field("content-type"),
        Some("application/vnd.apple.mpegurl")
    );
    assert_eq!(links(&master.text()), ["v1a1.m3u8"]);
    let media = get(address, "/first.mp4/v1a1.m3u8", &[]).text();
    let links = links(&media);
    assert_eq!(links.len(), 6, "{media}");
    let target = format!("/first.mp4/{}", links[1]);
    let whole = get(address, &target, &[("Origin", "https://tv.example")]);
    assert_eq!(whole.status(), 200);
    let reads = server.status().counter("reads") - before;
    assert!(
        reads <= 2,
        "{reads} reads of the disk for the first segment"
    );
    assert_eq!(&whole.body[4..8], b"moof");
    assert_eq!(whole.field("content-type"), Some("video/iso.segment"));
    let origin = whole.field("access-control-allow-origin");
    assert_eq!(origin, Some("https://tv.example"));
    let etag = whole.field("etag").expect("a tag").to_owned();
    let again = get(address, &target, &[("If-None-Match", &etag)]);
    assert_eq!(again.status(), 304);
    // A range from the head into the file, and one after it.
    for (start, end) in [
        (0, 20),
        (100, whole.body.len() - 1),
        (whole.body.len() - 9, whole.body.len() - 1),
    ] {
        let range = format!("bytes={start}-{end}");
        let part = get(address, &target, &[("Range", &range), ("If-Range", &etag)]);
        assert_eq!(part.status(), 206, "{range}");
        assert_eq!(part.body, whole.body[start..=end], "{range}");
    }
    let head = fetch(address, "HEAD", &target, &[]).expect("a reply");
    let length = head.field("content-length").map(str::to_owned);
    assert_eq!(
        (head.status(), length),
        (200, Some(whole.body.len().to_string()))
    );
    for (name, status) in [
        ("first.mp4/v1.m3u8", 200),
        ("first.mp4/a2.m3u8", 404),
        ("first.mp4/v1a1-0000000000000000-1.m4s", 404),
        ("first.mp4/other.m3u8", 404),
        ("text.mp4/master.m3u8", 404),
        ("none.mp4/master.m3u8", 404),
        ("last.mp4/master.m3u8", 404),
        ("folder.mp4/master.m3u8", 200),
        ("folder.mp4/manifest.mpd", 404),
    ] {
        let reply = get(address, &format!("/{name}"), &[]);
        assert_eq!(reply.status(), status, "{name}: {}", reply.text());
    }
    let packaged = || {
        let library = get(server.admin(), "/library.json", &[]);
        let library: Value = serde_json::from_slice(&library.body).expect("JSON");
        let titles = library["titles"].as_array().expect("a list").clone();
        let of = |path| titles.iter().find(|title| title["path"] == path);
        ["/first.mp4", "/last.mp4"].map(|path| of(path).map(|title| title["packaged"].clone()))
    };
    let listed = [Some(Value::Bool(true)), Some(Value::Bool(false))];
    eventually("the titles", packaged, |found| *found == listed);
    let library = get(server.admin(), "/library.json", &[]);
    let library: Value = serde_json::from_slice(&library.body).expect("JSON");
    let odd = library["odd"].as_array().expect("a list");
    let is_refused = |odd: &Value| {
        let reason = odd["reason"].as_str().unwrap_or_default();
        odd["path"] == "text.mp4" && reason.contains("HLS or DASH")
    };
    assert!(odd.iter().any(is_refused), "{odd:?}");
    // Lines are written after the reply.
    let is_named = |log: &String| log.contains("cannot package a file") && log.contains("text.mp4");
    eventually("the file in the log", || server.output(), is_named);
}

#[test]
fn segment_of_small_ranges_stops_and_resumes_with_the_same_bytes() {
    let test = "segment_of_small_ranges_stops_and_resumes_with_the_same_bytes";
    if !have_or_skip(test, "ffmpeg") {
        return;
    }
    let root = Scratch::new("packaging").expect("a folder");
    make_films(root.path());
    let config = "package = \"on\"\npackage_segment = \"10s\"\n";
    let server = ServerBuilder::new([root.path()]).config(config).start();
    let media = get(server.address(), "/first.mp4/a1.m3u8", &[]).text();
    let segment = links(&media).into_iter().next_back().expect("a segment");
    let target = format!("/first.mp4/{segment}");
    let whole = get(server.address(), &target, &[]);
    assert_eq!(&whole.body[4..8], b"moof", "{media}");
    let bytes = whole.body.len() as u32;
    assert!(bytes > 40_000, "{bytes}");
    for window in [0, 1_000, 20_000, 40_000] {
        let mut client = Client::open(&server, &initial_window(window));
        client.say(&request(1, &target, "bytes=0-"));
        client.say(&window_update(0, bytes));
        let mut body = client.hear_bodies(&[1], window as usize);
        // Its memory is released, and the rest is requested again.
        std::thread::sleep(Duration::from_millis(1500));
        client.say(&window_update(1, bytes));
        let rest = client.hear_bodies(&[1], (bytes - window) as usize);
        let mut body = body.remove(&1).unwrap_or_default();
        body.extend(&rest[&1]);
        assert!(body == whole.body, "with {window} bytes first");
    }
}

#[test]
fn changed_file_gives_no_segment_of_another_version() {
    let test = "changed_file_gives_no_segment_of_another_version";
    if !have_or_skip(test, "ffmpeg") {
        return;
    }
    let root = Scratch::new("packaging").expect("a folder");
    make_films(root.path());
    let server = server(root.path(), "revalidate = \"0s\"\n");
    let address = server.address();
    let links = || links(&get(address, "/first.mp4/v1a1.m3u8", &[]).text());
    let old = links();
    // The same film again, written a minute before.
    let other = root.path().join("other.mp4");
    std::fs::copy(root.path().join("first.mp4"), &other).expect("a copy");
    settle(&other, Duration::from_secs(3540));
    std::fs::rename(&other, root.path().join("first.mp4")).expect("replaced");
    for link in &old {
        let reply = get(address, &format!("/first.mp4/{link}"), &[]);
        assert_eq!(reply.status(), 404, "{link}");
    }
    let new = links();
    assert!(new.iter().all(|link| !old.contains(link)), "{new:?}");
    for link in &new {
        let reply = get(address, &format!("/first.mp4/{link}"), &[]);
        assert_eq!(reply.status(), 200, "{link}");
    }
}

#[test]
fn link_to_a_file_opens_all_that_is_made_from_it() {
    let test = "link_to_a_file_opens_all_that_is_made_from_it";
    if !have_or_skip(test, "ffmpeg") || !have_or_skip(test, "openssl") {
        return;
    }
    let root = Scratch::new("packaging").expect("a folder");
    make_films(root.path());
    let rule = "[path.\"/\"]\naccess = \"secure-link\"\n\
                secure_link_md5 = \"$secure_link_expires$uri secret\"\n";
    let server = server(root.path(), rule);
    let address = server.address();
    let script = "printf %s \"$1\" | openssl md5 -binary | openssl base64 -A | tr +/ -_ | tr -d =";
    let signed = Command::new("sh")
        .args(["-c", script, "sh", "4000000000/first.mp4 secret"])
        .output()
        .expect("a shell");
    let md5 = String::from_utf8(signed.stdout).expect("text");
    let query = format!("md5={md5}&expires=4000000000");
    let mut targets = vec![
        format!("/first.mp4?{query}"),
        format!("/first.mp4/manifest.mpd?{query}"),
    ];
    let mut playlists = vec![format!("/first.mp4/master.m3u8?{query}&CMCD=x")];
    while let Some(playlist) = playlists.pop() {
        let reply = get(address, &playlist, &[]);
        assert_eq!(reply.status(), 200, "{playlist}");
        for link in links(&reply.text()) {
            assert!(link.ends_with(&format!("?{query}")), "{link}");
            let target = format!("/first.mp4/{link}");
            match link.contains(".m3u8") {
                true => playlists.push(target),
                false => targets.push(target),
            }
        }
    }
    assert_eq!(targets.len(), 8);
    for target in targets {
        assert_eq!(get(address, &target, &[]).status(), 200, "{target}");
        let (path, _) = target.split_once('?').expect("a query");
        assert_eq!(get(address, path, &[]).status(), 403, "{path}");
        let other = target.replace("first", "last");
        assert_eq!(get(address, &other, &[]).status(), 403, "{other}");
    }
}

#[test]
fn files_in_several_bit_rates_are_one_title() {
    let test = "files_in_several_bit_rates_are_one_title";
    if !have_or_skip(test, "ffmpeg") {
        return;
    }
    let root = Scratch::new("packaging").expect("a folder");
    let sizes = [
        ("film-90p.mp4", "160x90", 50),
        ("film_180.mp4", "320x180", 50),
        ("film_360.mp4", "640x360", 75),
        ("other_180.mp4", "320x180", 50),
    ];
    make_sizes(root.path(), &sizes);
    std::fs::write(root.path().join("film_720.mp4"), vec![b'x'; 5000]).expect("a file");
    let server = server(root.path(), "");
    let address = server.address();
    let master = get(address, "/film.mp4/master.m3u8", &[]).text();
    let listed = ["-90p/v1a1.m3u8", "_180/v1a1.m3u8"];
    assert_eq!(links(&master), listed, "{master}");
    assert!(master.contains("# _360 is left out"), "{master}");
    assert!(master.contains("RESOLUTION=320x180"), "{master}");
    // Segments of both begin at the same times.
    let times = |playlist: &str| {
        let text = get(address, &format!("/film.mp4/{playlist}"), &[]).text();
        let lines = text.lines().filter(|line| line.starts_with("#EXTINF:"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(times(listed[0]).len(), 5);
    assert_eq!(times(listed[0]), times(listed[1]));
    let url = format!("http://{address}/film.mp4");
    let mut of_both = BTreeSet::new();
    for (name, playlist) in [("film-90p.mp4", listed[0]), ("film_180.mp4", listed[1])] {
        let file = packets(&root.path().join(name).display().to_string());
        let hls = packets(&format!("{url}/{playlist}"));
        assert_eq!(file.symmetric_difference(&hls).next(), None, "{name}");
        of_both.extend(file);
    }
    for (streams, least) in [("0:v:0", 200), ("0:v:1", 200), ("0:a:0", 380)] {
        let dash = packets_of(&format!("{url}/manifest.mpd"), streams);
        assert_eq!(dash.difference(&of_both).next(), None, "{streams}");
        assert!(dash.len() > least, "{streams}: {}", dash.len());
    }
    let bytes = metric(&server, "headlong_packaged_body_bytes_total");
    assert!(bytes > 100_000, "{bytes} bytes were counted");
    // A file of the title's own name is all of it.
    std::fs::copy(
        root.path().join("film_180.mp4"),
        root.path().join("film.mp4"),
    )
    .expect("a copy");
    let master = get(address, "/film.mp4/master.m3u8", &[]).text();
    assert_eq!(links(&master), ["v1a1.m3u8"]);
    for name in [
        "film.mp4/_360x/v1.m3u8",
        "film.mp4/_999/v1.m3u8",
        "none.mp4/master.m3u8",
    ] {
        assert_eq!(
            get(address, &format!("/{name}"), &[]).status(),
            404,
            "{name}"
        );
    }
    let log = server.output();
    for text in ["film_720.mp4", "files are left out of a title"] {
        assert!(log.contains(text), "{log}");
    }
}

#[test]
fn missing_root_affects_only_titles_that_no_other_root_has() {
    let test = "missing_root_affects_only_titles_that_no_other_root_has";
    if !have_or_skip(test, "ffmpeg") {
        return;
    }
    let scratch = Scratch::new("packaging").expect("a folder");
    let there = scratch.directory("there").expect("a folder");
    std::fs::create_dir(there.join("shows")).expect("made");
    let sizes = [
        ("one.mp4", "160x90", 50),
        ("shows/set_90.mp4", "160x90", 50),
        ("shows/set_180.mp4", "320x180", 50),
    ];
    make_sizes(&there, &sizes);
    std::fs::write(
        there.join("one.en.vtt"),
        "WEBVTT\n\n00:01.000 --> 00:02.000\nGood day\n",
    )
    .expect("a file");
    let away = scratch.path().join("mount/videos");
    let config = "package = \"on\"\npackage_segment = \"2s\"\nrevalidate = \"0s\"\n";
    let server = ServerBuilder::new([&away, &there]).config(config).start();
    let address = server.address();
    let listed = |title: &str| links(&get(address, &format!("/{title}/master.m3u8"), &[]).text());
    assert_eq!(listed("one.mp4"), ["text.en.vtt.m3u8", "v1a1.m3u8"]);
    let of_set = ["_90/v1a1.m3u8", "_180/v1a1.m3u8"];
    assert_eq!(listed("shows/set.mp4"), of_set);
    for (playlist, name) in of_set.into_iter().zip(["set_90.mp4", "set_180.mp4"]) {
        let hls = packets(&format!("http://{address}/shows/set.mp4/{playlist}"));
        let file = there.join("shows").join(name);
        assert_eq!(hls, packets(&file.display().to_string()), "{name}");
    }
    // The missing root may have them.
    let absent = ["two.mp4", "shows/two.mp4", "other/two.mp4"];
    let status = |title: &str, name: &str| get(address, &format!("/{title}/{name}"), &[]).status();
    for title in absent {
        for name in ["master.m3u8", "manifest.mpd"] {
            assert_eq!(status(title, name), 504, "{title}/{name}");
        }
    }
    std::fs::create_dir_all(away.join("other")).expect("made");
    make_sizes(&away, &[("other/two_90.mp4", "160x90", 50)]);
    let is_there = || status("other/two.mp4", "master.m3u8");
    eventually("the root is served", is_there, |status| *status == 200);
    assert_eq!(status("two.mp4", "master.m3u8"), 404);
}

#[test]
fn subtitles_beside_a_film_are_listed_and_converted() {
    let test = "subtitles_beside_a_film_are_listed_and_converted";
    if !have_or_skip(test, "ffmpeg") {
        return;
    }
    let root = Scratch::new("packaging").expect("a folder");
    make_sizes(
        root.path(),
        &[("film.mp4", "160x90", 50), ("set_90.mp4", "160x90", 50)],
    );
    let write = |name: &str, text: &str| {
        std::fs::write(root.path().join(name), text).expect("a file");
    };
    write(
        "film.en.vtt",
        "WEBVTT\n\n00:01.000 --> 00:02.000\nGood day\n",
    );
    write(
        "film.de.srt",
        "1\r\n00:00:01,000 --> 00:00:02,500\r\nGuten Tag\r\n",
    );
    write(
        "film.chapters.vtt",
        "WEBVTT\n\n00:01.000 --> 00:02.000\n1\n",
    );
    write("film.fr.srt", &"x".repeat(5 << 20));
    write("set.srt", "1\n00:00:01,000 --> 00:00:02,500\nBonjour\n");
    let server = server(root.path(), "revalidate = \"0s\"\n");
    let address = server.address();
    let master = get(address, "/film.mp4/master.m3u8", &[]).text();
    let names = [
        "text.de.srt.m3u8",
        "text.en.vtt.m3u8",
        "text.fr.srt.m3u8",
        "v1a1.m3u8",
    ];
    assert_eq!(links(&master), names, "{master}");
    let playlist = get(address, "/film.mp4/text.de.srt.m3u8", &[]).text();
    assert_eq!(links(&playlist), ["text.de.srt.vtt"]);
    assert!(playlist.contains("#EXTINF:10."), "{playlist}");
    let german = get(address, "/film.mp4/text.de.srt.vtt", &[]);
    assert_eq!(
        german.field("content-type"),
        Some("text/vtt; charset=utf-8")
    );
    let expected = "WEBVTT\n\n1\n00:00:01.000 --> 00:00:02.500\nGuten Tag\n";
    assert_eq!(german.text(), expected);
    let tag = german.field("etag").expect("a tag").to_owned();
    let again = get(
        address,
        "/film.mp4/text.de.srt.vtt",
        &[("If-None-Match", &tag)],
    );
    assert_eq!(again.status(), 304);
    let manifest = get(address, "/film.mp4/manifest.mpd", &[]).text();
    assert!(
        manifest.contains("<BaseURL>text.en.vtt.vtt</BaseURL>"),
        "{manifest}"
    );
    let url = format!("http://{address}/film.mp4");
    let english = ffmpeg(&["-i", &format!("{url}/text.en.vtt.vtt"), "-f", "srt", "-"]);
    assert_eq!(english.trim(), "1\n00:00:01,000 --> 00:00:02,000\nGood day");
    // Players that do not know subtitles play the film.
    let film = packets(&root.path().join("film.mp4").display().to_string());
    assert_eq!(packets(&format!("{url}/master.m3u8")), film);
    let of_set = get(address, "/set.mp4/master.m3u8", &[]).text();
    assert_eq!(links(&of_set), ["text.srt.m3u8", "_90/v1a1.m3u8"]);
    assert!(
        get(address, "/set.mp4/text.srt.vtt", &[])
            .text()
            .contains("Bonjour")
    );
    for name in [
        "film.mp4/text.fr.srt.vtt",
        "film.mp4/text.chapters.vtt.vtt",
        "film.mp4/text.it.vtt.m3u8",
        "film.mp4/text.it.vtt.vtt",
    ] {
        assert_eq!(
            get(address, &format!("/{name}"), &[]).status(),
            404,
            "{name}"
        );
    }
    std::fs::remove_file(root.path().join("film.de.srt")).expect("removed");
    let master = get(address, "/film.mp4/master.m3u8", &[]).text();
    assert!(!links(&master).contains(&names[0].to_owned()), "{master}");
    assert_eq!(get(address, "/film.mp4/text.de.srt.vtt", &[]).status(), 404);
}

#[test]
fn link_to_a_title_opens_its_files_and_no_others() {
    let test = "link_to_a_title_opens_its_files_and_no_others";
    if !have_or_skip(test, "ffmpeg") || !have_or_skip(test, "openssl") {
        return;
    }
    let root = Scratch::new("packaging").expect("a folder");
    let sizes = [
        ("film_90.mp4", "160x90", 50),
        ("film_180.mp4", "320x180", 50),
        ("film_360.mp4", "640x360", 50),
    ];
    make_sizes(root.path(), &sizes);
    std::fs::write(root.path().join("film.srt"), "1\n").expect("a file");
    std::fs::write(root.path().join("film.it.srt"), "1\n").expect("a file");
    let rules = "[path.\"/\"]\naccess = \"secure-link\"\n\
                 secure_link_md5 = \"$secure_link_expires$uri secret\"\n\
                 [path.\"/film_360\"]\naccess = \"closed\"\n\
                 [path.\"/film.it\"]\naccess = \"closed\"\n";
    let server = server(root.path(), rules);
    let address = server.address();
    let script = "printf %s \"$1\" | openssl md5 -binary | openssl base64 -A | tr +/ -_ | tr -d =";
    let signed = Command::new("sh")
        .args(["-c", script, "sh", "4000000000/film.mp4 secret"])
        .output()
        .expect("a shell");
    let md5 = String::from_utf8(signed.stdout).expect("text");
    let query = format!("md5={md5}&expires=4000000000");
    let mut playlists = vec![format!("/film.mp4/master.m3u8?{query}")];
    let mut targets = vec![format!("/film.mp4/manifest.mpd?{query}")];
    while let Some(playlist) = playlists.pop() {
        let reply = get(address, &playlist, &[]);
        assert_eq!(reply.status(), 200, "{playlist}");
        let (folder, _) = playlist.rsplit_once('/').expect("a folder");
        for link in links(&reply.text()) {
            assert!(!link.contains("_360") && !link.contains(".it."), "{link}");
            let target = format!("{folder}/{link}");
            match link.contains(".m3u8") {
                true => playlists.push(target),
                false => targets.push(target),
            }
        }
    }
    // The manifest, a text, and headers and five segments of two files.
    assert_eq!(targets.len(), 14, "{targets:?}");
    for target in &targets {
        assert_eq!(get(address, target, &[]).status(), 200, "{target}");
        let (path, _) = target.split_once('?').expect("a query");
        assert_eq!(get(address, path, &[]).status(), 403, "{path}");
    }
    for (target, status) in [
        ("film.mp4/_360/v1a1.m3u8", 404),
        ("film.mp4/text.it.srt.vtt", 404),
        ("film_180.mp4", 403),
        ("film_180.mp4/v1a1.m3u8", 403),
        ("film_360.mp4", 403),
        ("film.srt", 403),
        ("other.mp4/_180/v1a1.m3u8", 403),
    ] {
        let reply = get(address, &format!("/{target}?{query}"), &[]);
        assert_eq!(reply.status(), status, "{target}");
    }
}

#[test]
fn hostile_files_beside_a_title_are_left_out() {
    let test = "hostile_files_beside_a_title_are_left_out";
    if !have_or_skip(test, "ffmpeg") {
        return;
    }
    let root = Scratch::new("packaging").expect("a folder");
    let outside = Scratch::new("packaging-outside").expect("a folder");
    make_sizes(root.path(), &[("film_90.mp4", "160x90", 50)]);
    make_sizes(outside.path(), &[("film_91.mp4", "160x90", 50)]);
    let at = |name: &str| root.path().join(name);
    std::os::unix::fs::symlink(outside.path().join("film_91.mp4"), at("film_91.mp4"))
        .expect("a link");
    std::os::unix::fs::symlink(at("film_93.mp4"), at("film_92.mp4")).expect("a link");
    std::os::unix::fs::symlink(at("film_92.mp4"), at("film_93.mp4")).expect("a link");
    std::fs::create_dir(at("film_94.mp4")).expect("a folder");
    let fifo = Command::new("mkfifo").arg(at("film_95.mp4")).status();
    assert!(fifo.expect("mkfifo").success());
    std::fs::write(at("film_96.mp4"), "").expect("a file");
    std::fs::write(at("film.en.srt"), "").expect("a file");
    std::fs::create_dir(at("film.de.vtt")).expect("a folder");
    std::fs::create_dir(at("many")).expect("a folder");
    for number in 0..5000 {
        std::fs::write(at(&format!("many/film_{number:05}.mp4")), "x").expect("a file");
    }
    std::fs::create_dir(at("more")).expect("a folder");
    for number in 0..11_000 {
        std::fs::write(at(&format!("more/other{number}.mp4")), "").expect("a file");
    }
    let server = server(root.path(), "");
    let address = server.address();
    let master = get(address, "/film.mp4/master.m3u8", &[]).text();
    assert_eq!(
        links(&master),
        ["text.en.srt.m3u8", "_90/v1a1.m3u8"],
        "{master}"
    );
    assert_eq!(
        get(address, "/film.mp4/text.en.srt.vtt", &[]).text(),
        "WEBVTT\n\n"
    );
    for number in 91..=96 {
        let target = format!("/film.mp4/_{number}/v1a1.m3u8");
        assert_eq!(get(address, &target, &[]).status(), 404, "{target}");
    }
    let before = server.status().counter("requests");
    let many = get(address, "/many/film.mp4/master.m3u8", &[]);
    assert_eq!(many.status(), 404);
    assert!(many.text().contains("too many files"), "{}", many.text());
    for target in [
        "/more/film.mp4/master.m3u8",
        "/many/film.mp4/_48%2f..%2ffilm_90/v1a1.m3u8",
        "/film.mp4/_90/_90/v1a1.m3u8",
        "/film.mp4/_90/master.m3u8",
        "/film.mp4/text...%2fmany.vtt.vtt",
    ] {
        let reply = get(address, target, &[]);
        assert!(
            [400, 404].contains(&reply.status()),
            "{target}: {}",
            reply.status()
        );
    }
    let after = server.status().counter("requests");
    assert_eq!(before, after, "bytes were requested for them");
}

#[test]
fn unnamed_viewer_has_one_chain_for_all_segments() {
    let test = "unnamed_viewer_has_one_chain_for_all_segments";
    if !have_or_skip(test, "ffmpeg") {
        return;
    }
    let root = Scratch::new("packaging").expect("a folder");
    make_films(root.path());
    let server = server(root.path(), "");
    let address = server.address();
    let segments = links(&get(address, "/first.mp4/v1a1.m3u8", &[]).text());
    let chains = || server.status().counter("chains");
    let before = chains();
    for link in &segments[1..] {
        // Each on a connection of its own.
        let reply = get(address, &format!("/first.mp4/{link}"), &[]);
        assert_eq!(reply.status(), 200, "{link}");
    }
    assert_eq!(chains() - before, 1);
}

#[test]
fn title_whose_index_of_fragments_lies_is_made_without_it() {
    let test = "title_whose_index_of_fragments_lies_is_made_without_it";
    if !have_or_skip(test, "ffmpeg") {
        return;
    }
    let root = Scratch::new("packaging").expect("a folder");
    make_sizes(root.path(), &[("whole.mp4", "1280x720", 50)]);
    let [whole, path] = ["whole.mp4", "film.mp4"].map(|name| root.path().join(name));
    let flags = "+frag_keyframe+empty_moov+default_base_moof";
    let (from, to) = (whole.display().to_string(), path.display().to_string());
    ffmpeg(&["-i", &from, "-c", "copy", "-movflags", flags, &to]);
    let mut film = std::fs::read(&path).expect("a film");
    let moofs = film.windows(4).enumerate().filter(|(_, of)| *of == b"moof");
    let third = moofs.map(|(at, _)| at).nth(2).expect("a third fragment");
    assert!(
        third > 1 << 20,
        "{third}: not read together with the first one"
    );
    // The third fragment is said to begin a second later.
    let tfra = film.windows(4).position(|of| of == b"tfra");
    let time = tfra.expect("an index") + 4 + 16 + 2 * 19;
    let old = u64::from_be_bytes(film[time..time + 8].try_into().expect("eight bytes"));
    film[time..time + 8].copy_from_slice(&(old + 12_800).to_be_bytes());
    std::fs::write(&path, film).expect("written");
    settle(&path, Duration::from_secs(3600));
    let server = server(root.path(), "");
    let address = server.address();
    let links = || links(&get(address, "/film.mp4/v1a1.m3u8", &[]).text());
    let status = |link: &String| get(address, &format!("/film.mp4/{link}"), &[]).status();
    let by_index = links();
    let statuses: Vec<u16> = by_index.iter().take(4).map(status).collect();
    assert_eq!(statuses, [200, 200, 200, 404]);
    let by_heads = links();
    assert!(by_heads.iter().all(|link| !by_index.contains(link)));
    assert!(by_heads.iter().all(|link| status(link) == 200));
    let url = format!("http://{address}/film.mp4/master.m3u8");
    assert_eq!(packets(&url), packets(&to));
}

#[test]
fn urls_of_nginx_vod_module_lead_to_the_same_title() {
    let test = "urls_of_nginx_vod_module_lead_to_the_same_title";
    if !have_or_skip(test, "ffmpeg") {
        return;
    }
    let root = Scratch::new("packaging").expect("a folder");
    let sizes = [
        ("film_90.mp4", "160x90", 50),
        ("film_180.mp4", "320x180", 50),
    ];
    let films = root.path().join("hls");
    std::fs::create_dir(&films).expect("a folder");
    make_sizes(&films, &sizes);
    std::fs::copy(films.join("film_180.mp4"), films.join("one.mp4")).expect("a copy");
    std::os::unix::fs::symlink("hls", root.path().join("dash")).expect("a link");
    let server = server(root.path(), "");
    let url = format!("http://{}", server.address());
    let file = packets(&films.join("one.mp4").display().to_string());
    for name in ["master.m3u8", "index.m3u8", "index-v1-a1.m3u8"] {
        assert_eq!(
            packets(&format!("{url}/hls/one.mp4/{name}")),
            file,
            "{name}"
        );
    }
    let dash = packets(&format!("{url}/dash/one.mp4/manifest.mpd"));
    assert!(dash.len() > 400 && dash.is_subset(&file), "{}", dash.len());
    // A list of files is the title of several files.
    let set = "hls/film_,90,180,.mp4.urlset";
    let master = get(server.address(), &format!("/{set}/master.m3u8"), &[]).text();
    assert_eq!(links(&master), ["_90/v1a1.m3u8", "_180/v1a1.m3u8"]);
    assert_eq!(packets(&format!("{url}/{set}/_180/v1a1.m3u8")), file);
    for target in [
        "hls/film_,90,low,.mp4.urlset/master.m3u8",
        "hls/one.mp4/seg-1-v1-a1.ts",
    ] {
        let reply = get(server.address(), &format!("/{target}"), &[]);
        assert_eq!(reply.status(), 404, "{target}");
    }
}
