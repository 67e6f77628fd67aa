//! Boxes behind the balancers that `headlong fleet config` configures: a title stays on one box,
//! and no viewer notices a box that refuses or is killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use headlong_e2e_tests::{HaProxy, Library, Nginx, eventually, have_or_skip};
use headlong_testkit::client::{Connection, request_text};
use headlong_testkit::server::{ServerBuilder, binary, free_address};
use headlong_testkit::{ProgramRun, Scratch, Server};
use rustix::process::Signal;

const TITLES: u64 = 8;
const TITLE_BYTES: u64 = 1 << 20;
const PIECE: &str = "bytes=0-65535";

/// Three boxes with the same titles.
struct Boxes {
    scratch: Scratch,
    servers: Vec<Server>,
    _library: Library,
}

impl Boxes {
    fn start() -> Self {
        let library = Library::new(TITLES, TITLE_BYTES).expect("a library");
        let start = |_| ServerBuilder::new([library.root()]).memory("64MiB").start();
        Self {
            servers: (0..3).map(start).collect(),
            scratch: Scratch::new("fleet").expect("a folder"),
            _library: library,
        }
    }

    /// The configuration of `balancer` on `listen`, with the first boxes at other addresses.
    fn config(&self, balancer: &str, listen: SocketAddr, instead: &[SocketAddr]) -> String {
        let mut text = format!("title = \"file\"\nlisten = [\"{listen}\"]\n");
        for (number, server) in self.servers.iter().enumerate() {
            let address = instead.get(number).copied().unwrap_or(server.address());
            text.push_str(&format!(
                "[box.{number}]\naddress = \"{address}\"\nadmin = \"{}\"\n",
                server.admin()
            ));
        }
        let file = self.scratch.path().join("fleet.toml");
        std::fs::write(&file, text).expect("written");
        let mut command = Command::new(binary());
        command.args(["fleet", "config", "--for", balancer]);
        ProgramRun::of(command.arg(&file)).exits_with(0).stdout
    }

    /// Requests that each box has answered.
    fn answered(&self) -> Vec<u64> {
        self.servers.iter().map(Server::replies).collect()
    }
}

/// The status of a request for the beginning of a title; the bytes of a 206 are compared.
fn ask(front: SocketAddr, path: &str) -> u16 {
    let mut connection = Connection::open(front).expect("connects");
    let text = request_text("GET", path, &[("Range", PIECE)]);
    connection.send(text.as_bytes()).expect("sent");
    let reply = connection.receive("GET").expect("a reply");
    if reply.status() == 206 {
        assert_eq!(reply.body.len(), 65_536);
    }
    reply.status()
}

/// A box whose disks are full: it refuses every request.
fn full_box() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let refusal = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
                Content-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(refusal.as_bytes());
        }
    });
    address
}

/// A running balancer.
enum Front {
    HaProxy(HaProxy),
    Nginx(Nginx),
}

impl Front {
    fn start(balancer: &str, boxes: &Boxes, instead: &[SocketAddr]) -> Self {
        let config = |listen| boxes.config(balancer, listen, instead);
        match balancer {
            "haproxy" => Self::HaProxy(HaProxy::start(config).expect("HAProxy")),
            _ => Self::Nginx(Nginx::start_http(config).expect("nginx")),
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::HaProxy(haproxy) => haproxy.address(),
            Self::Nginx(nginx) => nginx.address(),
        }
    }
}

fn each_balancer(test: &str, check: impl Fn(&str, &mut Boxes)) {
    for balancer in ["haproxy", "nginx"] {
        if have_or_skip(test, balancer) {
            check(balancer, &mut Boxes::start());
        }
    }
}

#[test]
fn title_stays_on_one_box_whatever_token_precedes_it() {
    each_balancer("title_stays_on_one_box", |balancer, boxes| {
        let front = Front::start(balancer, boxes, &[]);
        let before = boxes.answered();
        for viewer in 0..12 {
            // The token is not checked on an open path.
            let token = format!("{viewer:a<43}");
            let path = format!("/t/2000000000.0.{token}/title-3.bin");
            assert_eq!(ask(front.address(), &path), 206, "{balancer}");
            assert_eq!(ask(front.address(), "/title-3.bin"), 206, "{balancer}");
        }
        // A reply is counted when it has ended, a moment after the viewer has it.
        let counts = || {
            let after = boxes.answered();
            let counts = before.iter().zip(&after);
            let counts = counts.map(|(before, after)| after - before);
            let mut counts: Vec<u64> = counts.collect();
            counts.sort_unstable();
            counts
        };
        let counts = eventually(balancer, counts, |of| of.iter().sum::<u64>() >= 24);
        // A balancer that still counts the last request at that box may send the next elsewhere: with
        // a bound on load, and nothing else to do, one request is a box's share.
        assert!(counts[2] >= 22, "{balancer}: {counts:?}");
    });
}

#[test]
fn titles_are_spread_over_all_boxes() {
    each_balancer("titles_are_spread", |balancer, boxes| {
        let front = Front::start(balancer, boxes, &[]);
        for title in 0..TITLES {
            assert_eq!(ask(front.address(), &format!("/title-{title}.bin")), 206);
        }
        let busy = boxes.answered().iter().filter(|count| **count > 0).count();
        assert!(busy >= 2, "{balancer}: {:?}", boxes.answered());
    });
}

#[test]
fn full_box_refuses_no_viewer_while_another_has_room() {
    each_balancer("full_box_refuses_no_viewer", |balancer, boxes| {
        let front = Front::start(balancer, boxes, &[full_box()]);
        for title in 0..TITLES {
            let status = ask(front.address(), &format!("/title-{title}.bin"));
            assert_eq!(status, 206, "{balancer}, title {title}");
        }
    });
}

#[test]
fn killed_box_fails_no_later_request() {
    each_balancer("killed_box_fails_no_later_request", |balancer, boxes| {
        let front = Front::start(balancer, boxes, &[]);
        for title in 0..TITLES {
            assert_eq!(ask(front.address(), &format!("/title-{title}.bin")), 206);
        }
        let killed = &mut boxes.servers[0];
        killed.signal(Signal::KILL).expect("ours");
        assert!(
            killed.wait(Duration::from_secs(10)).is_some(),
            "it has ended"
        );
        for title in 0..TITLES {
            let status = ask(front.address(), &format!("/title-{title}.bin"));
            assert_eq!(status, 206, "{balancer}, title {title}");
        }
    });
}

#[test]
fn box_without_listener_is_passed_over() {
    each_balancer("box_without_listener", |balancer, boxes| {
        let front = Front::start(balancer, boxes, &[free_address()]);
        let path = |title: u64| format!("/title-{title}.bin");
        let statuses = || -> Vec<u16> {
            let titles = 0..TITLES;
            titles
                .map(|title| ask(front.address(), &path(title)))
                .collect()
        };
        eventually(balancer, statuses, |all| {
            all.iter().all(|status| *status == 206)
        });
    });
}
