//! `headlong fill`: titles of an origin are fetched ahead of viewers, which are unaffected.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use headlong_e2e_tests::edge::{self, ground, metric};
use headlong_e2e_tests::eventually;
use headlong_e2e_tests::origin::{Mode, Origin};
use headlong_testkit::client::fetch;
use headlong_testkit::server::{Server, binary};
use headlong_testkit::{ProgramRun, pattern};

/// An edge that reads nothing ahead.
fn edge(origin: &Origin, folder: &Path, more: &str) -> Server {
    edge::edge(origin, folder, &format!("ahead_bytes = \"0B\"\n{more}"))
}

fn command(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    let admin = server.admin().to_string();
    command.args(["fill", "--admin", &admin]).args(arguments);
    command.stdin(Stdio::null());
    command
}

fn fill(server: &Server, arguments: &[&str]) -> ProgramRun {
    ProgramRun::of(&mut command(server, arguments))
}

fn get(server: &Server, title: u64, size: u64) -> Option<String> {
    let path = format!("/vod/{title}-{size}");
    let reply = server.get(&path);
    assert_eq!(reply.status(), 200, "{}", reply.text());
    pattern::verify(title, 0, &reply.body).expect("correct bytes");
    reply.field("cache-status").map(str::to_owned)
}

const HIT: &str = "headlong; hit; detail=slice";

#[test]
fn fill_fetches_titles_ahead_and_each_byte_once() {
    let (origin, folder) = ground();
    let server = edge(&origin, folder.path(), "");
    let list = folder.path().join("list");
    std::fs::write(&list, "# tonight\n/vod/1-500000\n\n/vod/2-70000\n").expect("written");
    let list = list.display().to_string();
    let done = fill(&server, &["--rate", "1GB/s", "--list", &list, "/vod/3-1"]);
    let said = done.exits_with(0).stdout;
    assert_eq!(said.matches(": complete, ").count(), 3, "{said}");
    assert_eq!(origin.sent_bytes(), 570_001);
    assert_eq!(metric(&server, "headlong_pull_filled_bytes_total"), 570_001);
    for (title, size) in [(1, 500_000), (2, 70_000), (3, 1)] {
        assert_eq!(get(&server, title, size).as_deref(), Some(HIT));
    }
    // Stored slices are not fetched again.
    let done = fill(&server, &["/vod/1-500000"]);
    let said = done.stdout;
    assert!(
        said.contains("complete, 0 B") || said.contains("complete, 0B"),
        "{said}"
    );
    assert_eq!(origin.sent_bytes(), 570_001);
    assert_eq!(metric(&server, "headlong_pull_misses_total"), 0);
}

#[test]
fn reports_titles_that_cannot_be_filled() {
    let (origin, folder) = ground();
    let server = edge(&origin, folder.path(), "");
    let run_fill = |arguments: &[&str]| {
        let done = fill(&server, arguments);
        (done.code, done.stdout + &done.stderr)
    };
    let (code, said) = run_fill(&["/elsewhere/1-5"]);
    assert!(
        code == Some(2) && said.contains("not below a [pull]"),
        "{said}"
    );
    let (code, said) = run_fill(&["--rate", "0B/s", "/vod/1-5"]);
    assert!(code == Some(64) && said.contains("above zero"), "{said}");
    let (code, _) = run_fill(&[]);
    assert_eq!(code, Some(64));
    origin.be(Mode::Absent);
    let (code, said) = run_fill(&["/vod/1-5", "/vod/2-5"]);
    assert!(
        code == Some(2) && said.contains("2 of 2 titles failed"),
        "{said}"
    );
    // Not from a page of a browser, and not without a rate.
    let post = |target: &str, fields: &[(&str, &str)]| {
        server.admin_request("POST", target, fields).status()
    };
    let origin_field = [("Origin", "http://evil.example")];
    assert_eq!(post("/fill?path=/vod/1-5&rate=5", &origin_field), 403);
    assert_eq!(post("/fill?path=/vod/1-5", &[]), 400);
}

#[test]
fn interrupted_fill_resumes() {
    let (origin, folder) = ground();
    let server = edge(&origin, folder.path(), "");
    let path = "/vod/1-8000000";
    let mut slow = command(&server, &["--rate", "200kB/s", path]);
    let mut slow = slow.stdout(Stdio::null()).spawn().expect("it runs");
    let fetched = || metric(&server, "headlong_pull_filled_bytes_total");
    eventually("some bytes are fetched", fetched, |bytes| {
        *bytes >= 128 << 10
    });
    assert_eq!(metric(&server, "headlong_pull_fills_running"), 1);
    slow.kill().expect("it runs");
    slow.wait().expect("it ended");
    let running = || metric(&server, "headlong_pull_fills_running");
    eventually("the fill has ended", running, |count| *count == 0);
    assert!(origin.sent_bytes() < 8_000_000, "the fill is incomplete");
    let done = fill(&server, &["--rate", "1GB/s", path]);
    done.exits_with(0);
    assert_eq!(origin.sent_bytes(), 8_000_000, "each byte once");
    assert_eq!(get(&server, 1, 8_000_000).as_deref(), Some(HIT));
}

#[test]
fn fill_does_not_evict_slices_read_by_viewers() {
    let (origin, folder) = ground();
    let server = edge(&origin, folder.path(), "bytes_max = \"1MiB\"");
    for _ in 0..2 {
        get(&server, 1, 600_000);
    }
    let done = fill(&server, &["--rate", "1GB/s", "/vod/2-900000", "/vod/3-5"]).exits_with(2);
    let said = done.stdout + &done.stderr;
    assert!(
        said.contains("is full") && said.contains("1 not tried"),
        "{said}"
    );
    let used = metric(&server, "headlong_pull_used_bytes");
    assert!((600_001..=1 << 20).contains(&used), "{used}");
    assert_eq!(metric(&server, "headlong_pull_evicted_bytes_total"), 0);
    let before = origin.sent_bytes();
    assert_eq!(get(&server, 1, 600_000).as_deref(), Some(HIT));
    assert_eq!(origin.sent_bytes(), before);
    // A viewer's fetch evicts slices of a fill like any others.
    get(&server, 4, 500_000);
    get(&server, 4, 500_000);
}

#[test]
fn fill_pauses_while_a_viewer_waits_for_the_origin() {
    let (origin, folder) = ground();
    let server = edge(&origin, folder.path(), "idle_timeout = \"60s\"");
    origin.be(Mode::Hang);
    std::thread::scope(|scope| {
        let viewer = scope.spawn(|| fetch(server.address(), "GET", "/vod/1-500000", &[]));
        let asked = || metric(&server, "headlong_pull_fetches_running");
        eventually("a waiting viewer", asked, |count| *count > 0);
        let state = || {
            server
                .admin_request("POST", "/fill?path=/vod/2-70000&rate=1000000000", &[])
                .text()
        };
        eventually("the fill pauses", state, |said| said.contains("yielding"));
        let of_fill = || {
            origin
                .targets()
                .iter()
                .filter(|of| *of == "/o/2-70000")
                .count()
        };
        assert_eq!(of_fill(), 1, "one HEAD request and no slice");
        std::thread::sleep(Duration::from_millis(600));
        assert_eq!(of_fill(), 1);
        origin.be(Mode::Well);
        eventually("the fill resumes", state, |said| said.contains("\"done\""));
        let reply = viewer.join().expect("no panic").expect("a reply");
        assert_eq!(reply.body.len(), 500_000);
    });
    assert_eq!(get(&server, 2, 70_000).as_deref(), Some(HIT));
}
