//! Client hints: requests that a player announces (CMCD `nor`, `nrr`) are read ahead, and give no
//! access.

use headlong_e2e_tests::eventually;
use headlong_testkit::client::Response;
use headlong_testkit::server::{Server, ServerBuilder};
use headlong_testkit::{Scratch, pattern};

const SEGMENT: u64 = 700_001;

/// Segments in files of their own, without a playlist, and a folder without access.
fn segments() -> Scratch {
    let root = Scratch::new("expecting").expect("a folder");
    for (number, name) in (0..).zip(["a/seg-0.m4s", "a/seg-1.m4s", "a/seg 2.m4s", "closed/x.m4s"]) {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        pattern::write_file(&path, number, SEGMENT).expect("a segment");
    }
    root
}

fn ask(server: &Server, path: &str, said: &str) -> Response {
    let fields = [("CMCD-Session", "sid=\"one\""), ("CMCD-Request", said)];
    let reply = server.request("GET", path, &fields);
    assert_eq!(reply.status(), 200, "{}", reply.text());
    reply
}

fn counter(server: &Server, name: &str) -> u64 {
    server.status().counter(name)
}

/// Waits until this many announced requests have been read ahead.
fn until_read(server: &Server, count: u64) {
    let seen = || ["announced_read", "reads", "reads_done"].map(|name| counter(server, name));
    let is_read = |seen: &[u64; 3]| seen[0] == count && seen[1] == seen[2];
    eventually("the announced request is read", seen, is_read);
}

#[test]
fn announced_request_is_in_memory_when_it_arrives() {
    let root = segments();
    let server = ServerBuilder::new([root.path()])
        .config("reply_fields = [\"cache-status\"]\n")
        .start();
    ask(&server, "/a/seg-0.m4s", "nor=\"seg-1.m4s\"");
    until_read(&server, 1);
    let next = ask(
        &server,
        "/a/seg-1.m4s",
        "nor=(\"..%2Fa%2Fseg%25202.m4s\";r=\"0-9\")",
    );
    assert_eq!(
        next.field("cache-status"),
        Some("headlong; hit; detail=ram")
    );
    pattern::verify(1, 0, &next.body).expect("correct bytes");
    assert_eq!(counter(&server, "announced_met"), 1);
    until_read(&server, 2);
    let last = ask(&server, "/a/seg%202.m4s", "");
    assert_eq!(
        last.field("cache-status"),
        Some("headlong; hit; detail=ram")
    );
    assert_eq!(counter(&server, "announced_met"), 2);
    // It was read once.
    assert!(counter(&server, "bytes_read") <= 3 * SEGMENT.next_multiple_of(4096));
}

#[test]
fn hint_reads_nothing_that_a_request_may_not() {
    let root = segments();
    let outside = root.path().with_extension("outside");
    std::fs::create_dir_all(&outside).expect("a folder");
    std::fs::write(outside.join("y.m4s"), "outside").expect("a file");
    std::os::unix::fs::symlink(outside.join("y.m4s"), root.path().join("a/link.m4s"))
        .expect("a link");
    let server = ServerBuilder::new([root.path()])
        .config("[path.\"/closed/\"]\naccess = \"closed\"\n[path.\"/asked/\"]\naccess = \"auth-request\"\nauth_url = \"http://127.0.0.1:9/\"\n")
        .start();
    for named in [
        "../closed/x.m4s",
        "/closed/x.m4s",
        "..%2Fclosed%2Fx.m4s",
        "%2e%2e%2fclosed%2fx.m4s",
        "/asked/x.m4s",
        "link.m4s",
        "../../../../etc/passwd",
        "..%2F..%2F..%2Fetc%2Fpasswd",
        "%252e%252e/%252e%252e/etc/passwd",
        "http://127.0.0.1/a/seg-1.m4s",
        "//127.0.0.1/a/seg-1.m4s",
        "nothing.m4s",
        "a\\\\b",
        "",
    ] {
        ask(&server, "/a/seg-0.m4s", &format!("nor=\"{named}\""));
    }
    ask(
        &server,
        "/a/seg-0.m4s",
        "nor=\"seg-1.m4s\",nrr=\"9999999-\"",
    );
    ask(&server, "/a/seg-0.m4s", "nor=\"seg-1.m4s\",nrr=\"0-99\"");
    until_read(&server, 1);
    assert_eq!(counter(&server, "announced"), 1);
    assert!(!server.output().contains("authorization request failed"));
    let _ = std::fs::remove_dir_all(outside);
}

#[test]
fn hint_with_folder_token_is_read_ahead() {
    let root = segments();
    let key = "0123456789abcdef0123456789abcdef";
    let server = ServerBuilder::new([root.path()])
        .config(&format!(
            "[path.\"/\"]\naccess = \"signed\"\nkeys = [\"{key}\"]\n"
        ))
        .start();
    // printf '4000000000\n-\nprefix /a/' | openssl dgst -sha256 -hmac KEY -binary | base64url
    let token = token_of_a(key);
    let path = format!("/t/4000000000.1.{token}/a/seg-0.m4s");
    ask(&server, &path, "nor=\"../closed/x.m4s\"");
    ask(&server, &path, "nor=\"seg-1.m4s\"");
    until_read(&server, 1);
    let query = format!("expires=4000000000&prefix=/a/&token={token}");
    // With the hint's own arguments, or those of the request that sent the hint.
    ask(
        &server,
        &format!("/a/seg-0.m4s?{query}"),
        "nor=\"/closed/x.m4s\"",
    );
    ask(
        &server,
        &format!("/a/seg-0.m4s?{query}"),
        "nor=\"seg%25202.m4s\"",
    );
    until_read(&server, 2);
    assert_eq!(counter(&server, "announced"), 2);
}

fn token_of_a(key: &str) -> String {
    let script = format!(
        "printf '4000000000\\n-\\nprefix /a/' | openssl dgst -sha256 -hmac {key} -binary | \
         openssl base64 -A | tr +/ -_ | tr -d ="
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .output();
    let text = String::from_utf8(output.expect("openssl").stdout).expect("text");
    text.trim().to_owned()
}

#[test]
fn hint_for_pulled_title_reads_only_local_slices() {
    let root = segments();
    let cache = Scratch::new("expecting-edge").expect("a folder");
    let origin = ServerBuilder::new([root.path()]).start();
    let settings = format!(
        "reply_fields = [\"cache-status\"]\n[pull.\"/vod/\"]\norigin = \"http://{}/a/\"\nfolder = \"{}\"\n\
         slice_bytes = \"1MiB\"\n",
        origin.address(),
        cache.path().display()
    );
    let edge = ServerBuilder::without_roots().config(&settings).start();
    ask(&edge, "/vod/seg-1.m4s", "");
    let fetched = |edge: &Server| {
        let metrics = edge.metrics();
        let line = metrics
            .lines()
            .find(|line| line.starts_with("headlong_pull_fetched_bytes_total"))
            .map(str::to_owned);
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
    };
    ask(&edge, "/vod/seg-0.m4s", "nor=\"seg%25202.m4s\"");
    ask(&edge, "/vod/seg-0.m4s", "nor=\"seg-1.m4s\"");
    assert_eq!(fetched(&edge), Some(2 * SEGMENT), "no origin is asked");
    let seen = || counter(&edge, "announced");
    eventually("the hint is counted", seen, |count| *count == 1);
}
