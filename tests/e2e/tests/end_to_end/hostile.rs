//! Clients that send frames without end, or read nothing of the requested data.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use headlong_e2e_tests::http2::{Client, frame, initial_window, request, window_update};
use headlong_e2e_tests::{Library, eventually, until_logged};
use headlong_testkit::server::ServerBuilder;
use headlong_testkit::{Server, pattern};
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
const ENHANCE_YOUR_CALM: u32 = 11;
/// Ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn counted(server: &Server, name: &str) -> u64 {
    let metrics = server.metrics();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.expect(name).trim().parse().expect("a number")
}

/// Sends the frames repeatedly until the connection ends; returns the code of GOAWAY.
fn flood(server: &Server, opening: &[u8], frames: &[u8]) -> Option<u32> {
    let mut client = Client::open(server, &frame(4, 0, 0, &[]));
    client.say(opening);
    let frames = frames.repeat(1000);
    let mut writer = client.stream.try_clone().expect("cloned");
    writer.set_write_timeout(Some(PATIENCE)).expect("an option");
    // A flooding client also reads.
    let writer = std::thread::spawn(move || (0..100).all(|_| writer.write_all(&frames).is_ok()));
    let mut code = None;
    while let Some((kind, _, _, payload)) = client.hear() {
        if kind == 7 {
            let bytes = payload[4..8].try_into().expect("four");
            code = Some(u32::from_be_bytes(bytes));
        }
    }
    // The socket may have accepted all bytes; the end of the connection is what counts.
    writer.join().expect("no panic");
    code
}

#[test]
fn control_frame_floods_are_closed_and_logged_once() {
    let library = Library::new(1, MIB).expect("a library");
    let server = ServerBuilder::new([library.root()]).start();
    let streams: Vec<u8> = (0..100)
        .flat_map(|n| request(2 * n + 1, "/title-0.bin", "bytes=0-"))
        .collect();
    let flap = [initial_window(0), initial_window(65_535)].concat();
    let ended = request(1, "/nothing", "bytes=0-");
    let floods: [(&str, &[u8], Vec<u8>); 8] = [
        ("settings and unread streams", &streams, flap),
        ("settings", &[], frame(4, 0, 0, &[0, 4, 0, 1, 0, 0])),
        ("pings", &[], frame(6, 0, 0, &[7; 8])),
        ("priorities", &[], frame(2, 0, 1, &[0, 0, 0, 3, 7])),
        ("windows", &[], window_update(0, 1)),
        (
            "resets of an ended stream",
            &ended,
            frame(3, 0, 1, &[0, 0, 0, 8]),
        ),
        ("unknown frames", &[], frame(0xfe, 0, 0, &[7; 100])),
        ("acknowledged pings", &[], frame(6, 1, 0, &[7; 8])),
    ];
    for (n, (what, opening, frames)) in (1..).zip(&floods) {
        let code = flood(&server, opening, frames);
        // Data in flight may make the kernel reset the connection before GOAWAY is read.
        assert!(
            code.is_none_or(|code| code == ENHANCE_YOUR_CALM),
            "{what}: {code:?}"
        );
        let name = "headlong_connections_cut_total{reason=\"flood\"}";
        eventually(what, || counted(&server, name), |count| *count == n);
        let range = [("Range", "bytes=0-999")];
        let reply = server.request("GET", "/title-0.bin", &range);
        pattern::verify(0, 0, &reply.body).expect("correct bytes");
    }
    until_logged(&server, "floods with control frames");
    let output = server.output();
    assert_eq!(
        output.matches("floods with control frames").count(),
        1,
        "{output}"
    );
    assert!(!output.contains("locally-reset"), "{output}");
}

#[test]
fn warnings_of_http2_library_are_counted_and_not_logged() {
    let library = Library::new(1, MIB).expect("a library");
    // The library tolerates 20 requests that are reset before they are accepted.
    let resets: Vec<u8> = (0..40)
        .flat_map(|n| {
            let stream = 2 * n + 1;
            let request = request(stream, "/title-0.bin", "bytes=0-");
            [request, frame(3, 0, stream, &[0, 0, 0, 8])].concat()
        })
        .collect();
    for (filter, is_logged) in [("info", false), ("info,h2=warn", true)] {
        let mut server = ServerBuilder::new([library.root()])
            .environment("RUST_LOG", filter)
            .start();
        let mut client = Client::open(&server, &[frame(4, 0, 0, &[]), resets.clone()].concat());
        while client.hear().is_some() {}
        let name = "headlong_connections_cut_total{reason=\"flood\"}";
        eventually("a count", || counted(&server, name), |count| *count == 1);
        server.signal(Signal::TERM).expect("signal");
        server.wait(PATIENCE).expect("it ends");
        let output = server.output();
        assert_eq!(output.contains("reached limit"), is_logged, "{output}");
    }
}

#[test]
fn cuts_frame_or_header_block_without_end() {
    let library = Library::new(1, MIB).expect("a library");
    let server = ServerBuilder::new([library.root()]);
    let server = server.config("[limits]\nheader_timeout = \"1s\"");
    let server = server.start();
    let whole = request(1, "/title-0.bin", "bytes=0-9");
    let mut no_end = whole.clone();
    no_end[4] = 1;
    let settings = frame(4, 0, 0, &[]);
    let half = whole[..12].to_vec();
    let openings = [
        Vec::new(),
        [&settings[..], &no_end].concat(),
        [&settings[..], &half].concat(),
        [&settings[..], &frame(6, 0, 0, &[7; 8]), &[0, 0]].concat(),
    ];
    for (n, opening) in (1..).zip(openings) {
        let mut client = Client::open(&server, &opening);
        while client.hear().is_some() {}
        let name = "headlong_connections_cut_total{reason=\"header-timeout\"}";
        eventually("a timeout", || counted(&server, name), |count| *count == n);
    }
}

#[test]
fn streams_without_window_hold_no_memory_and_resume() {
    const BYTES: u32 = 300_000;
    let library = Library::new(2, 48 * MIB).expect("a library");
    let server = ServerBuilder::new([library.root()]).memory("16MiB").start();
    let streams: Vec<u32> = (0..50).map(|n| 2 * n + 1).collect();
    let sent = || {
        let status = server.status().0;
        status["totals"]["bytes_sent"].as_u64().expect("a number")
    };
    let mut expected = 0;
    // One stream has no window at all, one ends within a piece, one covers a few pieces.
    for window in [0, 1_000, 100_000] {
        let mut client = Client::open(&server, &initial_window(window));
        for stream in &streams {
            let start = u64::from(*stream) * 400_000 + 77;
            let range = format!("bytes={start}-{}", start + u64::from(BYTES) - 1);
            client.say(&request(*stream, "/title-0.bin", &range));
        }
        client.say(&window_update(0, BYTES * streams.len() as u32));
        if window == 0 {
            // A head is sent once the first piece is in memory.
            client.hear_heads(streams.len());
        }
        let mut bodies = client.hear_bodies(&streams, window as usize);
        eventually(
            "memory of streams without a window",
            || server.status().memory("sending_bytes"),
            |sending| *sending == 0,
        );
        assert_eq!(
            counted(&server, "headlong_requests_active"),
            streams.len() as u64
        );
        // Bytes of a closed window are not sent.
        expected += streams.len() as u64 * u64::from(window);
        assert_eq!(sent(), expected);
        let range = [("Range", "bytes=40000000-40099999")];
        let other = server.request("GET", "/title-1.bin", &range);
        pattern::verify(1, 40_000_000, &other.body).expect("correct bytes");
        for stream in &streams {
            client.say(&window_update(*stream, BYTES));
        }
        let rest = client.hear_bodies(&streams, (BYTES - window) as usize);
        for stream in &streams {
            let mut body = bodies.remove(stream).unwrap_or_default();
            body.extend(&rest[stream]);
            assert_eq!(body.len(), BYTES as usize);
            let start = u64::from(*stream) * 400_000 + 77;
            pattern::verify(0, start, &body).expect("correct bytes");
        }
        // Each counts the bytes sent, and none twice.
        let rest = u64::from(BYTES) - u64::from(window);
        expected += 100_000 + streams.len() as u64 * rest;
        assert_eq!(sent(), expected);
    }
}

/// A connection whose kernel takes a few kilobytes that are not read.
fn connect_with_small_buffer(address: SocketAddr) -> TcpStream {
    let client = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    sockopt::set_socket_recv_buffer_size(&client, 4096).expect("an option");
    connect(&client, &address).expect("accepted");
    TcpStream::from(client)
}

#[test]
fn unread_http1_replies_leave_half_of_memory_and_resume() {
    const BYTES: u64 = 2 * MIB;
    let library = Library::new(2, 48 * MIB).expect("a library");
    let server = ServerBuilder::new([library.root()])
        .memory("16MiB")
        .config("admission = \"accept\"\n[limits]\nsend_timeout = \"10m\"")
        .start();
    // More than there are pieces.
    let start = |n: u64| n * 100_000 + 77;
    let mut clients: Vec<(u64, TcpStream)> = (0..400)
        .map(|n| {
            let mut client = connect_with_small_buffer(server.address());
            let end = start(n) + BYTES - 1;
            let request = format!(
                "GET /title-0.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
                Range: bytes={}-{end}\r\n\r\n",
                start(n)
            );
            client.write_all(request.as_bytes()).expect("taken");
            (n, client)
        })
        .collect();
    let begun = || counted(&server, "headlong_requests_active");
    eventually("all requests", begun, |active| *active == 400);
    eventually(
        "memory of replies that are not read",
        || server.status().memory("sending_bytes"),
        |sending| *sending <= 8 * MIB,
    );
    let range = [("Range", "bytes=40000000-40099999")];
    let other = server.request("GET", "/title-1.bin", &range);
    pattern::verify(1, 40_000_000, &other.body).expect("correct bytes");
    for (n, client) in clients.iter_mut().step_by(20) {
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).expect("a whole reply");
        let head = reply.windows(4).position(|end| end == b"\r\n\r\n");
        let body = &reply[head.expect("a head") + 4..];
        assert_eq!(body.len() as u64, BYTES, "{n}");
        pattern::verify(0, start(*n), body).expect("correct bytes");
    }
}

#[test]
fn one_address_cannot_take_all_request_memory() {
    let library = Library::new(1, 48 * MIB).expect("a library");
    let server = ServerBuilder::new([library.root()]).memory("64MiB").start();
    let mut clients: Vec<Client> = (0..5)
        .map(|_| Client::open(&server, &initial_window(0)))
        .collect();
    let ask = |client: &mut Client, count: u32| {
        for n in 0..count {
            let range = format!("bytes={}-", n * 65_536);
            client.say(&request(2 * n + 1, "/title-0.bin", &range));
        }
        client.hear_heads(count as usize);
        // Until then pieces are the scarce resource.
        eventually(
            "memory of streams without a window",
            || server.status().memory("sending_bytes"),
            |sending| *sending == 0,
        );
    };
    let active = || counted(&server, "headlong_requests_active");
    let refused = || counted(&server, "headlong_request_memory_refusals_total");
    // An eighth of memory is for requests, and a quarter of that for an address: 2 MiB.
    for client in &mut clients {
        ask(client, 54);
    }
    assert_eq!((active(), refused()), (270, 0));
    let mut last: Vec<Client> = (0..4)
        .map(|_| Client::open(&server, &initial_window(0)))
        .collect();
    for client in &mut last {
        // Fewer than end a connection.
        ask(client, 15);
    }
    assert!((270..=292).contains(&active()), "{}", active());
    assert_eq!(refused() + active(), 330, "{} were refused", refused());
    let flood: Vec<u8> = (0..100)
        .flat_map(|n| request(2 * n + 1, "/title-0.bin", "bytes=0-"))
        .collect();
    let mut flooding = Client::open(&server, &initial_window(0));
    flooding.say(&flood);
    while flooding.hear().is_some() {}
    let cut = "headlong_connections_cut_total{reason=\"flood\"}";
    eventually("a count", || counted(&server, cut), |count| *count == 1);
    clients.append(&mut last);
    // HTTP/1.1 has one request for each connection, and connections are limited separately.
    let range = [("Range", "bytes=0-99")];
    let reply = server.request("GET", "/title-0.bin", &range);
    assert_eq!(reply.status(), 206);
    drop(clients);
    let left = || counted(&server, "headlong_requests_active");
    eventually("the end of all requests", left, |active| *active == 0);
}

#[test]
fn memory_of_flood_returns_after_it() {
    let library = Library::new(1, MIB).expect("a library");
    let server = ServerBuilder::new([library.root()]).memory("1GiB").start();
    let resident = || server.memory().expect("/proc").resident_bytes;
    // Four fields of 1,000 bytes; 127 and 873 are the length of each in HPACK.
    let field = [&[0, 1, b'x', 0x7f, 0xe9, 0x06][..], &[b'y'; 1000]].concat();
    let requests: Vec<u8> = (0..100)
        .flat_map(|n| {
            let short = request(2 * n + 1, "/title-0.bin", "bytes=0-");
            frame(1, 5, 2 * n + 1, &[&short[9..], &field.repeat(4)].concat())
        })
        .collect();
    let wave = |resident_min: u64| {
        let open = |_| {
            let mut client = Client::open(&server, &initial_window(0));
            client.say(&requests);
            client
        };
        let clients: Vec<Client> = (0..60).map(open).collect();
        eventually("memory of the flood", resident, |now| *now > resident_min);
        drop(clients);
        let left = || counted(&server, "headlong_requests_active");
        eventually("the end of all requests", left, |active| *active == 0);
    };
    // Code and tables that the first requests bring into memory stay.
    wave(0);
    // The allocator returns its pages after a second.
    std::thread::sleep(Duration::from_secs(3));
    let before = resident();
    for _ in 0..3 {
        wave(before * 6 / 5);
    }
    eventually("resident bytes", resident, |now| *now < before * 11 / 10);
}
