//! Log lines for slow replies, enabled and disabled by a reload: their stages add up to the whole
//! time over each protocol, and they link a bucket of the metrics to the access log.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use headlong_e2e_tests::library::fill_root;
use headlong_e2e_tests::origin::Origin;
use headlong_e2e_tests::{Library, bounded, eventually, logged_lines};
use headlong_testkit::client::{Connection, SecureClient, Version};
use headlong_testkit::server::{ServerBuilder, free_address};
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{BlockDevice, Scratch, Server, SlowDisk};
use rustix::process::Signal;
use serde_json::Value;

const MIB: u64 = 1 << 20;
/// Ends a test that hangs.
const LIMIT: Duration = Duration::from_secs(60);
const STAGES: [&str; 12] = [
    "head", "access", "lookup", "origin", "queue", "ram", "flash", "disk", "pace", "send",
    "client", "other",
];

fn seconds(line: &Value, key: &str) -> f64 {
    line[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} of {line}"))
}

/// For a slow line.
fn stage(line: &Value, name: &str) -> f64 {
    seconds(&line["stage_seconds"], name)
}

/// Asserts that the stages add up to the total, and that the access log has the same request.
fn assert_adds_up(slow: &Value, access: &[Value]) {
    let sum: f64 = STAGES.iter().map(|name| stage(slow, name)).sum();
    let total = seconds(slow, "total_seconds");
    assert!((sum - total).abs() < 1e-6, "{sum} in {slow}");
    let is_same = |line: &&Value| line["request_id"] == slow["request_id"];
    let same = access.iter().find(is_same).expect("its line");
    for key in ["target", "status", "bytes_sent", "device", "method"] {
        assert_eq!(same[key], slow[key], "{key}");
    }
    let service = seconds(same, "service_seconds");
    assert!(
        (service + stage(slow, "head") - total).abs() < 1e-6,
        "{same} {slow}"
    );
}

/// An auth server that allows every request.
fn doorman() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut asked = [0; 4096];
            let _ = stream.read(&mut asked);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        }
    });
    address
}

fn reload(server: &Server, old: &str, new: &str) {
    let text = fs::read_to_string(server.config_path()).expect("read");
    assert!(text.contains(old), "{text}");
    fs::write(server.config_path(), text.replace(old, new)).expect("written");
    let reloads = || server.output().matches("reloaded").count();
    let before = reloads();
    server.signal(Signal::HUP).expect("signal");
    eventually("the reload", reloads, |now| *now > before);
}

#[test]
fn reload_enables_slow_lines_whose_stages_add_up() {
    let library = Library::new(1, 8 * MIB).expect("a library");
    let folder = Scratch::new("slow").expect("a folder");
    let (access, slow) = (folder.path().join("a.log"), folder.path().join("s.log"));
    let config = format!(
        "[log]\naccess = {access:?}\nslow = {slow:?}\nslow_after = \"0s\"\n\
         [path.\"/\"]\naccess = \"auth-request\"\nauth_url = \"http://{}/\"\n\
         secret_arguments = [\"ticket\"]\n",
        doorman()
    );
    let server = ServerBuilder::new([library.root()]).config(&config).start();
    let mut connection = Connection::open(server.address()).expect("connects");
    let mut ask = |method: &str, target: &str| {
        let reply = connection.request(method, target, &[("Range", "bytes=0-2999999")]);
        reply.expect("a reply")
    };
    assert_eq!(ask("GET", "/title-0.bin").status(), 206);
    logged_lines(&access, 1);
    assert_eq!(
        logged_lines(&slow, 0),
        [] as [Value; 0],
        "slow lines are disabled"
    );

    // Every reply takes longer.
    reload(&server, "\"0s\"", "\"1us\"");
    assert_eq!(ask("GET", "/title-0.bin?ticket=hush").status(), 206);
    assert_eq!(ask("HEAD", "/title-0.bin").status(), 200);
    assert_eq!(ask("GET", "/none.bin").status(), 404);
    let told = logged_lines(&slow, 3);
    let all = logged_lines(&access, 4);
    for line in &told {
        assert_adds_up(line, &all);
        assert!(stage(line, "access") > 0.0, "{line}");
        assert!(stage(line, "lookup") > 0.0, "{line}");
    }
    let [film, head, none] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(
        film["target"], "/title-0.bin?ticket=-",
        "the token is redacted"
    );
    let bytes = ["bytes_from_ram", "bytes_from_disk"].map(|key| film[key].as_u64().unwrap_or(0));
    assert_eq!(bytes.iter().sum::<u64>(), 3_000_000);
    assert!(seconds(film, "first_byte_seconds") <= seconds(film, "total_seconds"));
    assert_eq!(
        (&head["bytes_sent"], &none["status"]),
        (&0.into(), &404.into())
    );

    // A slow client does not make a reply slow, however long it takes.
    reload(&server, "\"1us\"", "\"1h\"");
    assert_eq!(ask("GET", "/title-0.bin").status(), 206);
    reload(&server, "\"1h\"", "\"0s\"");
    assert_eq!(ask("GET", "/title-0.bin").status(), 206);
    logged_lines(&access, 6);
    assert_eq!(logged_lines(&slow, 0).len(), 3);
}

#[test]
fn waits_for_client_and_rate_do_not_count_as_slow() {
    let library = Library::new(1, 64 * MIB).expect("a library");
    let folder = Scratch::new("slow").expect("a folder");
    let slow = folder.path().join("s.log");
    let config = format!(
        "[log]\nslow = {slow:?}\nslow_after = \"1us\"\n[path.\"/title-0.bin\"]\n\
         bytes_per_second_max = \"0B\"\n"
    );
    let server = ServerBuilder::new([library.root()]).config(&config).start();
    let mut connection = Connection::open(server.address()).expect("connects");
    let request = "GET /title-0.bin HTTP/1.1\r\nHost: x\r\n\r\n";
    connection.send(request.as_bytes()).expect("sent");
    connection.receive_head().expect("a head");
    // More data than any socket buffer holds is left, until nothing moves any more.
    let sent = || server.status().counter("bytes_sent");
    let mut before = 0;
    eventually(
        "the server waits for its client",
        || {
            std::thread::sleep(Duration::from_millis(100));
            std::mem::replace(&mut before, sent())
        },
        |last| *last > 0 && *last == sent(),
    );
    connection.receive_body(64 * MIB).expect("the rest");
    let told = logged_lines(&slow, 1);
    let line = &told[0];
    let sum: f64 = STAGES.iter().map(|name| stage(line, name)).sum();
    assert!(
        (sum - seconds(line, "total_seconds")).abs() < 1e-6,
        "{line}"
    );
    // The socket was full while the client did not read.
    assert!(stage(line, "client") > 0.0, "{line}");

    reload(&server, "\"0B\"", "\"1MiB\"");
    let reply = connection.request("GET", "/title-0.bin", &[("Range", "bytes=0-1999999")]);
    assert_eq!(reply.expect("a reply").status(), 206);
    let told = logged_lines(&slow, 2);
    assert!(stage(&told[1], "pace") > 0.0, "{}", told[1]);
}

#[test]
fn stages_add_up_over_tls_and_http_2() {
    let library = Library::new(1, 4 * MIB).expect("a library");
    let folder = Scratch::new("slow").expect("a folder");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let (chain, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
    fs::write(&chain, made.cert.pem()).expect("written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let (access, slow) = (folder.path().join("a.log"), folder.path().join("s.log"));
    let secure = free_address();
    let config = format!(
        "[log]\naccess = {access:?}\nslow = {slow:?}\nslow_after = \"1us\"\n\
         [tls]\ncertificate = {chain:?}\nkey = {key:?}\nlisten = [\"{secure}\"]\n"
    );
    let server = ServerBuilder::new([library.root()]).config(&config);
    let _server = server.start();
    let mut count = 0;
    for version in [Version::Http1, Version::Http2] {
        let client = SecureClient::new(made.cert.der(), version).expect("a client");
        let range = |n| vec![("range".to_owned(), format!("bytes={}-{}", n, n + 999_999))];
        let requests: Vec<_> = (0..3)
            .map(|n| ("/title-0.bin".to_owned(), range(n)))
            .collect();
        let replies = client.fetch_all(secure, "GET", &requests);
        let replies = bounded(LIMIT, replies).expect("served");
        count += replies.len();
        let told = logged_lines(&slow, count);
        let all = logged_lines(&access, count);
        for line in &told[count - 3..] {
            assert_adds_up(line, &all);
            assert_eq!(line["bytes_sent"], 1_000_000);
            let is_http2 = line["version"] == "HTTP/2.0";
            assert_eq!(is_http2, version == Version::Http2);
            if is_http2 {
                assert_eq!((stage(line, "head"), stage(line, "send")), (0.0, 0.0));
            }
        }
    }
}

#[test]
fn request_id_of_a_trusted_proxy_is_used_in_logs() {
    let library = Library::new(1, MIB).expect("a library");
    let folder = Scratch::new("slow").expect("a folder");
    let access = folder.path().join("a.log");
    let config = format!("[log]\naccess = {access:?}\n[proxies]\ntrusted = [\"127.0.0.2/32\"]\n");
    let server = ServerBuilder::new([library.root()]).config(&config).start();
    let fields = [("X-Request-Id", "from-nginx-7")];
    let source = std::net::Ipv4Addr::new(127, 0, 0, 2);
    let mut proxy = Connection::open_from(source, server.address()).expect("connects");
    let reply = proxy.request("GET", "/title-0.bin", &fields);
    assert_eq!(reply.expect("a reply").status(), 200);
    logged_lines(&access, 1);
    let format = [("Accept", "application/openmetrics-text; version=1.0.0")];
    let scrape = server.admin_request("GET", "/metrics", &format);
    let scrape = scrape.text();
    assert!(
        scrape.contains("# {request_id=\"from-nginx-7\"} "),
        "{scrape}"
    );
    assert!(!server.metrics().contains("request_id"));
    let reply = server.request("GET", "/title-0.bin", &fields);
    assert_eq!(reply.status(), 200);
    let ids = logged_lines(&access, 2);
    assert_eq!(ids[0]["request_id"], "from-nginx-7");
    assert_ne!(
        ids[1]["request_id"], "from-nginx-7",
        "an untrusted client may send any id"
    );
}

#[test]
fn waits_for_disk_and_origin_have_their_own_stages() {
    let test = "waits_for_disk_and_origin_have_their_own_stages";
    if !SlowDisk::available_or_skip(test) {
        return;
    }
    let device = BlockDevice::new(64 * MIB, DriveModel::WD_RED, 5.0).expect("a device");
    let titles = fill_root(device.root(), 1, 16 * MIB).expect("titles");
    device.start().expect("start");
    let origin = Origin::start().expect("an origin");
    let folder = Scratch::new("slow").expect("a folder");
    let (slow, cache) = (folder.path().join("s.log"), folder.path().join("cache"));
    fs::create_dir(&cache).expect("made");
    let config = format!(
        "[log]\nslow = {slow:?}\nslow_after = \"1us\"\n[pull.\"/vod/\"]\n\
         origin = \"http://{}/o/\"\nfolder = {cache:?}\nfree_bytes_min = \"0B\"\n",
        origin.address()
    );
    let server = ServerBuilder::new([device.root()]).config(&config).start();
    for target in [&*titles[0].target, "/vod/7-1000000"] {
        let reply = server.request("GET", target, &[("Range", "bytes=0-99999")]);
        assert_eq!(reply.status(), 206);
    }
    let told = logged_lines(&slow, 2);
    let [read, brought] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(read["bytes_from_disk"], 100_000, "{read}");
    assert!(stage(read, "disk") > 0.0, "{read}");
    assert_eq!(stage(read, "origin"), 0.0, "{read}");
    assert_eq!(brought["cache"], "miss", "{brought}");
    assert!(stage(brought, "origin") > 0.0, "{brought}");
}
