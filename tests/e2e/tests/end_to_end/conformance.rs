//! The HTTP conformance table, against this server and against nginx.

use headlong_e2e_tests::conformance::{self, AppliesTo};
use headlong_e2e_tests::{Nginx, have_or_skip};
use headlong_testkit::client::Connection;
use headlong_testkit::server::ServerBuilder;

#[test]
fn server_passes_the_whole_table() {
    let fixture = conformance::fixture().expect("a fixture");
    let server = ServerBuilder::new([conformance::root_of(&fixture)]).start();
    let failures = conformance::failures(server.address(), |_| true);
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn nginx_passes_its_cases_of_the_table() {
    if !have_or_skip("nginx_passes_its_cases_of_the_table", "nginx") {
        return;
    }
    let fixture = conformance::fixture().expect("a fixture");
    let nginx = Nginx::start(&conformance::root_of(&fixture)).expect("nginx");
    let failures = conformance::failures(nginx.address(), |passes| passes == AppliesTo::Both);
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn invalid_requests_are_refused_without_side_effects() {
    let fixture = conformance::fixture().expect("a fixture");
    let server = ServerBuilder::new([conformance::root_of(&fixture)]).start();
    let long_line = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(60_000));
    let bad: [&[u8]; 9] = [
        b"\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /title.mp4 HTTP/1.1\r\nHost x\r\n\r\n",
        b"GET /title\0.mp4 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /title.mp4 HTTP/1.1\r\nContent-Length: 1, 2\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense",
        long_line.as_bytes(),
    ];
    for bytes in bad {
        let mut connection = Connection::open(server.address()).expect("connects");
        // The server may close the connection before it has read all of the request.
        let _ = connection.send(bytes);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        connection.shut_down_writing();
        if let Ok(response) = connection.receive("GET") {
            assert!(
                response.status() >= 400,
                "{shown:?} got {}",
                response.status()
            );
        }
        let after = server.request("HEAD", "/title.mp4", &[]);
        assert_eq!(after.status(), 200, "after {shown:?}");
    }
}
