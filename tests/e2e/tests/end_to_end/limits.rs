//! Limits of one client: header bytes, time, connections, memory.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::time::Duration;

use headlong_e2e_tests::{Library, bounded, eventually, until_logged};
use headlong_testkit::client::{Asking, Connection, Viewer, request_text};
use headlong_testkit::server::ServerBuilder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

#[test]
fn slow_reader_is_cut_while_others_are_served() {
    let library = Library::new(2, 48 * MIB).expect("a library");
    let server = ServerBuilder::new([library.root()])
        .memory("16MiB")
        .config("[limits]\nsend_timeout = \"1s\"\nsend_bytes_min = \"64KiB\"")
        .start();
    let mut slow = Connection::open(server.address()).expect("connects");
    slow.send(request_text("GET", "/title-0.bin", &[]).as_bytes())
        .expect("sent");
    let head = slow.receive_head().expect("a head");
    assert_eq!(head.content_length(), Some(48 * MIB));
    for _ in 0..3 {
        slow.receive_body(1).expect("a byte");
        // The other viewers read more than memory holds, so that memory pinned by the slow client
        // would show.
        let viewer = library.titles[1].viewer(server.address());
        let report = bounded(Duration::from_secs(300), viewer.watch()).expect("served");
        assert_eq!(report.bytes, 48 * MIB);
        std::thread::sleep(Duration::from_secs(1));
    }
    // The contents of the kernels' buffers still arrive; then the connection ends, before the end
    // of the reply.
    let (rest, _) = slow.drain().expect("cut, not silent");
    assert!(rest + 3 < 48 * MIB, "the reply of {rest} bytes was not cut");
    eventually(
        "memory of the reply that was cut",
        || server.status().memory("sending_bytes"),
        |sending| *sending == 0,
    );
}

/// Opens a connection, sends one small request on it, and keeps it open.
async fn idle_connection(address: std::net::SocketAddr) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let request = request_text("GET", "/title-0.bin", &[("Range", "bytes=0-0")]);
    stream.write_all(request.as_bytes()).await?;
    // The reply to a request of one byte fits into one read or a few; it ends with that byte.
    let mut reply = Vec::new();
    while !reply.windows(4).any(|window| window == b"\r\n\r\n") || reply.ends_with(b"\r\n\r\n") {
        let mut buffer = [0; 2048];
        match stream.read(&mut buffer).await? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            length => reply.extend_from_slice(&buffer[..length]),
        }
    }
    if reply.starts_with(b"HTTP/1.1 206") {
        Ok(stream)
    } else {
        Err(std::io::Error::other(
            String::from_utf8_lossy(&reply).into_owned(),
        ))
    }
}

/// Opens a connection, requests a title and reads nothing of it.
async fn stopped_connection(address: std::net::SocketAddr) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let request = request_text("GET", "/title-0.bin", &[]);
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

#[test]
fn idle_stopped_and_active_clients_fit_into_process_memory() {
    let library = Library::new(36, 4 * MIB).expect("a library");
    let server = ServerBuilder::new([library.root()])
        .process_memory("256MiB")
        .config(
            // One address that is not trusted has at most seven eighths of the connections.
            "admission = \"accept\"\nproxies.trusted = [\"127.0.0.1\"]\n[limits]\n\
             idle_timeout = \"300s\"\nsend_timeout = \"300s\"\nconnections_max = 2700",
        )
        .start();
    let address = server.address();
    let most = bounded(Duration::from_secs(300), async {
        let say = |when: &str| {
            let memory = server.memory().expect("/proc");
            eprintln!(
                "{when}: {} KiB resident, {} KiB of it anonymous",
                memory.resident_bytes / KIB,
                memory.anonymous_bytes / KIB
            );
        };
        say("at the start");
        let mut idle = Vec::new();
        for batch in 0..20 {
            let opening: Vec<_> = (0..100)
                .map(|_| tokio::spawn(idle_connection(address)))
                .collect();
            for connection in opening {
                let connection = connection.await.expect("no panic");
                idle.push(connection.unwrap_or_else(|error| panic!("batch {batch}: {error}")));
            }
        }
        say("with 2,000 idle connections");
        let mut stopped = Vec::new();
        for _ in 0..200 {
            stopped.push(stopped_connection(address).await.expect("connects"));
        }
        let active: Vec<_> = (0..500usize)
            .map(|number| {
                let title = &library.titles[number % library.titles.len()];
                let viewer = Viewer {
                    asking: Asking::Chunks(64 * KIB),
                    bytes_per_second: Some(128 * KIB),
                    start: (number as u64 * 7_919) % (2 * MIB),
                    watch_bytes: MIB,
                    ..title.viewer(address)
                };
                tokio::spawn(async move { viewer.watch().await })
            })
            .collect();
        let mut most = 0;
        while !active.iter().all(tokio::task::JoinHandle::is_finished) {
            most = most.max(server.memory().expect("/proc").resident_bytes);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        say("after 200 stopped and 500 active ones beside them");
        for viewer in active {
            let report = viewer
                .await
                .expect("no panic")
                .expect("all bytes are correct");
            assert_eq!(report.bytes, MIB);
        }
        // The idle connections are still open and usable.
        for connection in idle.iter_mut().step_by(100) {
            let request = request_text("HEAD", "/title-0.bin", &[]);
            connection
                .write_all(request.as_bytes())
                .await
                .expect("still open");
            let mut buffer = [0; 2048];
            let length = connection.read(&mut buffer).await.expect("still open");
            assert!(buffer[..length].starts_with(b"HTTP/1.1 200"));
        }
        most
    });
    assert!(most <= 256 * MIB, "{most} bytes resident");
    // The titles do not fit, so memory was full.
    assert!(most >= 110 * MIB, "{most} bytes resident");
}

#[test]
fn refuses_request_without_host() {
    let library = Library::new(1, MIB).expect("a library");
    let server = ServerBuilder::new([library.root()]).start();
    for (request, status) in [
        ("GET /title-0.bin HTTP/1.1\r\n", "400"),
        ("OPTIONS /title-0.bin HTTP/1.1\r\n", "400"),
        ("DELETE /title-0.bin HTTP/1.1\r\n", "400"),
        (
            "HEAD /title-0.bin HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
            "400",
        ),
        (
            "HEAD /title-0.bin HTTP/1.0\r\nHost: a\r\nHost: b\r\n",
            "400",
        ),
        ("HEAD /title-0.bin HTTP/1.1\r\nHost: a b\r\n", "400"),
        ("GET http://a/title-0.bin HTTP/1.1\r\n", "400"),
        ("HEAD /title-0.bin HTTP/1.0\r\n", "200"),
        ("HEAD /title-0.bin HTTP/1.1\r\nHost:\r\n", "200"),
        ("HEAD http://a/title-0.bin HTTP/1.1\r\nHost: b\r\n", "200"),
        ("OPTIONS /title-0.bin HTTP/1.1\r\nHost: a\r\n", "204"),
    ] {
        let request = format!("{request}Connection: close\r\n\r\n");
        let mut stream = std::net::TcpStream::connect(server.address()).expect("connects");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut heard = String::new();
        stream.read_to_string(&mut heard).expect("a reply");
        assert_eq!(heard.split(' ').nth(1), Some(status), "{heard}");
    }
}

#[test]
fn one_address_cannot_hold_all_replies() {
    let library = Library::new(2, 48 * MIB).expect("a library");
    let server = ServerBuilder::new([library.root()])
        .config("[limits]\nrequests_per_address_max = 4")
        .start();
    let (greedy, other) = (Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3));
    let open = |from| Connection::open_from(from, server.address()).expect("connects");
    // Each reads only the head of its reply, so that the reply stays in progress.
    let held = (0..4).map(|_| open(greedy).begin("/title-0.bin", &[]));
    let mut held: Vec<Connection> = held.collect();
    let ask = |from| {
        let asked = open(from).request("GET", "/title-1.bin", &[("Range", "bytes=0-99")]);
        asked.expect("an answer")
    };
    let refused = ask(greedy);
    assert_eq!(refused.status(), 503, "{}", refused.text());
    assert!(refused.field("retry-after").is_some());
    // Requests without bytes from a disk, and clients from other addresses, are not counted.
    let head = open(greedy).request("HEAD", "/title-1.bin", &[]);
    assert_eq!(head.expect("an answer").status(), 200);
    assert_eq!(ask(other).status(), 206);
    held.pop();
    let again = eventually(
        "the end of an abandoned reply",
        || ask(greedy).status(),
        |status| *status == 206,
    );
    assert_eq!(again, 206);
    until_logged(&server, "requests_per_address_max");
}
