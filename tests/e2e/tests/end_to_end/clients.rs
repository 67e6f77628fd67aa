//! Common clients: curl, ffprobe, and those that read listings of folders (wget, rclone, WebDAV);
//! manifests and URLs as packagers and users write them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use headlong_e2e_tests::{Library, Mount, eventually, have_or_skip};
use headlong_testkit::client::{Connection, request_text};
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
    let server = ServerBuilder::new([library.root()]).start();
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
    let server = ServerBuilder::new([library.root()]).start();
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
        .start();
    let target = "/title-0.bin?CMCD=sid=\"a\"&b=<c>";
    let reply = server.request("GET", target, &[("Range", "bytes=0-9")]);
    assert_eq!((reply.status(), reply.body.len()), (206, 10));
    let logged = || fs::read_to_string(&log).unwrap_or_default();
    eventually("a line of the access log", logged, |text: &String| {
        text.contains("/title-0.bin?CMCD=sid=%22a%22&b=%3Cc%3E")
    });
}

/// What is odd about the playlist of the next test.
const NAMED: [&str; 2] = ["the EXTINF of 1 of its segments", "read as Latin-1"];

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
        .start();
    let titles = || server.admin_json("/library.json");
    let is_listed = |library: &Value| library["titles"][0]["path"] == "/film.m3u8";
    let library = eventually("the title", titles, is_listed);
    let title = &library["titles"][0];
    assert_eq!(title["duration_s"], 8.0);
    assert_eq!(title["bit_rates_bps"][0], 1_000_000);
    assert_eq!(title["poster"], "/film-poster.jpg");
    let odd = library["odd"].as_array().expect("a list").iter();
    let odd: Vec<&str> = odd.filter_map(|one| one["reason"].as_str()).collect();
    let has_both = |output: &String| NAMED.iter().all(|named| output.contains(named));
    let output = eventually("both warnings", || server.output(), has_both);
    for named in NAMED {
        let times = odd.iter().filter(|reason| reason.contains(named)).count();
        assert_eq!(
            (times, output.matches(named).count()),
            (1, 1),
            "{odd:?} {output}"
        );
    }
}

/// Folders and files whose names need encoding; each file contains its own path.
fn named_files() -> Scratch {
    let root = Scratch::new("listing").expect("a folder");
    for path in [
        "a.mp4",
        "A & <b>B</b>/100% #1?.mp4",
        "A & <b>B</b>/z:ä/+ ;'\".mkv",
        "A & <b>B</b>/z:ä/line\nbreak.mp4",
        "%41/ü\u{308}.ts",
        "empty/.hidden.mp4",
    ] {
        let file = root.path().join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(&file, path).expect("written");
    }
    root
}

/// The files below a folder with their contents.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(at) = pending.pop() {
        for entry in fs::read_dir(at).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path
                .strip_prefix(folder)
                .expect("below")
                .display()
                .to_string();
            match path.is_dir() {
                true => pending.push(path),
                false if name.contains("/.") => {}
                false => drop(found.insert(name, fs::read(&path).expect("read"))),
            }
        }
    }
    found
}

#[test]
fn wget_follows_listings_to_every_file() {
    if !have_or_skip("wget_follows_listings_to_every_file", "wget") {
        return;
    }
    let root = named_files();
    let server = ServerBuilder::new([root.path()])
        .config("listing = \"html\"")
        .start();
    let copy = Scratch::new("wget").expect("a folder");
    let url = format!("http://{}/", server.address());
    let folder = copy.path().display().to_string();
    let (ok, _, errors) = run(
        "wget",
        &[
            "--quiet",
            "--recursive",
            "--level=inf",
            "--no-host-directories",
            "--restrict-file-names=nocontrol",
            "--directory-prefix",
            &folder,
            &url,
        ],
    );
    assert!(ok, "wget: {errors}");
    let mut copied = tree(copy.path());
    copied.retain(|name, _| !name.ends_with("index.html") && name != "robots.txt");
    assert_eq!(copied, tree(root.path()));
}

#[test]
fn rclone_copies_tree_by_listings_and_webdav() {
    if !have_or_skip("rclone_copies_tree_by_listings_and_webdav", "rclone") {
        return;
    }
    let root = named_files();
    let server = ServerBuilder::new([root.path()])
        .config("listing = \"html\"")
        .start();
    let url = format!("http://{}/", server.address());
    for remote in [":http:", ":webdav:"] {
        let copy = Scratch::new("rclone").expect("a folder");
        let folder = copy.path().display().to_string();
        let (ok, _, errors) = run(
            "rclone",
            &[
                "copy",
                "--config=",
                "--http-url",
                &url,
                "--webdav-url",
                &url,
                "--retries=1",
                remote,
                &folder,
            ],
        );
        assert!(ok, "rclone {remote}: {errors}");
        assert_eq!(tree(copy.path()), tree(root.path()), "{remote}");
    }
}

/// davfs2 mounts the listing in a mount namespace of its own. Files are read by their names: Debian's
/// version lists no folder on Linux 6.18, whatever the server.
#[test]
fn davfs_mounts_tree_and_reads_its_files() {
    let test = "davfs_mounts_tree_and_reads_its_files";
    if !have_or_skip(test, "mount.davfs")
        || !have_or_skip(test, "unshare")
        || !Mount::available_or_skip(test)
    {
        return;
    }
    let root = named_files();
    let server = ServerBuilder::new([root.path()])
        .config("listing = \"html\"")
        .start();
    let scratch = Scratch::new("davfs").expect("a folder");
    let script = r#"set -e
        cd "$1"; install -d -g davfs2 -m 775 cache; mkdir mnt copy
        printf 'use_locks 0\nask_auth 0\ncache_dir %s/cache\n' "$1" >conf
        mount.davfs -o "ro,conf=$1/conf" "$2" "$1/mnt" </dev/null
        trap 'umount "$1/mnt"' EXIT
        cd "$3"; find . -type f ! -name '.*' -exec sh -c '
            for file; do mkdir -p "$0/copy/${file%/*}"; cat "$0/mnt/$file" >"$0/copy/$file"; done
        ' "$1" {} +"#;
    let folder = scratch.path().display().to_string();
    let url = format!("http://{}/", server.address());
    let files = root.path().display().to_string();
    let command = [
        "-m", "timeout", "60", "sh", "-c", script, "sh", &folder, &url, &files,
    ];
    let (ok, _, errors) = run("unshare", &command);
    assert!(ok, "davfs2: {errors}");
    assert_eq!(tree(&scratch.path().join("copy")), tree(root.path()));
}

#[test]
fn vlc_plays_a_film_of_the_server() {
    let test = "vlc_plays_a_film_of_the_server";
    if !have_or_skip(test, "vlc") || !have_or_skip(test, "ffmpeg") {
        return;
    }
    let library = Library::new(0, 0).expect("a library");
    make_film(&library.root().join("film.mp4"), true);
    let server = ServerBuilder::new([library.root()]).start();
    let copy = Scratch::new("vlc").expect("a folder");
    let copied = copy.path().join("film.ts");
    let target = copied.display();
    let output = format!("#std{{access=file,mux=ts,dst={target}}}");
    let url = format!("http://{}/film.mp4", server.address());
    // As root it refuses to start, unless its user id is that of a user namespace.
    let vlc = ["-I", "dummy", "--play-and-exit", "--sout", &output, &url];
    let home = format!("HOME={}", copy.path().display());
    let as_user = [
        "-U",
        "--map-user=1000",
        "env",
        &home,
        "timeout",
        "60",
        "vlc",
    ];
    let (ok, _, errors) = run("unshare", &[&as_user[..], &vlc].concat());
    let size = fs::metadata(&copied).map_or(0, |found| found.len());
    assert!(ok && size > 10_000, "{size} bytes: {errors}");
}

/// The links of a page that lead to entries of its folder, as Kodi finds them: one on each line, and
/// its text is its target.
fn entries_of(page: &str) -> Vec<String> {
    let entry = |line: &str| {
        let (href, rest) = line.split_once("<a href=\"")?.1.split_once("\">")?;
        let text = rest.split_once("</a>")?.0;
        let text = text
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&");
        let decoded = percent_decode(href);
        (decoded == text && decoded != "../").then(|| href.to_owned())
    };
    page.lines().filter_map(entry).collect()
}

fn percent_decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let code = std::str::from_utf8(after.get(..2).unwrap_or_default());
        let code = code.ok().and_then(|code| u8::from_str_radix(code, 16).ok());
        match (*first, code) {
            (b'%', Some(byte)) => (bytes.push(byte), rest = &after[2..]),
            (byte, _) => (bytes.push(byte), rest = after),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn listing_names_what_is_served_and_nothing_else() {
    let root = Scratch::new("listing").expect("a folder");
    let at = |name: &str| root.path().join(name);
    for folder in ["films", "closed", "quiet", "quiet/json", ".trash", "edge"] {
        fs::create_dir(at(folder)).expect("made");
        fs::write(at(folder).join("a.mp4"), folder).expect("written");
    }
    fs::write(at(".hidden.mp4"), "x").expect("written");
    std::os::unix::fs::symlink("films", at("link")).expect("linked");
    std::os::unix::fs::symlink("/etc/passwd", at("films/passwd")).expect("linked");
    let server = ServerBuilder::new([root.path()])
        .config(
            "listing = \"html\"\n[path.\"/closed/\"]\naccess = \"closed\"\n\
             [path.\"/quiet/\"]\nlisting = \"off\"\n[path.\"/quiet/json/\"]\nlisting = \"json\"\n",
        )
        .start();
    let get = |target: &str| server.get(target);
    let page = get("/");
    assert_eq!(page.status(), 200);
    assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.field("content-security-policy").unwrap_or_default();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    assert_eq!(entries_of(&page.text()), ["edge/", "films/"]);
    assert_eq!(entries_of(&get("/films/").text()), ["a.mp4"]);
    for (target, status) in [
        ("/closed/", 403),
        ("/quiet/", 404),
        ("/quiet/a.mp4", 200),
        ("/.trash/", 404),
        ("/link/", 404),
        ("/films/a.mp4/", 404),
        ("/none/", 404),
        ("/films/%2e%2e/", 400),
    ] {
        assert_eq!(get(target).status(), status, "{target}");
    }
    let json = get("/quiet/json/");
    assert_eq!(json.field("content-type"), Some("application/json"));
    let json: Value = serde_json::from_str(&json.text()).expect("JSON");
    assert_eq!(json[0]["name"], "a.mp4");
    assert_eq!(json[0]["type"], "file");
    assert_eq!(json[0]["size"], 10);

    // Without its slash, a folder is redirected, relative to its URL.
    for (target, location) in [
        ("/films", Some("./films/")),
        ("//films?sort=size", Some("./films/?sort=size")),
        ("/quiet", None),
        ("/closed", Some("./closed/")),
    ] {
        let reply = get(target);
        let status = if location.is_some() { 301 } else { 404 };
        assert_eq!(
            (reply.status(), reply.field("location")),
            (status, location),
            "{target}"
        );
    }

    // A listing is validated by its tag, until a name changes.
    let tag = page.field("etag").expect("a tag").to_owned();
    assert_eq!(page.field("cache-control"), Some("no-cache"));
    let again = || server.request("GET", "/", &[("If-None-Match", &tag)]);
    assert_eq!(again().status(), 304);
    fs::write(at("new.mp4"), "x").expect("written");
    let changed = again();
    assert_eq!(changed.status(), 200);
    assert_eq!(entries_of(&changed.text()), ["edge/", "films/", "new.mp4"]);
    let head = server.request("HEAD", "/", &[]);
    assert_eq!(
        head.field("content-length"),
        changed.field("content-length")
    );
    // Fields for files, such as an expiry, are not those of a listing.
    drop(server);
    let server = ServerBuilder::new([root.path()]).start();
    for target in ["/", "/films/", "/films"] {
        let reply = server.get(target);
        assert_eq!(reply.status(), 404, "{target}");
    }
}

#[test]
fn large_folder_is_listed_on_bounded_pages() {
    let root = Scratch::new("listing").expect("a folder");
    for index in 0..20_001 {
        fs::write(root.path().join(format!("{index:05}.ts")), "").expect("written");
    }
    let server = ServerBuilder::new([root.path()])
        .config("listing = \"html\"")
        .start();
    let get = |target: &str| server.get(target);
    let first = get("/");
    assert_eq!(entries_of(&first.text()).len(), 20_000);
    let next = "sort=name&order=asc&page=2";
    assert_eq!(
        first.field("link"),
        Some(&*format!("<?{next}>; rel=\"next\""))
    );
    let second = get(&format!("/?{next}"));
    assert_eq!(entries_of(&second.text()), ["20000.ts"]);
    assert_eq!(second.field("link"), None);
    let last = get("/?sort=name&order=desc");
    let last = entries_of(&last.text());
    assert_eq!(last.first().map(String::as_str), Some("20000.ts"));
    let properties = server.request("PROPFIND", "/", &[("Depth", "1")]).text();
    assert_eq!(properties.matches("<D:response>").count(), 20_002);
}

#[test]
fn webdav_reads_properties_and_refuses_changes() {
    let root = Scratch::new("listing").expect("a folder");
    let at = |name: &str| root.path().join(name);
    for folder in ["films", "closed", "quiet"] {
        fs::create_dir(at(folder)).expect("made");
        fs::write(at(folder).join("a b.mp4"), "12345").expect("written");
    }
    let server = ServerBuilder::new([root.path()])
        .config(
            "listing = \"json\"\n[path.\"/closed/\"]\naccess = \"closed\"\n\
             [path.\"/quiet/\"]\nlisting = \"off\"\n",
        )
        .start();
    let send = |method: &str, target: &str, depth: Option<&str>| {
        let fields: Vec<_> = depth.map(|depth| ("Depth", depth)).into_iter().collect();
        server.request(method, target, &fields)
    };
    let find = |target: &str, depth| send("PROPFIND", target, Some(depth));
    let hrefs = |target: &str, depth| {
        let reply = find(target, depth);
        assert_eq!(reply.status(), 207, "{target}");
        let text = reply.text();
        let hrefs = text.split("<D:href>").skip(1);
        let hrefs = hrefs.filter_map(|rest| Some(rest.split_once("</D:href>")?.0.to_owned()));
        hrefs.collect::<Vec<_>>()
    };
    assert_eq!(hrefs("/", "0"), ["/"]);
    assert_eq!(hrefs("/", "1"), ["/", "/films/"]);
    assert_eq!(hrefs("/films/", "1"), ["/films/", "/films/a%20b.mp4"]);
    assert_eq!(hrefs("/films/a%20b.mp4", "1"), ["/films/a%20b.mp4"]);
    let file = find("/films/a%20b.mp4", "0").text();
    assert!(
        file.contains("<D:getcontentlength>5</D:getcontentlength>"),
        "{file}"
    );
    for (target, depth, status) in [
        ("/films/", Some("infinity"), 403),
        ("/films/", None, 403),
        ("/closed/", Some("1"), 403),
        ("/closed/a%20b.mp4", Some("0"), 403),
        ("/quiet/", Some("1"), 405),
        ("/quiet/a%20b.mp4", Some("0"), 405),
        ("/films/none", Some("0"), 404),
        ("/films", Some("0"), 301),
    ] {
        assert_eq!(
            send("PROPFIND", target, depth).status(),
            status,
            "{target} {depth:?}"
        );
    }
    let options = send("OPTIONS", "/films/", None);
    assert_eq!(options.field("dav"), Some("1"));
    let allowed = Some("GET, HEAD, OPTIONS, PROPFIND");
    assert_eq!(options.field("allow"), allowed);
    assert_eq!(send("OPTIONS", "/quiet/", None).field("dav"), None);
    for method in [
        "PUT",
        "DELETE",
        "MKCOL",
        "PROPPATCH",
        "LOCK",
        "MOVE",
        "COPY",
        "POST",
    ] {
        let reply = send(method, "/films/a%20b.mp4", None);
        assert_eq!(
            (reply.status(), reply.field("allow")),
            (405, allowed),
            "{method}"
        );
    }
    // A body is neither needed nor read: the connection is closed after the reply.
    let mut connection = Connection::open(server.address()).expect("connected");
    let body = "<propfind xmlns='DAV:'><prop><getetag/></prop></propfind>";
    let length = body.len().to_string();
    let fields = [("Depth", "0"), ("Content-Length", &*length)];
    let text = request_text("PROPFIND", "/", &fields) + body;
    connection.send(text.as_bytes()).expect("sent");
    let reply = connection.receive("PROPFIND").expect("answered");
    assert_eq!(
        (reply.status(), reply.field("connection")),
        (207, Some("close"))
    );
}
