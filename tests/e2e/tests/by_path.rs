//! What is different below a path: fields for caches and pages, who may use it, and how fast it goes.

use std::time::Duration;

use headlong_e2e_tests::{Library, Title, eventually};
use headlong_testkit::client::{Connection, fetch, request_text};
use headlong_testkit::pattern;
use headlong_testkit::server::ServerBuilder;

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
fn fields_ends_pages_and_origins_are_as_the_path_says() {
    let library = library(&["films", "open"]);
    let server = ServerBuilder::new([library.root()])
        .config(
            r#"cache_status = true
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
    // However the path is spelt.
    let spelt = fetch(
        address,
        "GET",
        "//f%69lms/title.bin",
        &[("Referer", "https://e.example/")],
    );
    assert_eq!(spelt.expect("answered").status(), 403);
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
fn a_paced_reply_sends_its_burst_and_then_keeps_to_its_bit_rate() {
    let library = library(&["bytes", "rate", "open"]);
    // So slow that what comes after the burst does not come in this test, however slow it is itself.
    let server = ServerBuilder::new([library.root()])
        .config(
            r#"piece = "64KiB"
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
        let body = connection.receive_body(bytes).expect("they come at once");
        pattern::verify(0, 0, &body).expect("right bytes");
    };
    // The first piece is what the schedule is behind at the beginning.
    let mut by_bytes = begin("/bytes/title.bin", &[]);
    take(&mut by_bytes, PIECE_BYTES);
    // 125 bytes a second: the burst is 187,500 bytes, within the third piece.
    let slow = [("CMCD-Object", "br=1")];
    let mut by_rate = begin("/rate/title.bin", &slow);
    take(&mut by_rate, 3 * PIECE_BYTES);
    // Nobody knows the bit rate of this one.
    for target in ["/open/title.bin", "/rate/title.bin"] {
        let mut unpaced = begin(target, &[]);
        take(&mut unpaced, MIB);
    }
    for paced in [&mut by_bytes, &mut by_rate] {
        paced.set_patience(Duration::from_millis(300)).expect("set");
        assert!(paced.receive_body(1).is_err(), "nothing more for now");
    }
}
