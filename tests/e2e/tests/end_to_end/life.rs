//! Reload and stop do not affect viewers.

use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use headlong_e2e_tests::{Library, Mount, eventually};
use headlong_testkit::client::{Connection, fetch};
use headlong_testkit::server::{ServerBuilder, binary};
use headlong_testkit::{Scratch, Server, pattern};
use rustix::process::{Pid, Signal, kill_process};

const MIB: u64 = 1 << 20;

fn policy(server: &Server) -> String {
    server.status().policy().unwrap_or_default().to_owned()
}

fn begin(server: &Server, target: &str) -> Connection {
    let connection = Connection::open(server.address()).expect("connects");
    connection.begin(target, &[])
}

fn finish(mut connection: Connection, title: u64, size_bytes: u64) {
    let body = connection
        .receive_body(size_bytes)
        .expect("the whole reply");
    pattern::verify(title, 0, &body).expect("correct bytes");
}

#[test]
fn reload_changes_policy_and_a_bad_one_changes_nothing() {
    let library = Library::new(1, 24 * MIB).expect("a library");
    let server = ServerBuilder::new([library.root()])
        .config("policy = \"square-root\"")
        .start();
    assert_eq!(policy(&server), "square-root");
    let reply = begin(&server, "/title-0.bin");

    std::fs::write(server.config_path(), "policy = \"fixed\"\n").expect("write");
    server.signal(Signal::HUP).expect("signal");
    eventually("the policy", || policy(&server), |name| name == "fixed");

    std::fs::write(
        server.config_path(),
        "policy = \"fixed\"\nprefetchh = \"1MiB\"\n",
    )
    .expect("write");
    server.signal(Signal::HUP).expect("signal");
    let output = eventually(
        "the message",
        || server.output(),
        |text| text.contains("prefetchh"),
    );
    assert!(
        output.contains("prefetch"),
        "the nearest name is suggested: {output}"
    );
    assert_eq!(policy(&server), "fixed");
    assert_eq!(server.request("HEAD", "/title-0.bin", &[]).status(), 200);

    std::fs::write(server.config_path(), "this is no TOML\n").expect("write");
    server.signal(Signal::HUP).expect("signal");
    eventually(
        "the second refusal",
        || server.output().matches("stays in force").count(),
        |refusals| *refusals == 2,
    );
    assert_eq!(policy(&server), "fixed");
    // A reply that began under the first configuration completes under the last.
    finish(reply, 0, 24 * MIB);
}

#[test]
fn stop_finishes_replies_and_accepts_no_new_requests() {
    let library = Library::new(1, 24 * MIB).expect("a library");
    let mut server = ServerBuilder::new([library.root()])
        .config("[limits]\ndrain_timeout = \"60s\"")
        .start();
    let reply = begin(&server, "/title-0.bin");
    let mut idle = Connection::open(server.address()).expect("connects");
    idle.request("HEAD", "/title-0.bin", &[]).expect("served");

    server.signal(Signal::TERM).expect("signal");
    let ask = || fetch(server.address(), "HEAD", "/title-0.bin", &[]).map(|reply| reply.status());
    assert!(eventually("a new connection", ask, Result::is_err).is_err());
    assert!(
        server.wait(Duration::ZERO).is_none(),
        "the server waits for the reply"
    );
    idle.drain().expect("an idle connection is closed");
    finish(reply, 0, 24 * MIB);
    let status = server
        .wait(Duration::from_secs(60))
        .expect("the server ends");
    assert_eq!(status.code(), Some(0), "{}", server.output());
}

#[test]
fn stop_does_not_wait_for_a_stalled_reader() {
    let library = Library::new(1, 24 * MIB).expect("a library");
    let mut server = ServerBuilder::new([library.root()])
        .config("[limits]\ndrain_timeout = \"1s\"\nsend_timeout = \"300s\"")
        .start();
    let reply = begin(&server, "/title-0.bin");
    server.signal(Signal::TERM).expect("signal");
    assert!(
        server.wait(Duration::from_secs(60)).is_some(),
        "the server ends nevertheless"
    );
    drop(reply);
    let output = server.output();
    assert!(
        output.contains("drained") && output.contains("cut=1"),
        "{output}"
    );
}

#[test]
fn services_notify_the_watchdog_in_time() {
    let library = Library::new(1, MIB).expect("a library");
    let scratch = Scratch::new("watchdog").expect("a folder");
    let root = library.root().display().to_string();
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let (socket, point) = (path("reception.sock"), path("point"));
    std::fs::create_dir(&point).expect("made");
    let web = format!("unix:{}", path("web.sock"));
    let memory = ["--memory", "64MiB"];
    let mut all = vec![
        vec!["serve", &root, "--admin", "off", "--listen", &web],
        vec!["reception", "--socket", &socket],
    ];
    if Mount::available_or_skip("the watchdog of a mount") {
        all.push(vec!["mount", &root, &point]);
    }
    for arguments in all {
        let name = path(arguments[0]);
        let manager = UnixDatagram::bind(&name).expect("bound");
        let patience = Some(Duration::from_secs(60));
        manager.set_read_timeout(patience).expect("set");
        let mut command = scratch.command(binary());
        command
            .args(&arguments)
            .args(memory)
            .env("NOTIFY_SOCKET", &name)
            .env("WATCHDOG_USEC", "300000")
            .stdin(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let mut heard = Vec::new();
        let mut hear = || {
            let mut text = [0; 4096];
            let length = manager.recv(&mut text).ok()?;
            heard.push(String::from_utf8_lossy(&text[..length]).into_owned());
            let beats = heard.iter().filter(|text| text.contains("WATCHDOG=1"));
            let is_ready = heard.iter().any(|text| text.contains("READY=1"));
            Some(beats.count() >= 3 && is_ready)
        };
        let told = (0..1000).map_while(|_| hear()).any(|is_told| is_told);
        let pid = Pid::from_raw(child.id() as i32).expect("a process");
        kill_process(pid, Signal::TERM).expect("sent");
        child.wait().expect("it ends");
        assert!(told, "{arguments:?}: {heard:?}");
    }
}
