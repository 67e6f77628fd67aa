//! Response-head cache: repeated requests get a cached head, identical to the first one, until
//! anything changes.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;

use headlong_e2e_tests::{Library, Title, eventually, have_or_skip, logged_lines};
use headlong_testkit::client::{Connection, Response, fetch, request_text};
use headlong_testkit::server::ServerBuilder;
use headlong_testkit::{Scratch, Server, pattern};
use rustix::process::Signal;
use serde_json::Value;

use crate::packaging::{get, links, make_films};

const SIZE: u64 = 200_000;
const NEW: u64 = 1_000;
/// After this many requests the content is copied and the head is cached.
const REPEATS: usize = 40;

type Fields = [(&'static str, &'static str)];

fn server(library: &Library, config: &str) -> Server {
    ServerBuilder::new([library.root()])
        .memory("256MiB")
        .config(config)
        .start()
}

fn at_hand(server: &Server) -> u64 {
    let metrics = server.metrics();
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("headlong_cached_head_replies_total "));
    line.expect("counted").parse().expect("a number")
}

/// The head without its date, and the body.
fn parts_of(response: &Response) -> (u16, Vec<(String, String)>, &[u8]) {
    let fields = response.head.fields.iter();
    let fields = fields.filter(|(name, _)| !name.eq_ignore_ascii_case("date"));
    let fields = fields.cloned().collect();
    (response.status(), fields, &response.body)
}

fn ask(address: SocketAddr, title: &Title, fields: &Fields) -> Response {
    fetch(address, "GET", &title.target, fields).expect("a reply")
}

/// Repeats a request until some replies come from the cache; all of them must satisfy `right`.
fn heat(server: &Server, target: &str, fields: &Fields, right: impl Fn(&Response)) {
    let before = at_hand(server);
    let mut connection = Connection::open(server.address()).expect("connects");
    for _ in 0..100 {
        for _ in 0..REPEATS {
            let reply = connection.request("GET", target, fields);
            right(&reply.expect("a reply"));
        }
        if at_hand(server) > before {
            return;
        }
    }
    panic!("{target} {fields:?} is never served from the head cache");
}

#[test]
fn cached_replies_equal_the_first_reply() {
    let library = Library::new(2, SIZE).expect("a library");
    let server = server(&library, "[cors]\norigins = [\"https://a.example\"]");
    let title = &library.titles[1];
    let plain: [&Fields; 5] = [
        &[],
        &[("Range", "bytes=0-4095"), ("User-Agent", "player/1")],
        &[("Range", "bytes=70000-"), ("Accept", "*/*")],
        &[("Range", "bytes=-500"), ("Connection", "keep-alive")],
        &[("Range", "bytes=5-190000"), ("Sec-Fetch-Mode", "cors")],
    ];
    for fields in plain {
        let first = ask(server.address(), title, fields);
        let body = &first.body;
        let start = first.head.content_range().map_or(0, |range| range.0);
        pattern::verify(1, start, body).expect("correct bytes");
        heat(&server, &title.target, fields, |reply| {
            expect_same(reply, &first);
            assert_eq!(
                reply
                    .head
                    .fields
                    .iter()
                    .filter(|(name, _)| name == "date")
                    .count(),
                1
            );
        });
    }
    check_head_fields_that_matter(&server, title);
}

/// Packaged segments: one range of the file behind a head, and sound between pictures.
#[test]
fn cached_segments_equal_the_first_reply_until_their_file_changes() {
    let test = "cached_segments_equal_the_first_reply_until_their_file_changes";
    if !have_or_skip(test, "ffmpeg") {
        return;
    }
    let root = Scratch::new("at-hand").expect("a folder");
    make_films(root.path());
    let server = ServerBuilder::new([root.path()])
        .memory("256MiB")
        .config("package = \"on\"\npackage_segment = \"2s\"\nrevalidate = \"200ms\"")
        .start();
    let mut segments = Vec::new();
    for playlist in ["v1a1.m3u8", "a1.m3u8"] {
        let media = get(server.address(), &format!("/first.mp4/{playlist}"), &[]).text();
        let segment = links(&media).into_iter().nth(2).expect("a segment");
        let target = format!("/first.mp4/{segment}");
        let first = get(server.address(), &target, &[]);
        assert_eq!(&first.body[4..8], b"moof");
        heat(&server, &target, &[], |reply| expect_same(reply, &first));
        let part = get(server.address(), &target, &[("Range", "bytes=90-2999")]);
        assert_eq!(
            (part.status(), &part.body[..]),
            (206, &first.body[90..3000])
        );
        segments.push(target);
    }
    fs::rename(root.path().join("last.mp4"), root.path().join("first.mp4")).expect("renamed");
    for target in segments {
        let reply = || get(server.address(), &target, &[]);
        eventually("the new version", reply, |reply| reply.status() == 404);
    }
}

/// The same status, fields and bytes, but for the place that the first one came from.
fn expect_same(reply: &Response, first: &Response) {
    let [(again, head_again, body_again), (status, head, body)] = [reply, first].map(parts_of);
    let told_of = |mut head: Vec<(String, String)>| {
        head.retain(|(name, _)| !name.eq_ignore_ascii_case("cache-status"));
        head
    };
    assert_eq!((again, told_of(head_again)), (status, told_of(head)));
    assert!(body_again == body, "other bytes");
}

/// While the title's head is cached.
fn check_head_fields_that_matter(server: &Server, title: &Title) {
    let address = server.address();
    let etag = ask(address, title, &[])
        .field("etag")
        .expect("a tag")
        .to_owned();
    let fetch =
        |fields: &[(&str, &str)]| fetch(address, "GET", &title.target, fields).expect("a reply");
    let range = ("Range", "bytes=0-4095");
    assert_eq!(fetch(&[("If-None-Match", &etag)]).status(), 304);
    assert_eq!(fetch(&[range, ("If-Range", "\"other\"")]).status(), 200);
    assert_eq!(fetch(&[range, ("If-Range", &etag)]).status(), 206);
    assert_eq!(fetch(&[("Range", "bytes=9999999-")]).status(), 416);
    let origin = fetch(&[range, ("Origin", "https://a.example")]);
    let allowed = origin.field("access-control-allow-origin");
    assert_eq!(allowed, Some("https://a.example"));
    let closed = fetch(&[range, ("Connection", "close")]);
    assert_eq!(closed.field("connection"), Some("close"));
    let mut connection = Connection::open(address).expect("connects");
    let target = &title.target;
    let no_host = format!("GET {target} HTTP/1.1\r\nRange: bytes=0-4095\r\n\r\n");
    connection.send(no_host.as_bytes()).expect("sent");
    assert_eq!(connection.receive("GET").expect("a reply").status(), 400);
    // Two requests at once, the second with a body that the server ignores.
    let mut connection = Connection::open(address).expect("connects");
    let one = format!("GET {target} HTTP/1.1\r\nHost: h\r\nRange: bytes=0-4095\r\n");
    let both = format!("{one}\r\n{one}Content-Length: 3\r\n\r\nabc");
    connection.send(both.as_bytes()).expect("sent");
    for connection_field in [None, Some("close")] {
        let reply = connection.receive("GET").expect("a reply");
        assert_eq!(
            (reply.status(), reply.field("connection")),
            (206, connection_field)
        );
        pattern::verify(1, 0, &reply.body).expect("correct bytes");
    }
}

#[test]
fn replaced_file_is_not_served_with_the_old_head() {
    let library = Library::new(1, SIZE).expect("a library");
    let server = server(&library, "revalidate = \"200ms\"");
    let title = &library.titles[0];
    heat(&server, &title.target, &[], |reply| {
        pattern::verify(0, 0, &reply.body).expect("bytes of the old version");
    });
    let old = ask(server.address(), title, &[]);
    let beside = library.root().join(".new");
    pattern::write_file(&beside, NEW, SIZE).expect("written");
    fs::rename(beside, &title.path).expect("renamed");
    let is_new = |reply: &Response| {
        let is_old_tag = reply.field("etag") == old.field("etag");
        let version = if is_old_tag { 0 } else { NEW };
        pattern::verify(version, 0, &reply.body).expect("bytes of the version of its tag");
        !is_old_tag
    };
    eventually(
        "the new version",
        || ask(server.address(), title, &[]),
        is_new,
    );
    heat(&server, &title.target, &[], |reply| {
        assert!(is_new(reply), "the old version was served again")
    });
}

#[test]
fn reload_invalidates_cached_heads() {
    let library = Library::new(1, SIZE).expect("a library");
    let server = server(&library, "cache_control = \"max-age=1\"");
    let title = &library.titles[0];
    let says = |reply: &Response, text: &str| reply.field("cache-control") == Some(text);
    heat(&server, &title.target, &[], |reply| {
        assert!(says(reply, "max-age=1"))
    });
    fs::write(server.config_path(), "cache_control = \"max-age=2\"\n").expect("written");
    server.signal(Signal::HUP).expect("signalled");
    let new = || ask(server.address(), title, &[]);
    eventually("the new settings", new, |reply| says(reply, "max-age=2"));
    heat(&server, &title.target, &[], |reply| {
        assert!(says(reply, "max-age=2"))
    });
    // Access is checked for each request.
    let closed = "cache_control = \"max-age=2\"\n[path.\"/\"]\naccess = \"closed\"\n";
    fs::write(server.config_path(), closed).expect("written");
    server.signal(Signal::HUP).expect("signalled");
    eventually("the access rule", new, |reply| reply.status() == 403);
    for _ in 0..REPEATS {
        assert_eq!(new().status(), 403);
    }
}

#[test]
fn log_has_a_line_for_each_cached_reply() {
    let scratch = Scratch::new("at-hand").expect("a folder");
    let log = scratch.path().join("access.log");
    let library = Library::new(1, SIZE).expect("a library");
    let server = server(
        &library,
        &format!("[log]\naccess = {log:?}\nformat = \"json\""),
    );
    let title = &library.titles[0];
    let fields: &Fields = &[
        ("Range", "bytes=100-50099"),
        ("User-Agent", "player/\"1\""),
        ("Referer", "https://a.example/x"),
    ];
    heat(&server, &title.target, fields, |reply| {
        assert_eq!(reply.body.len(), 50_000)
    });
    let count = at_hand(&server);
    drop(server);
    let lines = logged_lines(&log, REPEATS);
    assert!(count > 0);
    let unseen = lines
        .iter()
        .filter(|line| line.get("chain").is_none_or(Value::is_null));
    assert!(unseen.clone().count() as u64 >= count);
    for line in &lines {
        for (name, value) in [
            ("method", "GET".into()),
            ("target", title.target.as_str().into()),
            ("version", "HTTP/1.1".into()),
            ("range", "bytes=100-50099".into()),
            ("status", Value::from(206)),
            ("bytes_sent", Value::from(50_000)),
            ("user_agent", "player/\"1\"".into()),
            ("referer", "https://a.example/x".into()),
            ("session_from", "address".into()),
            ("session", lines[0]["session"].clone()),
            ("device", lines[0]["device"].clone()),
        ] {
            assert_eq!(line[name], value, "{name} of {line}");
        }
    }
    for line in unseen {
        assert_eq!(line["bytes_from_ram"], 50_000, "{line}");
    }
}

#[test]
fn replies_that_vary_by_request_are_not_cached() {
    let library = Library::new(1, SIZE).expect("a library");
    let text = "#EXTM3U\n".repeat(5_000);
    fs::write(library.root().join("list.m3u8"), &text).expect("written");
    let packed = library.root().join("list.m3u8.gz");
    fs::write(&packed, pattern::bytes(7, 0..3_000)).expect("written");
    let server = server(
        &library,
        "reply_fields = [\"request-id\"]\ngzip = [\"dynamic\", \"static\"]",
    );
    let mut ids = HashSet::new();
    let mut connection = Connection::open(server.address()).expect("connects");
    for number in 0..4 * REPEATS {
        let title = connection.request("GET", &library.titles[0].target, &[]);
        let gzip: &Fields = &[("Accept-Encoding", "gzip")];
        let packed = connection.request("GET", "/list.m3u8", gzip);
        let plain = connection.request("GET", "/list.m3u8", &[]);
        let [title, packed, plain] = [title, packed, plain].map(|reply| reply.expect("a reply"));
        let has_gzip = [&packed, &plain].map(|reply| reply.field("content-encoding").is_some());
        assert_eq!(has_gzip, [true, false], "request {number}");
        assert!(plain.body == text.as_bytes() && packed.body.len() == 3_000);
        for reply in [title, packed, plain] {
            let id = reply.field("x-request-id").expect("said").to_owned();
            assert!(ids.insert(id), "request {number}");
        }
    }
    assert_eq!(at_hand(&server), 0);
}

#[test]
fn stalled_client_leaves_no_data_in_the_socket() {
    let library = Library::new(1, 10 * SIZE).expect("a library");
    let server = server(&library, "[limits]\nsend_timeout = \"1s\"");
    let title = &library.titles[0];
    heat(&server, &title.target, &[], |reply| {
        assert_eq!(reply.status(), 200)
    });
    let mut idle = Connection::open(server.address()).expect("connects");
    // The replies exceed the buffers of both ends, and the server has read all requests.
    let request = request_text("GET", &title.target, &[]).repeat(20);
    idle.send(request.as_bytes()).expect("sent");
    eventually(
        "the timeout of the idle connection",
        || server.metrics(),
        |metrics| metrics.contains("headlong_connections_cut_total{reason=\"send-timeout\"} 1"),
    );
    let (_, is_reset) = idle.drain().expect("an end");
    assert!(is_reset, "queued replies were kept");
}
