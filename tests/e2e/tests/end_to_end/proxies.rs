//! Behind nginx and HAProxy, configured as in docs/operate/beside.md: each viewer is one chain, the
//! access log has the clients' addresses, and a client that is not trusted cannot pose as another.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use headlong_e2e_tests::{HaProxy, Library, Nginx, eventually, have_or_skip, logged_lines};
use headlong_testkit::client::{Connection, request_text};
use headlong_testkit::server::{ServerBuilder, free_address};
use headlong_testkit::{Scratch, Server, pattern};
use serde_json::Value;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TITLE_BYTES: u64 = 40 * MIB;
const TITLES: u64 = 3;
const VIEWERS: u64 = 24;
const CHUNK_BYTES: u64 = 64 * KIB;

/// The page of the manual.
const PAGE: &str = include_str!("../../../../docs/operate/beside.md");

/// The `number`th example of the page in a language.
fn example(language: &str, number: usize) -> String {
    let begin = format!("```{language}\n");
    let mut examples = PAGE.split(&begin).skip(1);
    let example = examples.nth(number).expect("the page has the example");
    example.split("```").next().expect("it ends").to_owned()
}

/// Replaces each of these texts by another; each must occur.
fn with(text: &str, changes: &[(&str, String)]) -> String {
    let mut text = text.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "no {from} in {text}");
        text = text.replace(from, to);
    }
    text
}

/// Source address of a viewer without an id.
fn address_of(viewer: u64) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 5, viewer as u8 + 1)
}

/// A server with titles, and a log in `folder`.
struct Served {
    server: Server,
    for_proxies: SocketAddr,
    log: std::path::PathBuf,
    _library: Library,
}

impl Served {
    /// `proxies` is a table of the configuration; `PORT` in it is replaced by a free address.
    fn start(folder: &Path, name: &str, proxies: &str) -> Self {
        Self::start_at(folder, name, proxies, &[])
    }

    /// Like [`Served::start`], with more arguments.
    fn start_at(folder: &Path, name: &str, proxies: &str, arguments: &[&str]) -> Self {
        let library = Library::new(TITLES, TITLE_BYTES).expect("a library");
        let log = folder.join(format!("{name}.log"));
        let for_proxies = free_address();
        let builder = ServerBuilder::new([library.root()]);
        let with = |builder: ServerBuilder, argument: &&str| builder.argument(argument);
        let server = arguments
            .iter()
            .fold(builder, with)
            .memory("128MiB")
            .config("admission = \"accept\"\npolicy = \"fixed\"\nprefetch = \"512KiB\"")
            .config(&format!("[log]\naccess = \"{}\"", log.display()))
            .config(&proxies.replace("PORT", &for_proxies.to_string()))
            .start();
        Self {
            server,
            for_proxies,
            log,
            _library: library,
        }
    }

    fn chains(&self) -> u64 {
        let status = self.server.status();
        let live = |device: &Value| device["chains"]["live"].as_u64().expect("a number");
        status.devices().iter().map(live).sum()
    }

    /// Lines of the log, as soon as it has this many.
    fn lines(&self, count: usize) -> Vec<Value> {
        logged_lines(&self.log, count)
    }
}

/// Viewers of few titles at many offsets, each requesting some chunks in order, interleaved.
fn watch(front: SocketAddr, below: &str, source: impl Fn(u64) -> Ipv4Addr) -> usize {
    const ROUNDS: u64 = 4;
    let open = |viewer| Connection::open_from(source(viewer), front).expect("connects");
    let mut viewers: Vec<Connection> = (0..VIEWERS).map(open).collect();
    for round in 0..ROUNDS {
        for (viewer, connection) in (0..).zip(&mut viewers) {
            let from = viewer / TITLES * 4 * MIB + round * CHUNK_BYTES;
            let range = format!("bytes={from}-{}", from + CHUNK_BYTES - 1);
            let target = format!("{below}/title-{}.bin", viewer % TITLES);
            let text = request_text("GET", &target, &[("Range", &range)]);
            connection.send(text.as_bytes()).expect("sent");
        }
        // All at once, so that the proxy needs many connections.
        for (viewer, connection) in (0..).zip(&mut viewers) {
            let reply = connection.receive("GET").expect("a reply");
            assert_eq!(reply.status(), 206);
            let from = viewer / TITLES * 4 * MIB + round * CHUNK_BYTES;
            pattern::verify(viewer % TITLES, from, &reply.body).expect("correct bytes");
        }
    }
    (ROUNDS * VIEWERS) as usize
}

/// The clients that a log names, without ports.
fn clients(lines: &[Value]) -> BTreeSet<String> {
    let remote = |line: &Value| line["remote"].as_str().expect("remote").to_owned();
    let address = |remote: String| remote.split(':').next().expect("a part").to_owned();
    lines.iter().map(remote).map(address).collect()
}

fn all_viewers() -> BTreeSet<String> {
    (0..VIEWERS)
        .map(|viewer| address_of(viewer).to_string())
        .collect()
}

/// Each chain belongs to one client.
fn assert_no_chain_is_shared(lines: &[Value]) {
    let mut by_chain: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for line in lines {
        let chain = line["chain"].as_u64().expect("chain");
        let of_line = clients(std::slice::from_ref(line));
        by_chain.entry(chain).or_default().extend(of_line);
    }
    assert!(
        by_chain.values().all(|clients| clients.len() == 1),
        "{by_chain:?}"
    );
}

fn nginx(server: SocketAddr) -> Nginx {
    let text = example("nginx", 0);
    let config = |address: SocketAddr| {
        let listen = format!("listen {address};");
        let changes = [
            ("127.0.0.1:8080", server.to_string()),
            ("listen 80;", listen),
        ];
        with(&text, &changes)
    };
    Nginx::start_http(config).expect("nginx")
}

const TRUSTED: &str = "[proxies]\ntrusted = [\"127.0.0.1\"]";

#[test]
fn viewers_behind_nginx_are_separate_chains_and_logged() {
    if !have_or_skip("behind nginx", "nginx") {
        return;
    }
    let scratch = Scratch::new("proxies").expect("a folder");
    assert!(example("toml", 0).contains(TRUSTED), "as the page says");
    let served = Served::start(scratch.path(), "nginx", TRUSTED);
    let nginx = nginx(served.server.address());
    let requests = watch(nginx.address(), "/videos", address_of);
    assert_eq!(served.chains(), VIEWERS);
    let lines = served.lines(requests);
    assert_eq!(clients(&lines), all_viewers());
    assert_no_chain_is_shared(&lines);
    let by_proxy = |line: &Value| {
        line["proxy"]
            .as_str()
            .is_some_and(|p| p.starts_with("127.0.0.1:"))
    };
    assert!(lines.iter().all(by_proxy), "{:?}", lines[0]);

    // Fields that a client sends itself have no effect, through the proxy or directly.
    let spoofed = [
        ("X-Forwarded-For", "192.0.2.66"),
        ("Forwarded", "for=192.0.2.66"),
    ];
    let honest = Ipv4Addr::new(127, 0, 9, 9);
    let targets = [
        (nginx.address(), "/videos/title-0.bin"),
        (served.server.address(), "/title-0.bin"),
    ];
    for (front, target) in targets {
        let mut connection = Connection::open_from(honest, front).expect("connects");
        let reply = connection
            .request("HEAD", target, &spoofed)
            .expect("a reply");
        assert_eq!(reply.status(), 200);
    }
    let lines = served.lines(requests + 2);
    assert_eq!(
        clients(&lines[requests..]),
        BTreeSet::from([honest.to_string()])
    );
}

#[test]
fn viewers_behind_nginx_on_unix_socket_are_logged() {
    if !have_or_skip("behind nginx", "nginx") {
        return;
    }
    let scratch = Scratch::new("proxies").expect("a folder");
    let socket = format!("unix:{}", scratch.path().join("web.sock").display());
    let documented = "unix:/run/headlong-serve/web.sock";
    assert!(example("toml", 1).contains(documented), "as the page says");
    // Without any setting of trusted proxies.
    let served = Served::start_at(scratch.path(), "unix", "", &["--listen", &socket]);
    let upstream = example("nginx", 2);
    let whole = example("nginx", 0).replace("127.0.0.1:8080", documented);
    assert!(whole.contains(upstream.trim()), "as the page says");
    let nginx = Nginx::start_http(|address| {
        let changes = [
            (documented, socket),
            ("listen 80;", format!("listen {address};")),
        ];
        with(&whole, &changes)
    });
    let nginx = nginx.expect("nginx");
    let requests = watch(nginx.address(), "/videos", address_of);
    assert_eq!(served.chains(), VIEWERS);
    let lines = served.lines(requests);
    assert_eq!(clients(&lines), all_viewers());
    assert_no_chain_is_shared(&lines);
    assert!(lines.iter().all(|line| line["proxy"] == "unix:"));
    let mut connection = Connection::open(nginx.address()).expect("connects");
    let ranges = [("Range", "bytes=0-9,100-109")];
    let reply = connection.request("GET", "/videos/title-0.bin", &ranges);
    let reply = reply.expect("a reply");
    let kind = reply.head.field("content-type").unwrap_or_default();
    assert!(
        reply.status() == 206 && kind.starts_with("multipart/byteranges"),
        "{kind}"
    );
    let reply = connection.request("GET", "/videos/title-1.bin", &[]);
    let reply = reply.expect("a whole title");
    assert_eq!(reply.body.len() as u64, TITLE_BYTES);
    pattern::verify(1, 0, &reply.body).expect("correct bytes");
}

#[test]
fn caching_nginx_does_not_forward_if_range() {
    if !have_or_skip("nginx as a cache", "nginx") {
        return;
    }
    let scratch = Scratch::new("proxies").expect("a folder");
    let served = Served::start(scratch.path(), "cache", "");
    let cache = scratch.path().join("cache").display().to_string();
    let text = example("nginx", 1);
    let nginx = Nginx::start_http(|address| {
        let changes = [
            ("127.0.0.1:8080", served.server.address().to_string()),
            ("listen 80;", format!("listen {address};")),
            ("/var/cache/nginx/videos", cache),
        ];
        with(&text, &changes)
    });
    let nginx = nginx.expect("nginx");
    let mut connection = Connection::open(nginx.address()).expect("connects");
    let of_another = [("Range", "bytes=5-8"), ("If-Range", "\"x\"")];
    let plain = [("Range", "bytes=5-8")];
    // From the fourth request on the first slice is in the cache, and the proxy requests those
    // behind it.
    for _ in 0..4 {
        let reply = connection.request("GET", "/title-0.bin", &plain);
        let reply = reply.expect("a whole reply");
        assert_eq!((reply.status(), reply.body.len()), (206, 4));
    }
    let reply = connection.request("GET", "/title-0.bin", &of_another);
    let reply = reply.expect("a whole reply");
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.body.len() as u64, TITLE_BYTES);
}

/// HAProxy in front of two servers by an example of the page; checks the chains of its viewers.
fn behind_haproxy(number: usize, proxies: &str, speaks_proxy: bool) {
    if !have_or_skip("behind HAProxy", "haproxy") {
        return;
    }
    let scratch = Scratch::new("proxies").expect("a folder");
    let servers = ["a", "b"].map(|name| Served::start(scratch.path(), name, proxies));
    let mut changes = Vec::new();
    let port = if speaks_proxy { 8082 } else { 8080 };
    let lines = ["10.0.0.1", "10.0.0.2"].map(|ip| format!("{ip}:{port}"));
    for (line, served) in lines.iter().zip(&servers) {
        let address = match speaks_proxy {
            true => served.for_proxies,
            false => served.server.address(),
        };
        changes.push((line.as_str(), address.to_string()));
    }
    let mut text = with(&example("haproxy", number), &changes);
    for served in &servers {
        let admin = format!("check port {}", served.server.admin().port());
        text = text.replacen("check port 8081", &admin, 1);
    }
    let bind = if speaks_proxy {
        "bind :443"
    } else {
        "bind :80"
    };
    let config = |address: SocketAddr| with(&text, &[(bind, format!("bind {address}"))]);
    let haproxy = HaProxy::start(config).expect("HAProxy");
    let requests = watch(haproxy.address(), "", address_of);
    assert_eq!(servers.iter().map(Served::chains).sum::<u64>(), VIEWERS);
    let logs = || -> Vec<Value> { servers.iter().flat_map(|served| served.lines(0)).collect() };
    let lines = eventually("the logs", logs, |lines| lines.len() >= requests);
    assert_eq!(clients(&lines), all_viewers());
    for served in &servers {
        assert_no_chain_is_shared(&served.lines(0));
    }
}

#[test]
fn viewers_behind_haproxy_are_separate_chains_and_logged() {
    behind_haproxy(0, TRUSTED, false);
}

#[test]
fn viewers_behind_proxy_protocol_are_logged() {
    let proxies = format!("{TRUSTED}\nlisten = [\"PORT\"]");
    behind_haproxy(1, &proxies, true);
}

#[test]
fn proxy_port_refuses_other_peers_and_invalid_headers() {
    let scratch = Scratch::new("proxies").expect("a folder");
    let proxies = format!("{TRUSTED}\nlisten = [\"PORT\"]");
    let served = Served::start(scratch.path(), "closed", &proxies);
    let request = request_text("GET", "/title-0.bin", &[("Range", "bytes=0-9")]);
    let header = "PROXY TCP4 192.0.2.66 127.0.0.1 4711 80\r\n";
    let stranger = Ipv4Addr::new(127, 0, 9, 9);
    let attempts = [
        (stranger, format!("{header}{request}")),
        (Ipv4Addr::LOCALHOST, request.clone()),
        (
            Ipv4Addr::LOCALHOST,
            format!("PROXY TCP4 nonsense\r\n{request}"),
        ),
    ];
    for (source, text) in attempts {
        let mut connection = Connection::open_from(source, served.for_proxies).expect("connects");
        let reply = connection
            .send(text.as_bytes())
            .and_then(|()| connection.receive("GET"));
        assert!(reply.is_err(), "{text}: {reply:?}");
    }
    // The counter is updated concurrently with the close that the client sees.
    eventually(
        "all three are counted",
        || served.server.metrics(),
        |metrics| metrics.contains("headlong_proxy_refusals_total 3"),
    );
    let output = || served.server.output();
    let is_told = |output: &String| output.contains("proxy connection refused");
    eventually("the daemon's log", output, is_told);

    let mut connection =
        Connection::open_from(Ipv4Addr::LOCALHOST, served.for_proxies).expect("connects");
    let text = format!("{header}{request}");
    connection.send(text.as_bytes()).expect("sent");
    let reply = connection.receive("GET").expect("a reply");
    assert_eq!(reply.status(), 206);
    let lines = served.lines(1);
    assert_eq!(lines[0]["remote"], "192.0.2.66:4711");
}
