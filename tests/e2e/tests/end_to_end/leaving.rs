//! Clients that disconnect while their disk is slow, and clients that only close their sending
//! side.

use std::any::Any;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headlong_e2e_tests::eventually;
use headlong_e2e_tests::library::fill_root;
use headlong_testkit::client::{Connection, SecureClient, Version, request_text};
use headlong_testkit::server::{ServerBuilder, free_address};
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, Scratch, Server, SlowDisk, pattern};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;

const MIB: u64 = 1 << 20;
const TITLE_BYTES: u64 = 4 * MIB;
const PATIENCE: Duration = Duration::from_secs(60);

/// Addresses of a server over a disk that can be made to hang.
struct Rig {
    server: Server,
    device: BlockDevice,
    secure: SocketAddr,
    certificate: Vec<u8>,
    unix: PathBuf,
    log: PathBuf,
    _scratch: Scratch,
}

impl Rig {
    /// `None` where this machine has no emulated disks.
    fn new(test: &str) -> Option<Self> {
        if !SlowDisk::available_or_skip(test) {
            return None;
        }
        let device = BlockDevice::new(128 * MIB, DriveModel::WD_RED, 20.0).expect("a device");
        fill_root(device.root(), 4, TITLE_BYTES).expect("titles");
        device.start().expect("start");
        let scratch = Scratch::new("leaving").expect("a folder");
        let [log, unix, chain, key] = ["access.log", "web.sock", "chain.pem", "key.pem"]
            .map(|name| scratch.path().join(name));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
        let made = made.expect("a certificate");
        std::fs::write(&chain, made.cert.pem()).expect("written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
        let secure = free_address();
        // Longer than any timeout here: only a disconnect ends a request.
        let server = ServerBuilder::new([device.root()])
            .config(&format!(
                "admission = \"accept\"\nread_timeout = \"10min\"\n\
                 wait_timeout = \"10min\"\noutstanding_reads_rotating = 1\n\
                 [log]\naccess = {log:?}\n\
                 [tls]\ncertificate = {chain:?}\nkey = {key:?}\nlisten = [\"{secure}\"]"
            ))
            .argument("--listen")
            .argument(format!("unix:{}", unix.display()))
            .start();
        Some(Self {
            server,
            device,
            secure,
            certificate: made.cert.der().to_vec(),
            unix,
            log,
            _scratch: scratch,
        })
    }

    /// Requests in progress, and jobs with a waiting reply.
    fn waiting(&self) -> (u64, u64) {
        let status = self.server.status();
        let queue = &status.devices()[0]["queue"];
        let count = |value: &serde_json::Value| value.as_u64().expect("a count");
        (
            count(&status.0["connections"]["requests_active"]),
            count(&queue["jobs_demanded"]),
        )
    }
}

fn asks(target: &str, version: &str) -> Vec<u8> {
    let text = request_text("GET", target, &[("Connection", "close")]);
    text.replace("HTTP/1.1", version).into_bytes()
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    builder.build().expect("a runtime")
}

/// A client that waits for its reply; dropping it closes its connection.
type Waiting = Box<dyn Any>;
/// Starts such a client for a target.
type Ask<'a> = &'a dyn Fn(&str) -> Waiting;

fn over_tcp(rig: &Rig, target: &str, version: &str) -> Waiting {
    let mut stream = TcpStream::connect(rig.server.address()).expect("connects");
    stream.write_all(&asks(target, version)).expect("sent");
    Box::new(stream)
}

fn over_unix(rig: &Rig, target: &str) -> Waiting {
    let mut stream = UnixStream::connect(&rig.unix).expect("connects");
    stream.write_all(&asks(target, "HTTP/1.1")).expect("sent");
    Box::new(stream)
}

/// Sends a TLS close_notify if `is_polite`, as browsers do before they close.
fn over_tls(rig: &Rig, target: &str, is_polite: bool) -> Waiting {
    struct Client<S: tokio::io::AsyncWrite + Unpin>(Runtime, Option<S>, bool);
    impl<S: tokio::io::AsyncWrite + Unpin> Drop for Client<S> {
        fn drop(&mut self) {
            let stream = self.1.take();
            if let Some(mut stream) = stream.filter(|_| self.2) {
                let _ = self.0.block_on(stream.shutdown());
            }
        }
    }
    let (runtime, client) = (
        runtime(),
        SecureClient::new(&rig.certificate, Version::Http1),
    );
    let client = client.expect("a client");
    let stream = runtime.block_on(async {
        let mut stream = client.open(rig.secure).await.expect("connects");
        let sent = stream.write_all(&asks(target, "HTTP/1.1")).await;
        sent.expect("sent");
        stream.flush().await.expect("sent");
        stream
    });
    Box::new(Client(runtime, Some(stream), is_polite))
}

fn over_http2(rig: &Rig, target: &str) -> Waiting {
    struct Client(Option<Runtime>);
    impl Drop for Client {
        fn drop(&mut self) {
            if let Some(runtime) = self.0.take() {
                runtime.shutdown_background();
            }
        }
    }
    let (runtime, client) = (
        runtime(),
        SecureClient::new(&rig.certificate, Version::Http2),
    );
    let (client, address) = (client.expect("a client"), rig.secure);
    let target = target.to_owned();
    runtime.spawn(async move {
        let _ = client
            .fetch_all(address, "GET", &[(target, Vec::new())])
            .await;
    });
    Box::new(Client(Some(runtime)))
}

#[test]
fn disconnect_during_hang_cancels_the_request() {
    let Some(rig) = Rig::new("disconnect_during_hang_cancels_the_request") else {
        return;
    };
    rig.device.disk().hang(None);
    let mut first = Connection::open(rig.server.address()).expect("connects");
    let text = request_text("GET", "/title-0.bin", &[]);
    first.send(text.as_bytes()).expect("sent");
    let reads = || rig.server.status().devices()[0]["queue"].clone();
    let hangs = |queue: &serde_json::Value| queue["outstanding_reads"].as_u64() > Some(0);
    eventually("the read that hangs", reads, hangs);
    let ways: [(&str, Ask<'_>); 6] = [
        ("tcp", &|target| over_tcp(&rig, target, "HTTP/1.1")),
        ("tcp-1.0", &|target| over_tcp(&rig, target, "HTTP/1.0")),
        ("unix", &|target| over_unix(&rig, target)),
        ("tls", &|target| over_tls(&rig, target, false)),
        ("tls-polite", &|target| over_tls(&rig, target, true)),
        ("http2", &|target| over_http2(&rig, target)),
    ];
    for (title, (way, ask)) in ways.iter().enumerate() {
        let target = format!("/title-{}.bin?{way}", 1 + title % 3);
        let client = ask(&target);
        eventually(way, || rig.waiting(), |waiting| *waiting == (2, 1));
        drop(client);
        eventually(way, || rig.waiting(), |waiting| *waiting == (1, 0));
        let lines = || std::fs::read_to_string(&rig.log).unwrap_or_default();
        let text = eventually("its line", lines, |text| text.contains(&target));
        let line = text.lines().find(|line| line.contains(&target));
        let line = line.expect("the line exists");
        assert!(
            line.contains("\"status\":499") && line.contains("client-gone"),
            "{line}"
        );
    }
    rig.device.disk().release();
    let reply = first.receive("GET").expect("whole");
    pattern::verify(0, 0, &reply.body).expect("correct bytes");
    assert_eq!(reply.body.len() as u64, TITLE_BYTES);
}

/// Asserts a complete reply: its head and its body.
fn assert_whole(heard: &[u8], title: u64, version: &str) {
    let end = heard.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = heard.split_at(end.expect("a head") + 4);
    let head = String::from_utf8_lossy(head);
    assert!(head.starts_with(&format!("{version} 200 OK\r\n")), "{head}");
    assert_eq!(body.len() as u64, TITLE_BYTES);
    pattern::verify(title, 0, body).expect("correct bytes");
}

fn ask_and_say_no_more(rig: &Rig, title: u64, version: &str) -> TcpStream {
    let mut stream = TcpStream::connect(rig.server.address()).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let target = format!("/title-{title}.bin");
    stream.write_all(&asks(&target, version)).expect("sent");
    stream.shutdown(Shutdown::Write).expect("is open");
    stream
}

fn hear_all(mut stream: TcpStream) -> Vec<u8> {
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).expect("an end");
    heard
}

#[test]
fn half_closed_client_gets_whole_reply_from_slow_disk() {
    let Some(rig) = Rig::new("half_closed_client_gets_whole_reply") else {
        return;
    };
    let whole = ask_and_say_no_more(&rig, 0, "HTTP/1.1");
    assert_whole(&hear_all(whole), 0, "HTTP/1.1");
    rig.device.disk().hang(None);
    let versions = ["HTTP/1.1", "HTTP/1.0"];
    let clients: Vec<_> = (1..)
        .zip(versions)
        .map(|(title, version)| (ask_and_say_no_more(&rig, title, version), title, version))
        .collect();
    let runtime = runtime();
    let client = SecureClient::new(&rig.certificate, Version::Http1).expect("a client");
    let mut secure = runtime.block_on(client.open(rig.secure)).expect("connects");
    runtime.block_on(async {
        let text = asks("/title-3.bin", "HTTP/1.1");
        secure.write_all(&text).await.expect("sent");
        secure.shutdown().await.expect("half closed");
    });
    eventually("all requests", || rig.waiting().0, |active| *active == 3);
    // Time for several checks of the connections; all clients must get their replies.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(rig.waiting().0, 3, "the clients still wait");
    rig.device.disk().release();
    for (client, title, version) in clients {
        assert_whole(&hear_all(client), title, version);
    }
    let mut heard = Vec::new();
    let read = runtime.block_on(secure.read_to_end(&mut heard));
    read.expect("an end");
    assert_whole(&heard, 3, "HTTP/1.1");
    assert!(!lines_of(&rig.log).contains("client-gone"));
}

fn lines_of(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}
