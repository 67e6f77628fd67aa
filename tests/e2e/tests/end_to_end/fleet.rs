//! Boxes behind the balancers that `headlong fleet config` configures: a title stays on one box,
//! and no viewer notices a box that refuses or is killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use headlong_e2e_tests::{HaProxy, Library, Nginx, eventually, have_or_skip};
use headlong_testkit::client::{Connection, fetch, request_text};
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
        let file = self.describe("", listen, instead);
        let mut command = Command::new(binary());
        command.args(["fleet", "config", "--for", balancer]);
        ProgramRun::of(command.arg(&file)).exits_with(0).stdout
    }

    /// The configuration of HAProxy for titles at the boxes with these numbers.
    fn config_with_places(&self, listen: SocketAddr, places: &[(String, Vec<usize>)]) -> String {
        // Without a bound that a single request can reach.
        let file = self.describe("replicas = 2\nload_percent_max = 1000\n", listen, &[]);
        let line = |(title, boxes): &(String, Vec<usize>)| {
            let boxes: Vec<String> = boxes.iter().map(|number| format!("{number}:d")).collect();
            format!("{title}\t{}\n", boxes.join(","))
        };
        let below = |name: &str| self.scratch.path().join(name);
        let text: String = places.iter().map(line).collect();
        std::fs::write(below("places.tsv"), text).expect("written");
        let mut command = Command::new(binary());
        command.args(["fleet", "config", "--for", "haproxy"]);
        command.arg("--places").arg(below("places.tsv"));
        command.arg("--map").arg(below("places.map"));
        ProgramRun::of(command.arg(&file)).exits_with(0).stdout
    }

    /// Writes the description of the fleet.
    fn describe(&self, more: &str, listen: SocketAddr, instead: &[SocketAddr]) -> PathBuf {
        let mut text = format!("title = \"file\"\nlisten = [\"{listen}\"]\n{more}");
        for (number, server) in self.servers.iter().enumerate() {
            let address = instead.get(number).copied().unwrap_or(server.address());
            text.push_str(&format!(
                "[box.{number}]\naddress = \"{address}\"\nadmin = \"{}\"\n",
                server.admin()
            ));
        }
        let file = self.scratch.path().join("fleet.toml");
        std::fs::write(&file, text).expect("written");
        file
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
        // So few that the title is not popular.
        for viewer in 0..8 {
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
        let counts = eventually(balancer, counts, |of| of.iter().sum::<u64>() >= 16);
        // A balancer that still counts the last request at that box may send the next elsewhere: with
        // a bound on load, and nothing else to do, one request is a box's share.
        assert!(counts[2] >= 14, "{balancer}: {counts:?}");
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

#[test]
fn placed_titles_go_to_their_boxes_and_to_the_second_if_the_first_is_killed() {
    if !have_or_skip("placed_titles_go_to_their_boxes", "haproxy") {
        return;
    }
    let mut boxes = Boxes::start();
    let name = |title| format!("title-{title}.bin");
    let titles = (0..TITLES as usize).map(|title| (name(title), vec![title % 3, (title + 1) % 3]));
    let absent = ("a b#c.bin".to_owned(), vec![0, 1]);
    let absent_alone = ("alone.bin".to_owned(), vec![1]);
    let places: Vec<_> = titles.chain([absent, absent_alone]).collect();
    let config = |listen| boxes.config_with_places(listen, &places);
    let front = HaProxy::start(config).expect("HAProxy");
    let ask_all = |boxes: &Boxes| {
        let before = boxes.answered();
        for title in 0..TITLES {
            // The token is not checked on an open path.
            let token = format!("{title:a<43}");
            let path = format!("/t/2000000000.0.{token}/title-{title}.bin");
            assert_eq!(ask(front.address(), &path), 206, "title {title}");
        }
        let counts = || -> Vec<u64> {
            let after = boxes.answered();
            before
                .iter()
                .zip(&after)
                .map(|(before, after)| after - before)
                .collect()
        };
        eventually("replies are counted", counts, |of| {
            of.iter().sum::<u64>() >= TITLES
        })
    };
    assert_eq!(ask_all(&boxes), [3, 3, 2]);
    // The boxes of the first two titles work, and lack the files.
    for path in ["/a%20b%23c.bin", "/alone.bin", "/other.bin"] {
        let absent = fetch(front.address(), "GET", path, &[]).expect("a reply");
        assert_eq!(absent.status(), 404, "{path}");
        assert!(absent.field("retry-after").is_none(), "{path}");
    }
    let killed = &mut boxes.servers[1];
    killed.signal(Signal::KILL).expect("ours");
    let ended = killed.wait(Duration::from_secs(10));
    assert!(ended.is_some(), "it has ended");
    for title in [1, 4, 7] {
        let before = boxes.servers[2].replies();
        assert_eq!(ask(front.address(), &format!("/{}", name(title))), 206);
        let counted = || boxes.servers[2].replies() - before;
        eventually("the second box answers", counted, |count| *count == 1);
    }
    let of_killed = fetch(front.address(), "GET", "/alone.bin", &[]).expect("a reply");
    assert_eq!(of_killed.status(), 503);
    assert!(of_killed.field("retry-after").is_some());
    let at_first = fetch(front.address(), "GET", "/a%20b%23c.bin", &[]).expect("a reply");
    assert_eq!(at_first.status(), 404);
}
