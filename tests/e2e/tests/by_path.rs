//! Rules by path: header fields for caches and pages, access, and rates.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use headlong_e2e_tests::{Library, Title, eventually, have_or_skip};
use headlong_testkit::client::{Connection, fetch, request_text};
use headlong_testkit::pattern;
use headlong_testkit::server::{Server, ServerBuilder};

const MIB: u64 = 1 << 20;
const PIECE_BYTES: u64 = 64 << 10;

/// The same title in folders of these names.
fn library(folders: &[&str]) -> Library {
    let library = Library::new(1, MIB).expect("a library");
    for folder in folders {
        let path = library.root().join(folder);
        std::fs::create_dir(&path).expect("a folder");
        Title::create(&path, "title.bin", 0, MIB).expect("a title");
    }
    library
}

#[test]
fn path_rule_sets_fields_expiry_referers_and_origins() {
    let library = library(&["films", "open"]);
    let server = ServerBuilder::new([library.root()])
        .config(
            r#"reply_fields = ["cache-status"]
[path."/films/"]
headers = ["X-Frame-Options: DENY", "X-Robots-Tag: noindex"]
expires = "1h"
referers = ["none", "tv.example", "*.tv.example"]
cors_origins = ["https://tv.example"]
"#,
        )
        .start()
        .expect("a server");
    let address = server.address();
    let films = |fields: &[(&str, &str)]| {
        fetch(address, "GET", "/films/title.bin", fields).expect("answered")
    };
    let reply = films(&[("Origin", "https://tv.example"), ("Range", "bytes=0-9")]);
    assert_eq!(reply.status(), 206);
    assert_eq!(reply.field("x-frame-options"), Some("DENY"));
    assert_eq!(reply.field("x-robots-tag"), Some("noindex"));
    assert_eq!(reply.field("cache-control"), Some("max-age=3600"));
    assert!(
        reply
            .field("expires")
            .is_some_and(|date| date.ends_with(" GMT"))
    );
    let allowed = reply.field("access-control-allow-origin");
    assert_eq!(allowed, Some("https://tv.example"));
    let miss = Some("headlong; fwd=miss; detail=disk");
    assert_eq!(reply.field("cache-status"), miss);
    let again = || films(&[]).field("cache-status").map(str::to_owned);
    eventually("a hit", again, |status| {
        status.as_deref() == Some("headlong; hit; detail=ram")
    });
    let stranger = films(&[("Origin", "https://evil.example")]);
    assert_eq!(stranger.field("access-control-allow-origin"), None);
    for (page, status) in [
        ("https://tv.example/a", 200),
        ("https://www.tv.example/", 200),
        ("https://evil.example/", 403),
        ("https://tv.example.evil/", 403),
    ] {
        let reply = films(&[("Referer", page)]);
        assert_eq!(reply.status(), status, "{page}");
        assert_eq!(
            reply.field("x-frame-options").is_some(),
            status == 200,
            "{page}"
        );
    }
    // Other spellings of the path match too.
    let spelt = fetch(
        address,
        "GET",
        "//f%69lms/title.bin",
        &[("Referer", "https://e.example/")],
    );
    assert_eq!(spelt.expect("answered").status(), 403);
    // Rules match the URL, also if a link leads to the file.
    let link = library.root().join("films/link.bin");
    std::os::unix::fs::symlink("../open/title.bin", link).expect("a link");
    let linked = fetch(address, "GET", "/films/link.bin", &[]).expect("answered");
    assert_eq!(linked.status(), 200);
    assert_eq!(linked.field("cache-control"), Some("max-age=3600"));
    let open = fetch(
        address,
        "GET",
        "/open/title.bin",
        &[("Origin", "https://a.example")],
    );
    let open = open.expect("answered");
    assert_eq!(open.field("x-frame-options"), None);
    assert_eq!(open.field("expires"), None);
    assert_eq!(open.field("access-control-allow-origin"), Some("*"));
    let preflight = [
        ("Origin", "https://a.example"),
        ("Access-Control-Request-Method", "GET"),
    ];
    let reply = fetch(address, "OPTIONS", "/films/title.bin", &preflight).expect("answered");
    assert_eq!(reply.field("access-control-allow-methods"), None);
}

#[test]
fn paced_reply_sends_burst_then_follows_bit_rate() {
    let library = library(&["bytes", "rate", "open"]);
    // So slow that nothing after the burst arrives during this test, however slow the test is.
    let server = ServerBuilder::new([library.root()])
        .config(
            r#"piece = "64KiB"
limits.drain_timeout = "1s"
[path."/bytes/"]
bytes_per_second_max = "1B"
[path."/rate/"]
pace_percent = 100
pace_burst = "1500s"
"#,
        )
        .start()
        .expect("a server");
    let address = server.address();
    let begin = |target: &str, fields: &[(&str, &str)]| {
        let mut connection = Connection::open(address).expect("connects");
        let text = request_text("GET", target, fields);
        connection.send(text.as_bytes()).expect("sent");
        assert_eq!(connection.receive_head().expect("a head").status, 200);
        connection
    };
    let take = |connection: &mut Connection, bytes: u64| {
        let body = connection
            .receive_body(bytes)
            .expect("the burst arrives at once");
        pattern::verify(0, 0, &body).expect("correct bytes");
    };
    // The first piece is what the schedule allows at the beginning.
    let mut by_bytes = begin("/bytes/title.bin", &[]);
    take(&mut by_bytes, PIECE_BYTES);
    // 125 bytes a second: the burst is 187,500 bytes, within the third piece.
    let slow = [("CMCD-Object", "br=1")];
    let mut by_rate = begin("/rate/title.bin", &slow);
    take(&mut by_rate, 3 * PIECE_BYTES);
    // The bit rate of this title is unknown.
    for target in ["/open/title.bin", "/rate/title.bin"] {
        let mut unpaced = begin(target, &[]);
        take(&mut unpaced, MIB);
    }
    for paced in [&mut by_bytes, &mut by_rate] {
        paced.set_patience(Duration::from_millis(300)).expect("set");
        assert!(paced.receive_body(1).is_err(), "no byte beyond the burst");
    }
}

/// Output of gzip.
fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut child = Command::new("gzip")
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gzip");
    let mut input = child.stdin.take().expect("a pipe");
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output().expect("ended");
    writer.join().expect("ended").expect("written");
    output.stdout
}

#[test]
fn compresses_playlists_but_not_ranges_or_video() {
    let test = "compresses_playlists_but_not_ranges_or_video";
    if !have_or_skip(test, "gzip") {
        return;
    }
    let library = library(&["films"]);
    let playlist: String = (0..9000).map(|n| format!("#EXTINF:4,\n{n}.ts\n")).collect();
    let text = playlist.as_bytes();
    for name in ["a.m3u8", "a.ts"] {
        std::fs::write(library.root().join(name), text).expect("written");
    }
    let large = playlist.repeat(4);
    std::fs::write(library.root().join("large.m3u8"), &large).expect("written");
    let server = ServerBuilder::new([library.root()])
        .start()
        .expect("a server");
    let ask = |method: &str, target: &str, fields: &[(&str, &str)]| {
        fetch(server.address(), method, target, fields).expect("answered")
    };
    const TAKES: (&str, &str) = ("Accept-Encoding", "br, gzip;q=0.8");
    let plain = ask("GET", "/a.m3u8", &[]);
    assert_eq!(
        (plain.body.as_slice(), plain.field("content-encoding")),
        (text, None)
    );
    for _ in 0..2 {
        let packed = ask("GET", "/a.m3u8", &[TAKES]);
        assert_eq!(packed.field("content-encoding"), Some("gzip"));
        assert!(packed.body.len() < text.len() / 3, "{}", packed.body.len());
        assert_eq!(unpacked(&packed.body), text);
        let length = packed.body.len().to_string();
        assert_eq!(packed.field("content-length"), Some(length.as_str()));
        let tags = (packed.field("etag"), plain.field("etag"));
        assert!(tags.0.is_some() && tags.0 != tags.1, "{tags:?}");
        let seen = ("If-None-Match", tags.0.expect("a tag"));
        assert_eq!(ask("GET", "/a.m3u8", &[TAKES, seen]).status(), 304);
        assert_eq!(ask("GET", "/a.m3u8", &[seen]).status(), 200);
        let told = ask("HEAD", "/a.m3u8", &[TAKES]);
        for name in ["content-encoding", "etag", "vary", "content-type"] {
            assert_eq!(told.field(name), packed.field(name), "{name}");
        }
        // The length is unknown before compression.
        for name in ["content-length", "accept-ranges"] {
            assert_eq!(told.field(name), None, "{name}");
        }
        assert_eq!(ask("HEAD", "/a.m3u8", &[TAKES, seen]).status(), 304);
    }
    for (method, target, fields) in [
        ("GET", "/a.m3u8", &[TAKES, ("Range", "bytes=10-19")][..]),
        ("HEAD", "/a.m3u8", &[]),
        ("GET", "/a.m3u8", &[("Accept-Encoding", "gzip;q=0")]),
        ("GET", "/a.ts", &[TAKES]),
        ("GET", "/large.m3u8", &[TAKES]),
    ] {
        let reply = ask(method, target, fields);
        assert_eq!(reply.field("content-encoding"), None, "{method} {target}");
        let varies = target == "/a.m3u8";
        let vary = reply.field("vary");
        assert_eq!(
            vary,
            varies.then_some("accept-encoding"),
            "{method} {target}"
        );
    }
    let part = ask("GET", "/a.m3u8", &[TAKES, ("Range", "bytes=10-19")]);
    assert_eq!((part.status(), part.body.as_slice()), (206, &text[10..20]));
    assert_eq!(part.field("etag"), plain.field("etag"));
}

#[test]
fn sends_ready_made_gzip_file_if_it_is_usable() {
    let library = library(&["films"]);
    let write = |name: &str, text: &[u8]| {
        std::fs::write(library.root().join(name), text).expect("written");
    };
    let text: String = (0..900).map(|n| format!("#EXTINF:4,\n{n}.ts\n")).collect();
    for name in ["a", "none", "old", "empty", "folder", "video"] {
        let kind = if name == "video" { "ts" } else { "m3u8" };
        write(&format!("{name}.{kind}"), text.as_bytes());
    }
    // Their contents are not inspected.
    for name in ["a.m3u8.gz", "old.m3u8.gz", "video.ts.gz"] {
        write(name, b"packed");
    }
    write("empty.m3u8.gz", b"");
    std::fs::create_dir(library.root().join("folder.m3u8.gz")).expect("made");
    let path = library.root().join("old.m3u8.gz");
    let old = std::fs::File::options().write(true).open(path);
    let old = old.expect("there");
    old.set_modified(std::time::UNIX_EPOCH).expect("a time");
    let server = ServerBuilder::new([library.root()])
        .config("gzip = [\"static\"]")
        .start()
        .expect("a server");
    let ask = |method: &str, target: &str, fields: &[(&str, &str)]| {
        fetch(server.address(), method, target, fields).expect("answered")
    };
    const TAKES: (&str, &str) = ("Accept-Encoding", "gzip");
    for _ in 0..2 {
        let packed = ask("GET", "/a.m3u8", &[TAKES]);
        assert_eq!((packed.status(), &packed.body[..]), (200, &b"packed"[..]));
        let said = |name| packed.field(name);
        assert_eq!(said("content-encoding"), Some("gzip"));
        assert_eq!(said("content-type"), Some("application/vnd.apple.mpegurl"));
        assert_eq!(said("content-length"), Some("6"));
        assert_eq!(
            (said("vary"), said("accept-ranges")),
            (Some("accept-encoding"), None)
        );
        let plain = ask("GET", "/a.m3u8", &[]);
        assert_eq!(plain.body, text.as_bytes());
        assert_eq!(plain.field("vary"), Some("accept-encoding"));
        assert_ne!(plain.field("etag"), packed.field("etag"));
        let seen = ("If-None-Match", packed.field("etag").expect("a tag"));
        assert_eq!(ask("GET", "/a.m3u8", &[TAKES, seen]).status(), 304);
        assert_eq!(ask("GET", "/a.m3u8", &[seen]).status(), 200);
        let told = ask("HEAD", "/a.m3u8", &[TAKES]);
        for name in ["content-encoding", "content-length", "etag", "vary"] {
            assert_eq!(told.field(name), packed.field(name), "{name}");
        }
        assert_eq!((told.status(), told.field("accept-ranges")), (200, None));
    }
    for (method, target, fields) in [
        ("GET", "/none.m3u8", &[TAKES][..]),
        ("GET", "/old.m3u8", &[TAKES]),
        ("GET", "/empty.m3u8", &[TAKES]),
        ("GET", "/folder.m3u8", &[TAKES]),
        ("GET", "/video.ts", &[TAKES]),
        ("HEAD", "/none.m3u8", &[TAKES]),
        ("GET", "/a.m3u8", &[TAKES, ("Range", "bytes=0-9")]),
        ("GET", "/a.m3u8.gz", &[TAKES]),
    ] {
        let reply = ask(method, target, fields);
        assert!(matches!(reply.status(), 200 | 206), "{target}");
        assert_eq!(reply.field("content-encoding"), None, "{method} {target}");
    }
}

#[test]
fn sends_ready_made_file_of_preferred_coding() {
    let library = library(&["films"]);
    let names = [
        "a.m3u8",
        "a.m3u8.gz",
        "a.m3u8.br",
        "a.m3u8.zst",
        "b.m3u8",
        "b.m3u8.gz",
    ];
    for name in names {
        std::fs::write(library.root().join(name), name).expect("written");
    }
    let server = ServerBuilder::new([library.root()])
        .config("gzip = [\"static\", \"static-br\", \"static-zstd\"]")
        .start()
        .expect("a server");
    let ask = |target: &str, accepted: &str| {
        let fields = [("Accept-Encoding", accepted)];
        fetch(server.address(), "GET", target, &fields).expect("answered")
    };
    let mut tags = std::collections::BTreeSet::new();
    for (target, accepted, coding, sent) in [
        (
            "/a.m3u8",
            "gzip, deflate, br, zstd",
            Some("br"),
            "a.m3u8.br",
        ),
        ("/a.m3u8", "gzip, deflate, zstd", Some("zstd"), "a.m3u8.zst"),
        ("/a.m3u8", "br;q=0.5, gzip", Some("gzip"), "a.m3u8.gz"),
        ("/a.m3u8", "deflate", None, "a.m3u8"),
        ("/b.m3u8", "br, zstd, gzip;q=0.1", Some("gzip"), "b.m3u8.gz"),
        ("/b.m3u8", "br", None, "b.m3u8"),
    ] {
        let reply = ask(target, accepted);
        assert_eq!(
            (reply.status(), reply.text()),
            (200, sent.to_owned()),
            "{accepted}"
        );
        assert_eq!(reply.field("content-encoding"), coding, "{accepted}");
        assert_eq!(reply.field("vary"), Some("accept-encoding"));
        assert_eq!(
            reply.field("content-type"),
            Some("application/vnd.apple.mpegurl")
        );
        tags.insert(reply.field("etag").expect("a tag").to_owned());
    }
    assert_eq!(tags.len(), 6, "{tags:?}");
}

#[test]
fn sends_cmsd_fields_only_if_enabled() {
    let library = library(&["bounded"]);
    for name in ["a.m3u8", "bounded/b.m4a"] {
        std::fs::write(library.root().join(name), vec![b'#'; 5000]).expect("written");
    }
    let server = |config: &str| {
        let server = ServerBuilder::new([library.root()]).config(config);
        server.start().expect("a server")
    };
    let cmsd_fields = |address, target: &str| {
        let reply = fetch(address, "GET", target, &[]).expect("answered");
        let field = |name| reply.field(name).map(str::to_owned);
        (field("cmsd-static"), field("cmsd-dynamic"))
    };
    let silent = server("");
    assert_eq!(cmsd_fields(silent.address(), "/a.m3u8"), (None, None));
    let telling = server(
        "reply_fields = [\"cmsd\"]\n[path.\"/bounded/\"]\nbytes_per_second_max = \"1MiB\"\n",
    );
    let (of_object, of_reply) = cmsd_fields(telling.address(), "/a.m3u8");
    assert_eq!(of_object.as_deref(), Some("ot=m,sf=h"));
    assert!(of_reply.is_some_and(|text| text.starts_with("\"headlong\";rd=")));
    let fields = [("Accept-Encoding", "gzip")];
    let packed = fetch(telling.address(), "GET", "/a.m3u8", &fields).expect("answered");
    assert_eq!(packed.field("content-encoding"), Some("gzip"));
    assert_eq!(packed.field("cmsd-static"), Some("ot=m,sf=h"));
    let (of_object, of_reply) = cmsd_fields(telling.address(), "/bounded/b.m4a");
    assert_eq!(of_object.as_deref(), Some("ot=a"));
    let bounded = "\"headlong\";mb=8388;rd=";
    assert!(of_reply.is_some_and(|text| text.starts_with(bounded)));
    assert_eq!(cmsd_fields(telling.address(), "/missing.ts"), (None, None));

    // The kernel has measured the throughput of the connection by its second request.
    std::fs::write(library.root().join("long.bin"), vec![b'#'; 8 << 20]).expect("written");
    let mut connection = Connection::open(telling.address()).expect("connects");
    let mut again = || {
        let text = request_text("GET", "/long.bin", &[]);
        connection.send(text.as_bytes()).expect("sent");
        let head = connection.receive_head().expect("a head");
        // The server has more data to send, for a while, than the client reads.
        std::thread::sleep(Duration::from_millis(50));
        connection.receive_body(8 << 20).expect("a body");
        head.field("cmsd-dynamic").expect("there").to_owned()
    };
    assert!(
        again().starts_with("\"headlong\";rd="),
        "nothing was measured"
    );
    let text = eventually("a measurement", again, |text| text.contains(";etp="));
    let etp = text.split([';', '=']).nth(2).expect("a value");
    assert_eq!(etp.parse::<u64>().expect("a number") % 100, 0, "{text}");
}

/// Whether bytes of a body arrive within a time that suffices if they are not held back.
fn comes(connection: &mut Connection) -> bool {
    connection
        .set_patience(Duration::from_millis(300))
        .expect("set");
    connection.receive_body(1).is_ok()
}

#[test]
fn rate_is_shared_per_address_and_per_session() {
    let library = library(&["a"]);
    let begin = |server: &Server, fields: &[(&str, &str)]| {
        let mut connection = Connection::open(server.address()).expect("connects");
        let text = request_text("GET", "/a/title.bin", fields);
        connection.send(text.as_bytes()).expect("sent");
        assert_eq!(connection.receive_head().expect("a head").status, 200);
        connection
    };
    // So slow that nothing after the first piece arrives during this test.
    let start = |setting: &str| {
        let text = format!(
            "piece = \"64KiB\"\n{setting} = \"1B\"\nlimits.drain_timeout = \"1s\"\n[proxies]\ntrusted = [\"127.0.0.1\"]\n\
             [session]\nheader = \"x-session\"\n"
        );
        let builder = ServerBuilder::new([library.root()]).config(&text);
        builder.start().expect("a server")
    };
    let of = |address, session| [("X-Forwarded-For", address), ("X-Session", session)];
    let by_address = start("bytes_per_second_per_address_max");
    let mut first = begin(&by_address, &of("192.0.2.1", "one"));
    assert!(comes(&mut first));
    let mut same = begin(&by_address, &of("192.0.2.1", "two"));
    let mut other = begin(&by_address, &of("192.0.2.2", "one"));
    assert!(
        !comes(&mut same),
        "the rate is charged after the client has gone"
    );
    assert!(comes(&mut other));
    // The proxy itself is not a client.
    for _ in 0..2 {
        let mut own = begin(&by_address, &[]);
        own.receive_body(MIB).expect("without a rate");
    }
    let by_session = start("bytes_per_second_per_session_max");
    let mut first = begin(&by_session, &of("192.0.2.1", "one"));
    assert!(comes(&mut first));
    let mut same = begin(&by_session, &of("192.0.2.2", "one"));
    let mut other = begin(&by_session, &of("192.0.2.1", "two"));
    assert!(!comes(&mut same));
    assert!(comes(&mut other));
}
