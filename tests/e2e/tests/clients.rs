//! Common clients, and manifests and URLs as packagers and users write them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use headlong_e2e_tests::{Library, eventually, have_or_skip};
use headlong_testkit::client::fetch;
use headlong_testkit::server::ServerBuilder;
use headlong_testkit::{Scratch, pattern};
use serde_json::Value;

const MIB: u64 = 1 << 20;

fn run(program: &str, arguments: &[&str]) -> (bool, Vec<u8>, String) {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    (
        output.status.success(),
        output.stdout,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn curl_gets_files_and_ranges_and_resumes_a_download() {
    if !have_or_skip("curl_gets_files_and_ranges_and_resumes_a_download", "curl") {
        return;
    }
    let library = Library::new(1, 3 * MIB + 17).expect("a library");
    let server = ServerBuilder::new([library.root()])
        .start()
        .expect("a server");
    let url = format!("http://{}/title-0.bin", server.address());
    let curl = |arguments: &[&str]| {
        let arguments = [
            &["--silent", "--show-error", "--fail", "--max-time", "120"],
            arguments,
        ]
        .concat();
        let (ok, body, errors) = run("curl", &arguments);
        assert!(ok, "curl {arguments:?}: {errors}");
        body
    };
    assert!(curl(&[&url]) == pattern::bytes(0, 0..3 * MIB + 17));
    assert!(curl(&["--range", "100-299999", &url]) == pattern::bytes(0, 100..300_000));
    assert!(curl(&["--range", "-17", &url]) == pattern::bytes(0, 3 * MIB..3 * MIB + 17));
    let head = String::from_utf8_lossy(&curl(&["--head", &url])).to_ascii_lowercase();
    assert!(
        head.contains("accept-ranges: bytes") && head.contains("content-length: 3145745"),
        "{head}"
    );

    let folder = Scratch::new("curl").expect("a folder");
    let file = folder.path().join("download");
    pattern::write_file(&file, 0, MIB).expect("the beginning of a download");
    curl(&[
        "--continue-at",
        "-",
        "--output",
        &file.display().to_string(),
        &url,
    ]);
    assert!(fs::read(&file).expect("read") == pattern::bytes(0, 0..3 * MIB + 17));
}

/// Ten seconds of a test picture; with the index at the end if `index_last`, so that a player has
/// to seek there and back.
fn make_film(path: &Path, index_last: bool) {
    let path = path.display().to_string();
    let mut arguments = vec!["-v", "error", "-y", "-f", "lavfi", "-i"];
    arguments.push("testsrc=size=320x240:rate=25:duration=10");
    arguments.extend(["-pix_fmt", "yuv420p"]);
    if !index_last {
        arguments.extend(["-movflags", "+faststart"]);
    }
    arguments.push(&path);
    let (ok, _, errors) = run("ffmpeg", &arguments);
    assert!(ok, "ffmpeg: {errors}");
}

#[test]
fn ffmpeg_reads_and_seeks_over_http() {
    let test = "ffmpeg_reads_and_seeks_over_http";
    if !have_or_skip(test, "ffprobe") || !have_or_skip(test, "ffmpeg") {
        return;
    }
    let library = Library::new(0, 0).expect("a library");
    make_film(&library.root().join("first.mp4"), false);
    make_film(&library.root().join("last.mp4"), true);
    let server = ServerBuilder::new([library.root()])
        .start()
        .expect("a server");
    for name in ["first.mp4", "last.mp4"] {
        let url = format!("http://{}/{name}", server.address());
        let show = [
            "-v",
            "error",
            "-show_entries",
            "format=duration:stream=width",
            "-of",
            "csv=p=0",
        ];
        let (ok, shown, errors) = run("ffprobe", &[&show[..], &[&url]].concat());
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert!(
            ok && shown.contains("320") && shown.contains("10.0"),
            "{name}: {shown} {errors}"
        );
        // After the eighth second two seconds are left: 50 pictures.
        let decode = ["-v", "error", "-ss", "8", "-i", &url, "-f", "framecrc", "-"];
        let (ok, frames, errors) = run("ffmpeg", &decode);
        assert!(ok && errors.is_empty(), "{name}: {errors}");
        let frames = String::from_utf8_lossy(&frames);
        let frames = frames.lines().filter(|line| !line.starts_with('#')).count();
        assert!((45..=55).contains(&frames), "{name}: {frames} pictures");
    }
}

#[test]
fn request_with_quotes_in_its_url_is_answered_and_logged() {
    let library = Library::new(1, MIB).expect("a library");
    let logs = Scratch::new("quotes").expect("a folder");
    let log = logs.path().join("access.log");
    let server = ServerBuilder::new([library.root()])
        .config(&format!("[log]\naccess = {:?}", log.display().to_string()))
        .start()
        .expect("a server");
    let target = "/title-0.bin?CMCD=sid=\"a\"&b=<c>";
    let reply = fetch(server.address(), "GET", target, &[("Range", "bytes=0-9")]);
    let reply = reply.expect("a reply");
    assert_eq!((reply.status(), reply.body.len()), (206, 10));
    let logged = || fs::read_to_string(&log).unwrap_or_default();
    eventually("a line of the access log", logged, |text: &String| {
        text.contains("/title-0.bin?CMCD=sid=%22a%22&b=%3Cc%3E")
    });
}

#[test]
fn playlist_with_urls_of_own_host_is_a_title_and_odd_ones_are_named() {
    let folder = Scratch::new("packager").expect("a folder");
    let root = folder.path();
    for name in ["1.ts", "2.ts"] {
        pattern::write_file(&root.join(name), 0, 500_000).expect("a segment");
    }
    let text = b"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-DEFINE:NAME=\"n\",VALUE=\"2\"\n\
                 #EXTINF: 4.0,Caf\xe9\nhttps://films.example/1.ts\n#EXTINF:-1,\n{$n}.ts\n";
    fs::write(root.join("film.m3u8"), text).expect("a playlist");
    fs::write(root.join("film-poster.jpg"), "jpg").expect("a picture");
    let server = ServerBuilder::new([root])
        .config("server_names = [\"films.example\"]")
        .start()
        .expect("a server");
    let titles = || {
        let reply = fetch(server.admin(), "GET", "/library.json", &[]).expect("a reply");
        serde_json::from_slice::<Value>(&reply.body).expect("JSON")
    };
    let is_listed = |library: &Value| library["titles"][0]["path"] == "/film.m3u8";
    let library = eventually("the title", titles, is_listed);
    let title = &library["titles"][0];
    assert_eq!(title["duration_s"], 8.0);
    assert_eq!(title["bit_rates_bps"][0], 1_000_000);
    assert_eq!(title["poster"], "/film-poster.jpg");
    let odd = library["odd"].as_array().expect("a list").iter();
    let odd: Vec<&str> = odd.filter_map(|one| one["reason"].as_str()).collect();
    let output = server.output();
    for named in ["the EXTINF of 1 of its segments", "read as Latin-1"] {
        let times = odd.iter().filter(|reason| reason.contains(named)).count();
        assert_eq!(
            (times, output.matches(named).count()),
            (1, 1),
            "{odd:?} {output}"
        );
    }
}
