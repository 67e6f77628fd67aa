//! Unix sockets: served like TCP ports, replaced and removed as an operator expects, and passed on
//! by an upgrade.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use headlong_e2e_tests::{Library, eventually, logged_lines};
use headlong_testkit::client::{Connection, request_text};
use headlong_testkit::server::{ServerBuilder, binary};
use headlong_testkit::{Scratch, Server, is_alive, pattern};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("a listener");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// Sends text and reads to the end; returns the head and the body.
fn exchange(path: &Path, text: &str) -> (String, Vec<u8>) {
    let mut stream = connect(path);
    stream.write_all(text.as_bytes()).expect("sent");
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).expect("an end");
    let end = heard.windows(4).position(|four| four == b"\r\n\r\n");
    let body = heard.split_off(end.expect("a head") + 4);
    (String::from_utf8_lossy(&heard).into_owned(), body)
}

fn fetch(path: &Path, target: &str, fields: &[(&str, &str)]) -> (String, Vec<u8>) {
    let fields = [fields, &[("Connection", "close")]].concat();
    exchange(path, &request_text("GET", target, &fields))
}

/// Asserts that a range of the first title is correct.
fn assert_serves(path: &Path) {
    let (head, body) = fetch(path, "/title-0.bin", &[("Range", "bytes=1000-300999")]);
    assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
    assert_eq!(body.len(), 300_000);
    pattern::verify(0, 1000, &body).expect("correct bytes");
}

struct Served {
    library: Library,
    scratch: Scratch,
}

impl Served {
    fn new(name: &str) -> Self {
        Self {
            library: Library::new(2, 8 * MIB).expect("a library"),
            scratch: Scratch::new(name).expect("a folder"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn builder(&self, config: &str) -> ServerBuilder {
        let listen = format!("unix:{}", self.path("web.sock").display());
        ServerBuilder::new([self.library.root()])
            .config(config)
            .argument("--listen")
            .argument(listen)
    }

    fn start(&self, config: &str) -> Server {
        self.builder(config).start()
    }
}

#[test]
fn unix_socket_serves_and_its_peers_are_trusted() {
    let served = Served::new("unix");
    let (log, proxied) = (served.path("log"), served.path("proxied.sock"));
    let server = served.start(&format!(
        "[log]\naccess = {log:?}\n[proxies]\nlisten = [\"unix:{}\"]",
        proxied.display()
    ));
    let web = served.path("web.sock");
    for path in [&web, &proxied] {
        let mode = fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
    }
    assert_serves(&web);
    let (head, whole) = fetch(&web, "/title-1.bin", &[]);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(whole.len() as u64, 8 * MIB);
    pattern::verify(1, 0, &whole).expect("correct bytes");
    assert!(fetch(&web, "/none", &[]).0.starts_with("HTTP/1.1 404 "));
    let named = [
        ("X-Forwarded-For", "198.51.100.1, 192.0.2.7"),
        ("X-Request-Id", "abc"),
    ];
    fetch(&web, "/title-0.bin", &named);
    let request = request_text("HEAD", "/title-0.bin", &[("Connection", "close")]);
    let header = "PROXY TCP4 192.0.2.8 10.0.0.9 4711 80\r\n";
    exchange(&proxied, &format!("{header}{request}"));
    let lines = logged_lines(&log, 5);
    let ends = |line: &Value| (line["remote"].clone(), line["proxy"].clone());
    for line in &lines[..3] {
        assert_eq!(ends(line), ("unix:".into(), Value::Null));
    }
    assert_eq!(ends(&lines[3]), ("192.0.2.7".into(), "unix:".into()));
    assert_eq!(lines[3]["request_id"], "abc");
    assert_eq!(ends(&lines[4]), ("192.0.2.8:4711".into(), "unix:".into()));
    // Clients over the network are not trusted to name another client.
    let mut connection = Connection::open(server.address()).expect("connects");
    let reply = connection.request("HEAD", "/title-0.bin", &named);
    assert_eq!(reply.expect("a reply").status(), 200);
    let lines = logged_lines(&log, 6);
    assert!(
        lines[5]["remote"]
            .as_str()
            .expect("one")
            .starts_with("127.0.0.1:")
    );
    let status = server.status();
    let addresses = status.0["media_addresses"].as_array().expect("a list");
    assert_eq!(
        addresses.len(),
        1,
        "the unix socket is not listed for browsers"
    );
    server.stop().expect("the server ends");
    assert!(!web.exists() && !proxied.exists());
}

#[test]
fn stalled_reader_at_a_unix_socket_is_cut() {
    let served = Served::new("unix");
    let server = served.start(
        "policy = \"fixed\"\nprefetch = \"256KiB\"\n[limits]\nsend_timeout = \"1s\"\nsend_bytes_min = \"4KiB\"",
    );
    let mut readers = [0, 1].map(|_| connect(&served.path("web.sock")));
    for from in [0, 64 << 10] {
        let range = format!("bytes={from}-{}", from + (64 << 10) - 1);
        let text = request_text("GET", "/title-0.bin", &[("Range", &range)]);
        for reader in &mut readers {
            reader.write_all(text.as_bytes()).expect("sent");
            let mut heard = Vec::new();
            while !ends_in(&heard, 64 << 10) {
                let mut bytes = [0; 8192];
                let count = reader.read(&mut bytes).expect("bytes");
                assert!(count > 0, "the reply continues");
                heard.extend_from_slice(&bytes[..count]);
            }
        }
    }
    let status = server.status();
    let live: u64 = status
        .devices()
        .iter()
        .filter_map(|device| device["chains"]["live"].as_u64())
        .sum();
    assert_eq!(live, 2, "each connection is one viewer");
    let whole = request_text("GET", "/title-1.bin", &[]);
    readers[0].write_all(whole.as_bytes()).expect("sent");
    eventually(
        "the reader is cut",
        || server.metrics(),
        |metrics| metrics.contains("headlong_connections_cut_total{reason=\"send-timeout\"} 1"),
    );
}

/// Whether a reply with a body of this length is complete.
fn ends_in(heard: &[u8], body: usize) -> bool {
    let head = heard.windows(4).position(|four| four == b"\r\n\r\n");
    head.is_some_and(|head| heard.len() >= head + 4 + body)
}

#[test]
fn upgrade_passes_on_unix_socket_and_last_process_removes_it() {
    let served = Served::new("unix");
    let web = served.path("web.sock");
    let mut server = served.builder("").replaceable().start();
    let first = server.pid();
    // A reply in progress continues.
    let mut slow = connect(&web);
    let text = request_text("GET", "/title-1.bin", &[("Connection", "close")]);
    slow.write_all(text.as_bytes()).expect("sent");
    let mut heard = vec![0; 4096];
    slow.read_exact(&mut heard).expect("the start of the reply");
    let second = server.replace().expect("replaced");
    assert_ne!(first, second);
    assert_serves(&web);
    slow.read_to_end(&mut heard).expect("the end of the reply");
    assert!(ends_in(&heard, 8 << 20));
    eventually("the old process ends", || is_alive(first), |alive| !alive);
    assert_serves(&web);
    let third = server.replace().expect("replaced again");
    eventually("the old process ends", || is_alive(second), |alive| !alive);
    assert_serves(&web);
    server.signal(Signal::TERM).expect("sent");
    eventually("the last process ends", || is_alive(third), |alive| !alive);
    assert!(!web.exists());
}

#[test]
fn socket_of_service_manager_is_not_removed() {
    let served = Served::new("unix");
    let (web, admin) = (served.path("web.sock"), served.path("admin.sock"));
    let listener = UnixListener::bind(&web).expect("bound");
    let text = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
    let child = served
        .scratch
        .command("/bin/sh")
        .args(["-c", text])
        .arg(binary())
        .arg("serve")
        .arg(served.library.root())
        .args(["--memory", "32MiB"])
        .args(["--admin", &format!("unix:{}", admin.display())])
        .args(["--listen", &format!("unix:{}", web.display())])
        .stdin(Stdio::from(OwnedFd::from(
            listener.try_clone().expect("cloned"),
        )))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = Ended(child.expect("the server starts"));
    // A client that connects before the server has started waits.
    assert_serves(&web);
    let health = || admin.exists().then(|| fetch(&admin, "/healthz", &[]));
    let is_well = |answer: &Option<(String, Vec<u8>)>| {
        answer
            .as_ref()
            .is_some_and(|(head, _)| head.starts_with("HTTP/1.1 200 "))
    };
    eventually("the health check", health, is_well);
    let (_, metrics) = fetch(&admin, "/metrics", &[]);
    assert!(String::from_utf8_lossy(&metrics).contains("headlong_connections_accepted_total"));
    let pid = Pid::from_raw(child.0.id() as i32).expect("a process");
    kill_process(pid, Signal::TERM).expect("sent");
    child.0.wait().expect("the server ends");
    assert!(web.exists(), "the socket of the service manager remains");
    assert!(!admin.exists(), "its own socket is removed");
}

/// Ends the process, even if the test fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
