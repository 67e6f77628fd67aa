//! Rules by path and by host: header fields for caches and pages, access, rates, and folders; names
//! and links.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use headlong_e2e_tests::{Library, Title, bounded, eventually, have_or_skip};
use headlong_testkit::client::{Connection, SecureClient, Version, fetch, request_text};
use headlong_testkit::server::{Server, ServerBuilder, free_address};
use headlong_testkit::{Scratch, pattern};

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
        .start();
    let films = |fields: &[(&str, &str)]| server.request("GET", "/films/title.bin", fields);
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
    let stranger = [("Referer", "https://e.example/")];
    let spelt = server.request("GET", "//f%69lms/title.bin", &stranger);
    assert_eq!(spelt.status(), 403);
    // Rules match the URL, also if a link leads to the file.
    let link = library.root().join("films/link.bin");
    std::os::unix::fs::symlink("../open/title.bin", link).expect("a link");
    let linked = server.get("/films/link.bin");
    assert_eq!(linked.status(), 200);
    assert_eq!(linked.field("cache-control"), Some("max-age=3600"));
    let open = server.request("GET", "/open/title.bin", &[("Origin", "https://a.example")]);
    assert_eq!(open.field("x-frame-options"), None);
    assert_eq!(open.field("expires"), None);
    assert_eq!(open.field("access-control-allow-origin"), Some("*"));
    let preflight = [
        ("Origin", "https://a.example"),
        ("Access-Control-Request-Method", "GET"),
    ];
    let reply = server.request("OPTIONS", "/films/title.bin", &preflight);
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
        .start();
    let address = server.address();
    let begin = |target: &str, fields: &[(&str, &str)]| {
        let connection = Connection::open(address).expect("connects");
        connection.begin(target, fields)
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
    let server = ServerBuilder::new([library.root()]).start();
    let ask = |method: &str, target: &str, fields: &[(&str, &str)]| {
        server.request(method, target, fields)
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
        .start();
    let ask = |method: &str, target: &str, fields: &[(&str, &str)]| {
        server.request(method, target, fields)
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
        .start();
    let ask = |target: &str, accepted: &str| {
        let fields = [("Accept-Encoding", accepted)];
        server.request("GET", target, &fields)
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
    let server = |config: &str| ServerBuilder::new([library.root()]).config(config).start();
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
    let packed = telling.request("GET", "/a.m3u8", &fields);
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
        let connection = Connection::open(server.address()).expect("connects");
        connection.begin("/a/title.bin", fields)
    };
    // So slow that nothing after the first piece arrives during this test.
    let start = |setting: &str| {
        let text = format!(
            "piece = \"64KiB\"\n{setting} = \"1B\"\nlimits.drain_timeout = \"1s\"\n[proxies]\ntrusted = [\"127.0.0.1\"]\n\
             [session]\nheader = \"x-session\"\n"
        );
        ServerBuilder::new([library.root()]).config(&text).start()
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

#[test]
fn link_into_listed_target_is_served_and_others_are_named() {
    let library = library(&["films"]);
    let [disk, other] = [0, 1].map(|_| Scratch::new("disk").expect("a folder"));
    for folder in [&disk, &other] {
        Title::create(folder.path(), "title.bin", 0, MIB).expect("a title");
    }
    let link = |target: &Scratch, name: &str| {
        std::os::unix::fs::symlink(target.path(), library.root().join(name)).expect("a link");
    };
    link(&disk, "disk2");
    link(&other, "disk3");
    let server = ServerBuilder::new([library.root()])
        .config(&format!("link_targets = [{:?}]\n", disk.path()))
        .start();
    let part = [("Range", "bytes=1000-1999")];
    let get = |target: &str| server.request("GET", target, &part);
    let reply = get("/disk2/title.bin");
    assert_eq!(reply.status(), 206);
    pattern::verify(0, 1000, &reply.body).expect("correct bytes");
    assert_eq!(get("/disk3/title.bin").status(), 404);
    let log = || server.output();
    eventually("the count", log, |log| log.contains("links_out=1"));
    let named = server.admin_json("/library.json");
    assert_eq!(named["odd"][0]["path"], "disk3");
    assert_eq!(named["odd_count"], 1);
}

/// A Mac writes decomposed names, browsers ask for composed ones.
#[test]
fn other_normal_form_of_a_name_is_served_under_its_rule() {
    let library = library(&["caf\u{e9}", "u\u{308}"]);
    let server = ServerBuilder::new([library.root()])
        .config("[path.\"/caf\u{e9}/\"]\naccess = \"closed\"\n")
        .start();
    let status = |target: &str| {
        server
            .request("GET", target, &[("Range", "bytes=5-8")])
            .status()
    };
    assert_eq!(status("/u%CC%88/title.bin"), 206);
    assert_eq!(status("/%C3%BC/title.bin"), 206);
    assert_eq!(status("/%C3%BC/other.bin"), 404);
    assert_eq!(status("/caf%C3%A9/title.bin"), 403);
    assert_eq!(status("/cafe%CC%81/title.bin"), 403);
}

/// Files at `x/title.mp4` of three trees: their patterns have the numbers 0, 1 and 2.
fn trees() -> [Library; 3] {
    [0, 1, 2].map(|number| {
        let tree = Library::new(0, 0).expect("a folder");
        let folder = tree.root().join("x");
        std::fs::create_dir(&folder).expect("a folder");
        Title::create(&folder, "title.mp4", number, 200_000).expect("a title");
        tree
    })
}

#[test]
fn sites_have_own_files_rules_and_sessions() {
    let trees = trees();
    let [top, films, alias] = trees.each_ref().map(|tree| tree.root());
    let folder = Scratch::new("sites").expect("a folder");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let (chain, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
    std::fs::write(&chain, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let (secure, log) = (free_address(), folder.path().join("access.log"));
    let server = ServerBuilder::new([top])
        // The memory for copies is a part of it.
        .memory("256MiB")
        .config(&format!(
            r#"[log]
access = {log:?}
[tls]
certificate = {chain:?}
key = {key:?}
listen = ["{secure}"]
[path."/closed/"]
access = "closed"
[site."films.example"]
names = ["www.films.example"]
roots = [{films:?}]
[site."films.example".path."/x/"]
headers = ["X-Of: films"]
[site."films.example".path."/alias/"]
alias = {alias:?}
[site."films.example".path."/shut/"]
access = "closed"
"#
        ))
        .start();
    let trusted = made.cert.der();
    let clients = [Version::Http1, Version::Http2]
        .map(|version| SecureClient::new(trusted, version).expect("a client"));
    let ask = |client: Option<&SecureClient>, host: &str, target: &str| match client {
        None => server.request("GET", target, &[("host", host)]),
        Some(client) => {
            let fields = vec![("host".to_owned(), host.to_owned())];
            let requests = [(target.to_owned(), fields)];
            let replies = client.fetch_all(secure, "GET", &requests);
            bounded(Duration::from_secs(60), replies)
                .expect("answered")
                .remove(0)
        }
    };
    // Until heads are cached, and then from the cache: the same target of two sites in turn.
    let cached = || -> u64 {
        let metrics = server.metrics();
        let mut lines = metrics.lines();
        let count = lines.find_map(|line| line.strip_prefix("headlong_cached_head_replies_total "));
        count.expect("counted").parse().expect("a number")
    };
    for client in [None, Some(&clients[0]), Some(&clients[1])] {
        let before = cached();
        for round in 0.. {
            assert!(round < 1000, "no reply comes from the head cache");
            if round % 10 == 0 && cached() > before + 10 {
                break;
            }
            for (host, number) in [("films.example", 1), ("other.example", 0)] {
                let reply = ask(client, host, "/x/title.mp4");
                assert_eq!(reply.status(), 200, "{host}");
                pattern::verify(number, 0, &reply.body).expect("the file of this host");
                let of = reply.field("x-of");
                assert_eq!(of.is_some(), number == 1, "{host}");
            }
        }
    }
    for (host, target, expected) in [
        ("WWW.films.example:8080", "/x/title.mp4", Ok(1)),
        ("films.example.", "/alias/x/title.mp4", Ok(2)),
        ("films.example", "/closed/x", Err(404)),
        ("other.example", "/closed/x", Err(403)),
        ("films.example", "/shut/x", Err(403)),
        ("other.example", "/shut/x", Err(404)),
        ("other.example", "/alias/x/title.mp4", Err(404)),
        ("other.example", "//films.example/x/title.mp4", Err(404)),
        ("other.example", "/films.example/x/title.mp4", Err(404)),
        ("films.example", "/", Err(404)),
    ] {
        for client in [None, Some(&clients[1])] {
            let reply = ask(client, host, target);
            match expected {
                Ok(number) => {
                    assert_eq!(reply.status(), 200, "{host}{target}");
                    pattern::verify(number, 0, &reply.body).expect("the file of this host");
                }
                Err(status) => assert_eq!(reply.status(), status, "{host}{target}"),
            }
        }
    }
    let sessions = || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines = text.lines().filter(|line| line.contains("/x/title.mp4"));
        let sessions = lines.filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(line["session"].as_str()?.to_owned())
        });
        sessions.collect::<std::collections::BTreeSet<_>>()
    };
    // All requests came from one address without a user agent.
    eventually("the log", sessions, |sessions| sessions.len() == 2);
    let library = server.admin_request("GET", "/library.json", &[]);
    let text = library.text();
    for path in ["\"/x/title.mp4\"", "\"//films.example/x/title.mp4\""] {
        assert!(text.contains(path), "{path} in {text}");
    }
}

#[test]
fn sites_have_origins_and_share_folders() {
    let trees = trees();
    let [top, films, other] = trees.each_ref().map(|tree| tree.root());
    let origins = [films, other].map(|root| ServerBuilder::new([root]).start());
    let folder = Scratch::new("sites").expect("a folder");
    let store = folder.path();
    let [one, two] = origins
        .each_ref()
        .map(|origin| format!("http://{}/", origin.address()));
    let mut server = ServerBuilder::new([top])
        .replaceable()
        .config(&format!(
            r#"[site."films.example"]
roots = [{top:?}]
[site."films.example".path."/x/"]
headers = ["X-Of: films"]
[site."films.example".pull."/vod/"]
origin = "{one}"
folder = {store:?}
free_bytes_min = "0B"
[site."edge.example".pull."/"]
origin = "{two}"
folder = {store:?}
free_bytes_min = "0B"
"#
        ))
        .start();
    let address = server.address();
    let ask = |host: &str, target: &str| {
        let reply = fetch(address, "GET", target, &[("host", host)]);
        reply.expect("answered")
    };
    // From the origin, from the slices, and by a new process that gets the memory of the old one.
    for round in 0..3 {
        if round == 2 {
            server.replace().expect("replaced");
        }
        for (host, target, number) in [
            ("other.example", "/x/title.mp4", Ok(0)),
            ("films.example", "/x/title.mp4", Ok(0)),
            ("films.example", "/vod/x/title.mp4", Ok(1)),
            ("edge.example", "/x/title.mp4", Ok(2)),
            ("other.example", "/vod/x/title.mp4", Err(404)),
            ("edge.example", "/vod/x/title.mp4", Err(404)),
        ] {
            let reply = ask(host, target);
            match number {
                Ok(number) => {
                    assert_eq!(reply.status(), 200, "{host}{target}");
                    pattern::verify(number, 0, &reply.body).expect("the title of this host");
                }
                Err(status) => assert_eq!(reply.status(), status, "{host}{target}"),
            }
        }
    }
    let of = |host: &str| ask(host, "/x/title.mp4").field("x-of").map(str::to_owned);
    assert_eq!(
        (of("films.example"), of("other.example")),
        (Some("films".to_owned()), None)
    );
    let purge = |path: &str| {
        let target = format!("/purge?path={path}");
        server.admin_request("POST", &target, &[]).text()
    };
    assert!(purge("/vod/x/title.mp4").contains("\"titles\":0"));
    assert!(purge("//films.example/vod/x/title.mp4").contains("\"titles\":1"));
    let metrics = server.metrics();
    for path in ["//films.example/vod/", "//edge.example/"] {
        assert!(
            metrics.contains(&format!("path=\"{path}\"")),
            "{path} in {metrics}"
        );
    }
    let folder = top.display();
    let detach = format!("/detach?root={folder}");
    let detached = server.admin_request("POST", &detach, &[]);
    assert_eq!(detached.status(), 200, "{}", detached.text());
    for (host, target, status) in [
        ("other.example", "/x/title.mp4", 404),
        ("films.example", "/x/title.mp4", 404),
        ("edge.example", "/x/title.mp4", 200),
    ] {
        assert_eq!(ask(host, target).status(), status, "{host}{target}");
    }
}

#[test]
fn sessions_of_sites_have_their_name_in_front() {
    let trees = trees();
    let [top, films, _] = trees.each_ref().map(|tree| tree.root());
    let folder = Scratch::new("sites").expect("a folder");
    let log = folder.path().join("access.log");
    let server = ServerBuilder::new([top])
        .config(&format!(
            "[log]\naccess = {log:?}\n[session]\nquery = \"sid\"\n\
             [site.\"films.example\"]\nroots = [{films:?}]"
        ))
        .start();
    for host in ["films.example", "other.example"] {
        let target = "/x/title.mp4?sid=abc";
        server.request("HEAD", target, &[("host", host)]);
    }
    eventually(
        "both sessions",
        || std::fs::read_to_string(&log).unwrap_or_default(),
        |text| text.contains("\"films.example/abc\"") && text.contains("\"abc\""),
    );
}

#[test]
fn preflight_names_token_headers_and_allows_cookies() {
    let library = library(&["dash"]);
    let server = ServerBuilder::new([library.root()])
        .config(
            r#"[cors]
origins = ["https://player.example"]
credentials = true
[path."/dash/"]
access = "jwt"
keys = ["0123456789abcdef0123456789abcdef"]
jwt_from = ["header:X-Ticket"]
"#,
        )
        .start();
    let origin = ("Origin", "https://player.example");
    let preflight = |target: &str| {
        let fields = [origin, ("Access-Control-Request-Method", "GET")];
        let reply = server.request("OPTIONS", target, &fields);
        assert_eq!(reply.status(), 204);
        assert_eq!(
            reply.field("access-control-allow-credentials"),
            Some("true")
        );
        let headers = reply.field("access-control-allow-headers");
        headers.expect("a preflight").contains("X-Ticket")
    };
    assert!(preflight("/dash/title.bin"));
    assert!(!preflight("/title-0.bin"));
    for (target, status) in [("/title-0.bin", 200), ("/dash/title.bin", 403)] {
        let reply = server.request("GET", target, &[origin]);
        assert_eq!(reply.status(), status);
        let allowed = reply.field("access-control-allow-origin");
        assert_eq!(allowed, Some("https://player.example"));
        assert_eq!(
            reply.field("access-control-allow-credentials"),
            Some("true")
        );
        assert_eq!(reply.field("vary"), Some("origin"));
    }
}

#[test]
fn bare_address_gets_a_text_about_the_server() {
    let library = library(&[]);
    let server = ServerBuilder::new([library.root()]).start();
    let reply = server.get("/");
    assert_eq!(reply.status(), 404);
    assert_eq!(
        reply.field("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(reply.text().contains("Headlong video server"));
}
