//! An edge in front of an origin: every byte is correct and fetched once, also with a faulty
//! origin, little space or a restart of the edge.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use headlong_e2e_tests::edge::{
    SLICE, assert_right, disk_usage_below, edge, files_below, ground, metric, range, right_range,
    settings, settle,
};
use headlong_e2e_tests::origin::{Mode, Origin};
use headlong_e2e_tests::{Nginx, Title, eventually, have_or_skip};
use headlong_testkit::client::{ClientError, Connection, Response, fetch};
use headlong_testkit::server::{Server, ServerBuilder};
use headlong_testkit::{Scratch, pattern};

/// The root of an origin, and the folder of an edge.
fn folders() -> [Scratch; 2] {
    ["origin", "edge"].map(|name| Scratch::new(name).expect("a folder"))
}

/// Pseudo-random numbers, the same each time.
fn next(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn random_ranges_through_edge_fetch_each_byte_once() {
    let [root, cache] = folders();
    std::fs::create_dir(root.path().join("films")).expect("a folder");
    let size = 2_000_123_u64;
    for title in 0..3 {
        Title::create(root.path(), &format!("films/a {title}.mp4"), title, size).expect("a title");
    }
    let origin = ServerBuilder::new([root.path()]).start();
    let url = format!("http://{}/films/", origin.address());
    let edge = ServerBuilder::without_roots()
        .config(&settings(&url, cache.path(), ""))
        .start();
    std::thread::scope(|scope| {
        for client in 0..8_u64 {
            let edge = &edge;
            scope.spawn(move || {
                let mut chance = client + 1;
                for _ in 0..15 {
                    let title = next(&mut chance) % 3;
                    let first = next(&mut chance) % size;
                    let end = (first + 1 + next(&mut chance) % 300_000).min(size);
                    let reply = range(edge, &format!("/vod/a%20{title}.mp4"), first, end);
                    assert_right(&reply.expect("a reply"), title, first, end);
                }
            });
        }
    });
    for title in 0..3 {
        let reply = edge.get(&format!("/vod/a%20{title}.mp4"));
        assert_eq!((reply.status(), reply.body.len() as u64), (200, size));
        pattern::verify(title, 0, &reply.body).expect("correct bytes");
    }
    assert_eq!(metric(&edge, "headlong_pull_fetched_bytes_total"), 3 * size);
    assert_eq!(
        metric(&origin, "headlong_response_body_bytes_total"),
        3 * size
    );
    settle(&edge);
    let used = metric(&edge, "headlong_pull_used_bytes");
    assert!((3 * size..3 * size + SLICE).contains(&used), "{used}");
    // Its folder is not a root: nothing in it has a path.
    std::fs::write(cache.path().join("own.mp4"), "own").expect("written");
    let own = edge.get("/own.mp4");
    assert_eq!(own.status(), 404);
}

#[test]
fn name_that_is_not_utf8_is_served_directly_and_through_edge() {
    let [root, cache] = folders();
    let name = OsStr::from_bytes(b"caf\xe9.mp4");
    let made = Title::create(root.path(), "made.mp4", 5, 2 * SLICE + 77).expect("a title");
    std::fs::rename(made.path, root.path().join(name)).expect("renamed");
    let origin = ServerBuilder::new([root.path()]).start();
    let url = format!("http://{}/", origin.address());
    let edge = ServerBuilder::without_roots()
        .config(&settings(&url, cache.path(), ""))
        .start();
    for (server, target) in [(&origin, "/caf%E9.mp4"), (&edge, "/vod/caf%e9.mp4")] {
        let whole = server.get(target);
        assert_eq!(
            (whole.status(), whole.body.len() as u64),
            (200, 2 * SLICE + 77)
        );
        pattern::verify(5, 0, &whole.body).expect("correct bytes");
        right_range(server, target, 5, SLICE - 9, SLICE + 9);
        let other = target
            .replace("%E9", "%EE%BF%A9")
            .replace("%e9", "%EE%BF%A9");
        let other = server.get(&other);
        assert_eq!(
            other.status(),
            404,
            "the character that stands for the byte"
        );
    }
    let listed = origin.admin_json("/library.json");
    let title = &listed["titles"][0];
    assert_eq!(title["path"], "/caf%E9.mp4");
    assert_eq!(title["name"], "caf\u{fffd}");
}

#[test]
fn edge_forwards_its_request_id_to_the_origin() {
    let [root, cache] = folders();
    Title::create(root.path(), "a.mp4", 0, 4 * SLICE).expect("a title");
    let log = cache.path().join("origin.log");
    let trusting = format!("[log]\naccess = {log:?}\n[proxies]\ntrusted = [\"127.0.0.1/32\"]\n");
    let origin = ServerBuilder::new([root.path()]).config(&trusting).start();
    let url = format!("http://{}/", origin.address());
    let config = settings(&url, &cache.path().join("kept"), "");
    std::fs::create_dir(cache.path().join("kept")).expect("a folder");
    let config = config.replacen("\"cache-status\"", "\"cache-status\", \"request-id\"", 1);
    let edge = ServerBuilder::without_roots().config(&config).start();
    let reply = right_range(&edge, "/vod/a.mp4", 0, 0, 4 * SLICE);
    let id = reply.field("x-request-id").expect("a request id");
    let said = format!("\"request_id\":\"{id}\"");
    // The title's metadata, and four slices, some of them read ahead.
    let lines = eventually(
        "the origin's log",
        || std::fs::read_to_string(&log).unwrap_or_default(),
        |text| text.lines().count() >= 5,
    );
    assert!(
        lines.lines().all(|line| line.contains(&said)),
        "{id} in {lines}"
    );
    let own = origin.get("/a.mp4");
    assert_eq!(own.field("x-request-id"), None, "only with a trusted proxy");
}

#[test]
fn access_log_has_configured_headers_and_trace() {
    let [root, cache] = folders();
    Title::create(root.path(), "a.mp4", 0, SLICE).expect("a title");
    let logs = ["origin.log", "edge.log"].map(|name| cache.path().join(name));
    let logging =
        |log: &Path| format!("[log]\naccess = {log:?}\nheaders = [\"Host\", \"X-Title\"]\n");
    let origin = ServerBuilder::new([root.path()])
        .config(&logging(&logs[0]))
        .start();
    let url = format!("http://{}/", origin.address());
    std::fs::create_dir(cache.path().join("kept")).expect("a folder");
    let config = settings(&url, &cache.path().join("kept"), "") + &logging(&logs[1]);
    let edge = ServerBuilder::without_roots().config(&config).start();
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let fields = [("traceparent", traceparent), ("x-title", "a \"b\"")];
    let reply = edge.request("GET", "/vod/a.mp4", &fields);
    assert_eq!(reply.status(), 200);
    let line = |log: &Path| {
        let read = || std::fs::read_to_string(log).unwrap_or_default();
        eventually("a line", read, |text| text.contains("\"method\":\"GET\""))
    };
    let trace = format!("\"traceparent\":\"{traceparent}\"");
    let own = line(&logs[1]);
    let headers = r#""headers":{"host":"localhost","x-title":"a \"b\""}"#;
    assert!(own.contains(&trace) && own.contains(headers), "{own}");
    let passed_on = line(&logs[0]);
    assert!(
        passed_on.lines().all(|line| line.contains(&trace)),
        "{passed_on}"
    );
    assert!(!passed_on.contains("x-title"), "{passed_on}");
}

#[test]
fn edge_reports_cache_status_and_caches_not_found() {
    let test = "edge_reports_cache_status_and_caches_not_found";
    if !have_or_skip(test, "nginx") {
        return;
    }
    let [root, cache] = folders();
    Title::create(root.path(), "a.mp4", 5, 300_000).expect("a title");
    let nginx = Nginx::start(root.path()).expect("nginx");
    let url = format!("http://{}/", nginx.address());
    let edge = ServerBuilder::without_roots()
        .config(&settings(&url, cache.path(), ""))
        .start();
    let head = || {
        let head = edge.request("HEAD", "/vod/a.mp4", &[]);
        assert_eq!(head.status(), 200);
        head.field("cache-status").map(str::to_owned)
    };
    let asked = "headlong; fwd=miss; stored; detail=origin";
    assert_eq!(head().as_deref(), Some(asked));
    assert_eq!(head().as_deref(), Some("headlong; hit; detail=head"));
    let first = right_range(&edge, "/vod/a.mp4", 5, 10, 100_000);
    settle(&edge);
    assert_eq!(head().as_deref(), Some("headlong; hit; detail=slice"));
    assert_eq!(
        first.field("cache-status"),
        Some("headlong; fwd=miss; stored; detail=origin")
    );
    let again = right_range(&edge, "/vod/a.mp4", 5, 10, 100_000);
    assert_eq!(
        again.field("cache-status"),
        Some("headlong; hit; detail=slice")
    );
    assert!(again.field("age").is_some());
    let direct = fetch(nginx.address(), "HEAD", "/a.mp4", &[]).expect("a reply");
    assert_eq!(again.field("etag"), direct.field("etag"));
    assert_eq!(again.field("last-modified"), direct.field("last-modified"));
    let tag = direct.field("etag").expect("a tag").to_owned();
    let same = edge.request("GET", "/vod/a.mp4", &[("If-None-Match", &tag)]);
    assert_eq!(same.status(), 304);
    for _ in 0..3 {
        let none = edge.get("/vod/none.mp4");
        assert_eq!(none.status(), 404);
    }
    assert_eq!(
        metric(
            &edge,
            "headlong_pull_faults_total{path=\"/vod/\",kind=\"absent\"}"
        ),
        1
    );
    // A path inside the edge's folder is not a title.
    let outside = edge.get("/vod/.headlong-pull/x");
    assert_eq!(outside.status(), 404);
}

#[test]
fn faulty_origin_fails_replies_without_wrong_bytes() {
    let (origin, cache) = ground();
    let edge = edge(
        &origin,
        cache.path(),
        "fresh = \"0s\"\nstale_max = \"0s\"\nnegative = \"0s\"\nidle_timeout = \"500ms\"",
    );
    let port = origin.address().port();
    let modes = [
        Mode::Down,
        Mode::Hang,
        Mode::Short,
        Mode::WrongTotal,
        Mode::WrongRange,
        Mode::Whole,
        Mode::Loop,
        Mode::To(format!("http://localhost:{port}/o/1-200000")),
        Mode::To("http://169.254.169.254/latest/meta-data".to_owned()),
        Mode::To("file:///etc/passwd".to_owned()),
        Mode::Garbage,
        Mode::Endless,
        Mode::Absent,
    ];
    for (title, mode) in (1..).zip(modes) {
        let path = format!("/vod/{title}-200000");
        origin.be(mode.clone());
        // In some modes the origin's metadata is correct until the first slice is requested.
        let reply = range(&edge, &path, 0, 200_000);
        match reply {
            Ok(reply) if reply.status() == 206 => {
                // In these modes the title can be fetched in slices, or as another version that is
                // whole in itself.
                let is_fit = matches!(mode, Mode::Short | Mode::WrongTotal);
                assert!(is_fit, "{mode:?} gave {}", reply.status());
                pattern::verify(title, 0, &reply.body).expect("correct bytes");
            }
            Ok(reply) => {
                let expected = match mode {
                    Mode::Hang => [504].as_slice(),
                    Mode::Absent => &[404],
                    _ => &[502, 503, 504],
                };
                assert!(
                    expected.contains(&reply.status()),
                    "{mode:?} gave {}",
                    reply.status()
                );
            }
            Err(error) => assert!(error.is_cut(), "{mode:?}: {error}"),
        }
        origin.be(Mode::Well);
        let ask = || range(&edge, &path, 0, 200_000);
        let is_well = |reply: &Result<Response, ClientError>| {
            reply.as_ref().is_ok_and(|reply| reply.status() == 206)
        };
        let what = format!("served again after {mode:?}");
        let well = eventually(&what, ask, is_well).expect("a reply");
        assert_right(&well, title, 0, 200_000);
    }
}

#[test]
fn changed_title_is_not_mixed_with_its_old_version() {
    let (origin, cache) = ground();
    let edge = edge(&origin, cache.path(), "ahead_bytes = \"0B\"");
    let path = "/vod/1-500000";
    right_range(&edge, path, 1, 0, 1000);
    origin.be(Mode::Changed);
    // Its first slice is still fresh; the next is missing, and the origin has another version now.
    right_range(&edge, path, 1001, 300_000, 301_000);
    right_range(&edge, path, 1001, 0, 1000);
    // A reply in progress during the change ends short.
    origin.be(Mode::Well);
    let over = fetch(edge.address(), "GET", path, &[]);
    match over {
        Ok(reply) => pattern::verify(1, 0, &reply.body).expect("all of one version"),
        Err(error) => assert!(error.is_cut(), "{error}"),
    }
}

#[test]
fn detects_rewritten_title_of_same_length_by_weak_tag() {
    let weak = (Some("W/\"a\""), Some("W/\"b\""));
    for (before, after) in [(None, None), weak] {
        let (origin, cache) = ground();
        let edge = edge(&origin, cache.path(), "fresh = \"0s\"");
        let path = "/vod/1-50000";
        let mut tags = Vec::new();
        for (tag, more) in [(before, 0), (after, 1000)] {
            origin.be(Mode::Tagged(tag, more));
            let reply = right_range(&edge, path, 1 + more, 0, 1000);
            tags.push(reply.head.field("etag").map(str::to_owned));
        }
        assert_ne!(tags[0], tags[1], "{before:?}");
    }
}

#[test]
fn serves_stored_slices_while_the_origin_is_down() {
    let (origin, cache) = ground();
    let edge = edge(
        &origin,
        cache.path(),
        "fresh = \"1ms\"\nahead_bytes = \"0B\"",
    );
    let path = "/vod/3-400000";
    right_range(&edge, path, 3, 0, 130_000);
    settle(&edge);
    origin.be(Mode::Down);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for first in [0, 50_000, 100_000] {
                    right_range(&edge, path, 3, first, first + 20_000);
                }
            });
        }
    });
    assert!(metric(&edge, "headlong_pull_stale_replies_total") > 0);
    let missing = range(&edge, path, 300_000, 301_000).expect("a reply");
    assert_eq!(missing.status(), 502);
    let begun = range(&edge, path, 100_000, 400_000);
    assert!(begun.is_err_and(|error| error.is_cut()));
    origin.be(Mode::Well);
    // After several failures the origin is asked again only after a pause.
    let again = || range(&edge, path, 100_000, 400_000).ok();
    let reply = eventually("the origin is asked again", again, Option::is_some);
    assert_right(&reply.expect("a reply"), 3, 100_000, 400_000);
    let said = eventually(
        "the log message",
        || edge.output(),
        |said| said.contains("origin responds again"),
    );
    assert_eq!(said.matches("origin fails").count(), 1, "{said}");
    assert_eq!(said.matches("origin responds again").count(), 1, "{said}");
}

#[test]
fn title_larger_than_space_is_fetched_once() {
    let (origin, folder) = ground();
    let more = "bytes_max = \"1MiB\"\nahead_bytes = \"256KiB\"";
    let edge = edge(&origin, folder.path(), more);
    let whole = edge.get("/vod/5-4000000");
    assert_eq!(whole.body.len(), 4_000_000);
    pattern::verify(5, 0, &whole.body).expect("correct bytes");
    assert_eq!(
        metric(&edge, "headlong_pull_fetched_bytes_total"),
        4_000_000
    );
}

#[test]
fn two_servers_cannot_share_a_pull_folder() {
    let (origin, folder) = ground();
    let first = edge(&origin, folder.path(), "");
    let reply = range(&first, "/vod/4-400000", 0, SLICE).expect("answered");
    assert_right(&reply, 4, 0, SLICE);
    settle(&first);
    let url = format!("http://{}/o/", origin.address());
    let text = settings(&url, folder.path(), "");
    let second = ServerBuilder::without_roots().config(&text);
    let error = second.try_start().err().expect("the folder is taken");
    assert!(error.contains("another server uses this folder"), "{error}");
    drop(first);
    let after = edge(&origin, folder.path(), "");
    let reply = range(&after, "/vod/4-400000", 0, SLICE).expect("answered");
    assert_right(&reply, 4, 0, SLICE);
    assert_eq!(metric(&after, "headlong_pull_fetched_bytes_total"), 0);
}

#[test]
fn interrupted_fetch_resumes() {
    let (origin, cache) = ground();
    let edge = edge(&origin, cache.path(), "ahead_bytes = \"0B\"");
    origin.be(Mode::Short);
    // Half of the remainder arrives until the retries are used up; the next request starts again.
    right_range(&edge, "/vod/4-60000", 4, 0, 100);
    let sent = || origin.sent_bytes();
    eventually("three attempts", sent, |sent| {
        *sent == 30_000 + 15_000 + 7_500
    });
    settle(&edge);
    origin.be(Mode::Well);
    right_range(&edge, "/vod/4-60000", 4, 0, 60_000);
}

#[test]
fn stored_titles_stay_within_the_size_limit() {
    let (origin, cache) = ground();
    let edge = edge(&origin, cache.path(), "bytes_max = \"1MiB\"");
    std::thread::scope(|scope| {
        for client in 0..4_u64 {
            let edge = &edge;
            scope.spawn(move || {
                for round in 0..10 {
                    let title = (client * 3 + round) % 10;
                    let reply = range(edge, &format!("/vod/{title}-400000"), 0, 400_000);
                    assert_right(&reply.expect("a reply"), title, 0, 400_000);
                }
            });
        }
    });
    settle(&edge);
    assert!(metric(&edge, "headlong_pull_used_bytes") <= 1 << 20);
    assert!(metric(&edge, "headlong_pull_evicted_bytes_total") > 0);
    // The folders of the prefix and the lock file are not counted.
    let is_few = |bytes: &u64| *bytes <= (1 << 20) + 20_000;
    let usage = || disk_usage_below(cache.path());
    eventually("the disk usage", usage, is_few);
}

#[test]
fn restarted_edge_keeps_whole_slices_only() {
    let (origin, cache) = ground();
    let first = edge(&origin, cache.path(), "");
    let path = "/vod/6-300000";
    right_range(&first, path, 6, 0, 300_000);
    settle(&first);
    first.stop();
    let files = files_below(cache.path());
    let slice = files
        .iter()
        .find(|file| file.ends_with("0000001"))
        .expect("a slice");
    // A crash leaves a temporary file; and one slice is truncated.
    std::fs::copy(slice, slice.with_file_name("tmp-4000000000-0000002")).expect("a copy");
    let cut = slice.with_file_name("0000003");
    std::fs::File::options()
        .write(true)
        .open(&cut)
        .expect("a slice")
        .set_len(10)
        .expect("cut");
    let sent = origin.sent_bytes();
    let again = edge(&origin, cache.path(), "");
    right_range(&again, path, 6, 0, 300_000);
    assert_eq!(origin.sent_bytes() - sent, SLICE);
    // The refetched slice has a temporary file of its own until it is stored.
    settle(&again);
    assert!(
        !files_below(cache.path())
            .iter()
            .any(|file| file.to_string_lossy().contains("tmp-"))
    );
    again.stop();
    // The origin is down at the start: stored slices are served.
    origin.be(Mode::Down);
    let alone = edge(&origin, cache.path(), "");
    let reply = right_range(&alone, path, 6, 0, 300_000);
    assert_eq!(
        reply.field("cache-status"),
        Some("headlong; hit; ttl=-1; detail=stale")
    );
}

#[test]
fn duplicate_title_of_two_processes_is_stored_once() {
    let (origin, cache) = ground();
    let first = edge(&origin, cache.path(), "ahead_bytes = \"0B\"");
    let path = "/vod/6-300000";
    right_range(&first, path, 6, 0, SLICE);
    settle(&first);
    first.stop();
    // As left by a process that was replaced after the next one had started.
    let files = files_below(cache.path());
    let slice = files.iter().find(|file| file.ends_with("0000000"));
    let folder = slice.and_then(|slice| slice.parent()).expect("a version");
    let mut name = folder.file_name().expect("a name").to_owned();
    name.push("0");
    let twin = folder.with_file_name(name);
    std::fs::create_dir(&twin).expect("a folder");
    for file in files.iter().filter(|file| file.parent() == Some(folder)) {
        std::fs::copy(file, twin.join(file.file_name().expect("a name"))).expect("a copy");
    }
    let again = edge(&origin, cache.path(), "ahead_bytes = \"0B\"");
    right_range(&again, path, 6, 0, 300_000);
    settle(&again);
    let used = metric(&again, "headlong_pull_used_bytes");
    assert!((300_000..600_000).contains(&used), "{used}");
    let left = || folder.exists() && twin.exists();
    eventually("the removal of one of them", left, |both| !both);
}

#[test]
fn purge_removes_title_or_prefix_and_reports_bytes() {
    let (origin, cache) = ground();
    let edge = edge(&origin, cache.path(), "");
    let read_all = || {
        for title in 7..10 {
            let reply = range(&edge, &format!("/vod/{title}-100000"), 0, 100_000);
            assert_right(&reply.expect("a reply"), title, 0, 100_000);
        }
        settle(&edge);
    };
    read_all();
    let purge = |query: &str, fields: &[(&str, &str)]| {
        let reply = edge.admin_request("POST", &format!("/purge?{query}"), fields);
        (reply.status(), reply.text())
    };
    let gone =
        |titles: u64, bytes: u64| (200, format!("{{\"titles\":{titles},\"bytes\":{bytes}}}"));
    assert_eq!(purge("path=/vod/7-100000", &[]), gone(1, 100_000));
    assert_eq!(purge("path=/vod/7-100000", &[]), gone(0, 0));
    let sent = origin.sent_bytes();
    read_all();
    assert_eq!(origin.sent_bytes() - sent, 100_000);
    assert_eq!(purge("prefix=%2Fvod%2F", &[]), gone(3, 300_000));
    assert_eq!(metric(&edge, "headlong_pull_used_bytes"), 0);
    read_all();
    for wrong in ["", "path=", "path=x", "paths=/vod/", "path=/a&prefix=/"] {
        assert_eq!(purge(wrong, &[]).0, 400, "{wrong}");
    }
    assert_eq!(
        purge("prefix=/", &[("Origin", "http://evil.example")]).0,
        403
    );
    let get = edge.admin_request("GET", "/purge?prefix=/", &[]);
    assert_eq!(get.status(), 404);
    read_all();
}

#[test]
fn concurrent_requests_share_one_fetch_despite_disconnect() {
    let (origin, cache) = ground();
    let edge = edge(&origin, cache.path(), "ahead_bytes = \"0B\"");
    // One client sends a request and disconnects at once.
    let mut leaver = Connection::open(edge.address()).expect("a connection");
    leaver
        .send(b"GET /vod/8-60000 HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("sent");
    drop(leaver);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                right_range(&edge, "/vod/8-60000", 8, 0, 60_000);
            });
        }
    });
    assert_eq!(origin.sent_bytes(), 60_000);
    assert_eq!(origin.asked(), 2, "one HEAD and one fetch");
}

/// A file system in memory; unmounted when dropped.
struct Small<'a>(&'a Path);

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn edge_evicts_when_the_file_system_is_full() {
    let test = "edge_evicts_when_the_file_system_is_full";
    let (origin, cache) = (
        Origin::start().expect("an origin"),
        Scratch::new("small").expect("a folder"),
    );
    let flags = rustix::mount::MountFlags::empty();
    let mounted = rustix::mount::mount("none", cache.path(), "tmpfs", flags, Some(c"size=1m"));
    if let Err(error) = mounted {
        return headlong_testkit::skip(test, &format!("no file system can be mounted: {error}"));
    }
    let small = Small(cache.path());
    // By its own limit it could store a hundred times as much.
    let edge = edge(&origin, cache.path(), "bytes_max = \"100MiB\"");
    for round in 0..3 {
        for title in 0..6 {
            let reply = range(&edge, &format!("/vod/{title}-400000"), 0, 400_000);
            let reply = reply.unwrap_or_else(|error| panic!("{round} {title}: {error}"));
            assert_right(&reply, title, 0, 400_000);
        }
    }
    assert!(metric(&edge, "headlong_pull_evicted_bytes_total") > 0);
    assert!(metric(&edge, "headlong_pull_used_bytes") <= 1 << 20);
    edge.stop();
    drop(small);
}

#[test]
fn killed_edge_has_only_whole_slices() {
    let (origin, cache) = ground();
    for round in 0..5_u64 {
        let mut edge = edge(&origin, cache.path(), "");
        std::thread::scope(|scope| {
            for title in 0..4 {
                let address = edge.address();
                scope.spawn(move || {
                    let path = format!("/vod/{title}-3000000");
                    // The reply is cut off; its bytes are verified as far as they arrived.
                    if let Ok(reply) = fetch(address, "GET", &path, &[]) {
                        pattern::verify(title, 0, &reply.body).expect("correct bytes");
                    }
                });
            }
            let some = (round + 1) * 400_000;
            let is_some = |sent: &u64| *sent >= some.min(1_500_000);
            let before = origin.sent_bytes();
            let ask = || origin.sent_bytes() - before + round * 3_000_000;
            eventually("bytes that were fetched", ask, is_some);
            edge.signal(rustix::process::Signal::KILL).expect("killed");
        });
        edge.wait(Duration::from_secs(10))
            .expect("the edge has ended");
    }
    let edge = edge(&origin, cache.path(), "");
    let is_half = |file: &std::path::PathBuf| file.to_string_lossy().contains("/tmp-");
    assert!(!files_below(cache.path()).iter().any(is_half));
    for title in 0..4 {
        let reply = range(&edge, &format!("/vod/{title}-3000000"), 0, 3_000_000);
        assert_right(&reply.expect("a reply"), title, 0, 3_000_000);
    }
}

#[test]
fn query_is_part_of_title_if_enabled_but_tokens_never() {
    let ask = |edge: &Server, query: &str, title: u64| {
        let path = format!("/vod/1-100000{query}");
        let reply = right_range(edge, &path, title, 0, 50_000);
        settle(edge);
        reply.field("cache-status").map(str::to_owned)
    };
    let rule = "[path.\"/vod/\"]\nsecret_arguments = [\"ticket\"]\n[session]\nquery = \"who\"\n";
    let (miss, hit) = (
        Some("headlong; fwd=miss; stored; detail=origin".to_owned()),
        Some("headlong; hit; detail=slice".to_owned()),
    );
    // With the whole query.
    let (origin, folder) = ground();
    let more = format!("ahead_bytes = \"0B\"\nquery = \"key\"\n{rule}");
    let server = edge(&origin, folder.path(), &more);
    assert_eq!(ask(&server, "?v=5&ticket=abc&who=me", 5), miss);
    assert_eq!(ask(&server, "?who=you&v=6", 6), miss);
    assert_eq!(ask(&server, "?v=5&t%69cket=x&CMCD=br%3D1", 5), hit);
    assert_eq!(ask(&server, "", 1), miss);
    assert_eq!(ask(&server, "?v=5&x", 5), miss);
    let mut targets = origin.targets();
    targets.dedup();
    let asked = ["?v=5", "?v=6", "", "?v=5&x"].map(|query| format!("/o/1-100000{query}"));
    assert_eq!(targets, asked);
    let long = format!("?x={}", "y".repeat(2000));
    let reply = range(&server, &format!("/vod/1-100000{long}"), 0, 10).expect("a reply");
    assert_eq!(reply.status(), 400);
    // A restart distinguishes them, and a purge removes all titles of a path.
    drop(server);
    let server = edge(&origin, folder.path(), &more);
    assert_eq!(ask(&server, "?v=6", 6), hit);
    let purged = server
        .admin_request("POST", "/purge?path=/vod/1-100000", &[])
        .text();
    assert!(purged.contains("\"titles\":4"), "{purged}");
    drop(server);
    // With some arguments, in any order.
    let (origin, folder) = ground();
    let more = format!("ahead_bytes = \"0B\"\nquery = [\"v\", \"ticket\"]\n{rule}");
    let server = edge(&origin, folder.path(), &more);
    assert_eq!(ask(&server, "?a=1&v=5&ticket=abc", 5), miss);
    assert_eq!(ask(&server, "?v=5&a=2", 5), hit);
    assert!(
        origin
            .targets()
            .iter()
            .all(|target| target == "/o/1-100000?v=5")
    );
    drop(server);
    // With no argument, as by default.
    let (origin, folder) = ground();
    let server = edge(&origin, folder.path(), "ahead_bytes = \"0B\"\n");
    assert_eq!(ask(&server, "?v=5", 1), miss);
    assert_eq!(ask(&server, "?v=6", 1), hit);
    assert!(
        origin
            .targets()
            .iter()
            .all(|target| target == "/o/1-100000")
    );
}
