//! What happens to viewers of a fleet: a box is killed, drained, full, loses a disk or has a stale
//! copy; the balancer is reloaded; the origin fails. No byte is ever wrong; each test prints what
//! the viewers met.

use std::net::SocketAddr;
use std::time::Duration;

use headlong_e2e_tests::cluster::{STALE, TITLE_BYTES, TITLES, Watched, play};
use headlong_e2e_tests::edge::{self, metric, settle};
use headlong_e2e_tests::origin::Mode;
use headlong_e2e_tests::{Cluster, HaProxy, Title, eventually, have_or_skip};
use headlong_testkit::client::{Connection, fetch};
use headlong_testkit::server::{Server, ServerBuilder, free_address};
use headlong_testkit::{Scratch, pattern};
use rustix::process::Signal;

const BOXES: usize = 3;
const VIEWERS: u64 = 30;
/// The balancer's address is trusted by all boxes.
const TRUSTING: &str = "proxies.trusted = [\"127.0.0.1\"]\n";

/// Three boxes and HAProxy, if it is installed.
fn fleet(test: &str) -> Option<(Cluster, HaProxy)> {
    have_or_skip(test, "haproxy").then(|| {
        let cluster = Cluster::start(BOXES, |_, _| TRUSTING.to_owned());
        let front = HaProxy::start_with_master(|listen| cluster.haproxy(listen));
        (cluster, front.expect("HAProxy"))
    })
}

/// A title for each viewer.
fn all_titles() -> Vec<(String, u64)> {
    let viewers = 0..VIEWERS;
    let title = |viewer| (format!("/title-{}.bin", viewer % TITLES), viewer % TITLES);
    viewers.map(title).collect()
}

fn report(test: &str, watched: &Watched) {
    eprintln!("{test}: {watched:?}");
    assert_eq!(watched.bytes, VIEWERS * TITLE_BYTES, "{watched:?}");
}

#[test]
fn killed_box_costs_a_viewer_at_most_one_repeated_request() {
    let Some((mut cluster, front)) = fleet("killed_box_costs") else {
        return;
    };
    let victim = cluster.busiest(|| visit(front.address(), "/title-0.bin"));
    let server = &mut cluster.boxes[victim].server;
    let watched = play(front.address(), &all_titles(), || {
        server.signal(Signal::KILL).expect("ours");
        let ended = server.wait(Duration::from_secs(10));
        assert!(ended.is_some(), "it has ended");
    });
    report("killed", &watched);
    assert!(watched.cut_max <= 1, "{watched:?}");
    assert_eq!(watched.refused, 0, "{watched:?}");
}

#[test]
fn drained_box_is_not_noticed() {
    let Some((cluster, front)) = fleet("drained_box") else {
        return;
    };
    let victim = cluster.busiest(|| visit(front.address(), "/title-0.bin"));
    let watched = play(front.address(), &all_titles(), || {
        let server = &cluster.boxes[victim].server;
        server.signal(Signal::TERM).expect("ours");
    });
    report("drained", &watched);
    assert_eq!((watched.cut, watched.refused), (0, 0), "{watched:?}");
}

#[test]
fn full_box_is_not_noticed_while_another_has_room() {
    if !have_or_skip("full_box", "haproxy") {
        return;
    }
    // One request at a time from any address, the balancer's included.
    let cluster = Cluster::start(BOXES, |number, _| match number {
        0 => "limits.requests_per_address_max = 1\n".to_owned(),
        _ => TRUSTING.to_owned(),
    });
    let full = &cluster.boxes[0];
    let large = full.folder.join("a/large.bin");
    let large = std::fs::File::create(large).expect("made");
    large.set_len(256 << 20).expect("sized");
    let holder = Connection::open(full.server.address()).expect("connects");
    let holder = holder.begin("/large.bin", &[]);
    let refusal = full.server.get("/title-0.bin");
    assert_eq!(refusal.status(), 503, "{}", refusal.text());
    assert_eq!(refusal.field("headlong-refused"), Some("address"));
    assert!(refusal.field("retry-after").is_some(), "{refusal:?}");
    let front = HaProxy::start(|listen| cluster.haproxy(listen)).expect("HAProxy");
    let watched = play(front.address(), &all_titles(), || ());
    drop(holder);
    report("full", &watched);
    assert_eq!((watched.cut, watched.refused), (0, 0), "{watched:?}");
}

#[test]
fn box_without_one_of_two_disks_says_so_and_is_not_noticed() {
    if !have_or_skip("box_without_one_of_two_disks", "haproxy") {
        return;
    }
    let cluster = Cluster::start(BOXES, |number, folder| {
        if number == 0 {
            std::fs::rename(folder.join("b"), folder.join("gone")).expect("renamed");
        }
        TRUSTING.to_owned()
    });
    let ill = &cluster.boxes[0];
    let says = |expected: &'static str| {
        eventually(expected, || ill.says(), |line| line == expected);
    };
    // Of two folders with titles, and one for slices.
    says("up 66%");
    let front = HaProxy::start(|listen| cluster.haproxy(listen)).expect("HAProxy");
    let watched = play(front.address(), &all_titles(), || ());
    report("disk lost", &watched);
    assert_eq!((watched.cut, watched.refused), (0, 0), "{watched:?}");
    std::fs::rename(ill.folder.join("gone"), ill.folder.join("b")).expect("renamed");
    says("up 100%");
}

#[test]
fn stale_copy_is_not_spliced_into_a_title() {
    let Some((mut cluster, front)) = fleet("stale_copy") else {
        return;
    };
    let home = cluster.busiest(|| visit(front.address(), "/title-0.bin"));
    for (number, other) in cluster.boxes.iter().enumerate() {
        if number != home {
            let stale = Title::create(&other.folder, "stale", STALE, TITLE_BYTES).expect("made");
            let place = other.folder.join("a/title-0.bin");
            std::fs::rename(stale.path, place).expect("replaced");
        }
    }
    let viewers = vec![("/title-0.bin".to_owned(), 0); 10];
    let server = &mut cluster.boxes[home].server;
    let watched = play(front.address(), &viewers, || {
        server.signal(Signal::KILL).expect("ours");
        server.wait(Duration::from_secs(10));
    });
    eprintln!("stale copy: {watched:?}");
    // Viewers of the killed box learn of the other version before a byte of it reaches the picture.
    assert!(watched.replaced > 0, "{watched:?}");
}

#[test]
fn reloaded_balancer_is_not_noticed() {
    let Some((_cluster, front)) = fleet("reloaded_balancer") else {
        return;
    };
    let watched = play(front.address(), &all_titles(), || front.reload());
    report("reloaded", &watched);
    assert_eq!((watched.cut, watched.refused), (0, 0), "{watched:?}");
}

#[test]
fn origin_that_is_gone_is_not_noticed_for_stored_titles() {
    let Some((cluster, front)) = fleet("origin_that_is_gone") else {
        return;
    };
    let title = |number| format!("/vod/{number}-{TITLE_BYTES}");
    let viewers = (0..VIEWERS).map(|viewer| (title(viewer % TITLES), viewer % TITLES));
    let viewers: Vec<_> = viewers.collect();
    let front = front.address();
    for number in 0..TITLES {
        let reply = fetch(front, "GET", &title(number), &[]).expect("a reply");
        assert_eq!(reply.status(), 200);
    }
    // Each title was fetched once for the fleet. With the origin gone, the boxes to which bounded
    // load sends viewers fetch it from the one that has it.
    assert_eq!(cluster.origin.sent_bytes(), TITLES * TITLE_BYTES);
    cluster.boxes.iter().for_each(|one| settle(&one.server));
    cluster.origin.be(Mode::Down);
    let before = cluster.origin.asked();
    let watched = play(front, &viewers, || ());
    report("origin gone", &watched);
    let asked = cluster.origin.asked() - before;
    let of_peers = cluster.boxes.iter();
    let of_peers = of_peers.map(|one| metric(&one.server, "headlong_pull_peer_bytes_total"));
    let of_peers: u64 = of_peers.sum();
    eprintln!("origin gone: {asked} requests at the origin, {of_peers} bytes from peers");
    assert_eq!((watched.cut, watched.refused), (0, 0), "{watched:?}");
}

#[test]
fn second_box_of_a_title_fetches_it_from_the_first() {
    let cluster = Cluster::start(BOXES, |_, _| String::new());
    let path = format!("/vod/3-{TITLE_BYTES}");
    let [first, second, _] = &cluster.boxes[..] else {
        panic!("three boxes");
    };
    let watch = |server: &Server| {
        let reply = server.get(&path);
        assert_eq!(reply.status(), 200);
        pattern::verify(3, 0, &reply.body).expect("right bytes");
        assert_eq!(reply.body.len() as u64, TITLE_BYTES);
        settle(server);
    };
    watch(&first.server);
    let (sent, asked) = (cluster.origin.sent_bytes(), cluster.origin.asked());
    watch(&second.server);
    let after = (cluster.origin.sent_bytes(), cluster.origin.asked());
    assert_eq!(after, (sent, asked), "the origin is not asked");
    let of_peers = metric(&second.server, "headlong_pull_peer_bytes_total");
    assert_eq!(of_peers, TITLE_BYTES);
    // A box that lacks a title answers a peer at once and does not fetch it.
    let only = [("Cache-Control", "only-if-cached")];
    let absent = format!("/vod/4-{TITLE_BYTES}");
    let reply = first.server.request("HEAD", &absent, &only);
    assert_eq!(reply.status(), 504);
    assert_eq!(cluster.origin.asked(), asked);
}

#[test]
fn box_asks_the_box_that_has_the_title_first() {
    if !have_or_skip("box_asks_the_box_that_has_the_title", "haproxy") {
        return;
    }
    let cluster = Cluster::start(5, |_, _| TRUSTING.to_owned());
    // A bound that no single request reaches: each is answered by the box of its title.
    let (bound, wide) = ("hash-balance-factor 200", "hash-balance-factor 1000");
    let config = |listen| {
        let config = cluster.haproxy(listen);
        assert!(config.contains(bound), "{config}");
        config.replace(bound, wide)
    };
    let front = HaProxy::start(config).expect("HAProxy");
    // A reply is counted when it has ended, a moment after the viewer has it.
    let answered = || {
        let counts = || {
            let counts = cluster.answered();
            std::thread::sleep(Duration::from_millis(200));
            (counts == cluster.answered()).then_some(counts)
        };
        eventually("all replies are counted", counts, Option::is_some).expect("counts")
    };
    // Players may encode more of a path than HAProxy would.
    let paths: Vec<String> = (0..10)
        .map(|title| format!("/vod/{title}-{TITLE_BYTES}"))
        .collect();
    let mut alone = 0;
    for path in &paths {
        let path = path.replacen('-', "%2D", 1);
        let grown = |before: &[u64]| -> Vec<usize> {
            let after = answered();
            (0..5)
                .filter(|number| after[*number] > before[*number])
                .collect()
        };
        let fetched = |number: &usize| {
            let server = &cluster.boxes[*number].server;
            metric(server, "headlong_pull_fetched_bytes_total")
        };
        let before: Vec<u64> = (0..5).map(|number| fetched(&number)).collect();
        let reply = fetch(front.address(), "GET", &path, &[]).expect("a reply");
        assert_eq!(reply.status(), 200);
        // It asked the others, which do not have the title, and then the origin.
        let home = || (0..5).find(|number| fetched(number) > before[*number]);
        let home = eventually("a box fetched the title", home, Option::is_some).expect("a box");
        settle(&cluster.boxes[home].server);
        let second = (home + 1) % 5;
        let before = answered();
        assert_eq!(cluster.boxes[second].server.get(&path).status(), 200);
        settle(&cluster.boxes[second].server);
        let mut asked = grown(&before);
        asked.retain(|number| *number != second);
        assert!(asked.contains(&home), "{path}: {asked:?}, not {home}");
        alone += usize::from(asked == [home]);
    }
    // A box that stores slowly may answer that it lacks the title. In any other order the right
    // box would be the first for one in four.
    assert!(alone >= 7, "only the right box was asked for {alone} of 10");
    let sent = cluster.origin.sent_bytes();
    assert!(
        (10 * TITLE_BYTES..=13 * TITLE_BYTES).contains(&sent),
        "{sent}"
    );
}

#[test]
fn all_parents_down_costs_few_requests() {
    let cluster = Cluster::start(1, |_, _| String::new());
    let server = &cluster.boxes[0].server;
    cluster.origin.be(Mode::Down);
    let mut statuses = Vec::new();
    for round in 0..300 {
        let path = format!("/vod/{}-{TITLE_BYTES}", round % 50);
        let reply = server.get(&path);
        statuses.push(reply.status());
        if round > 10 {
            assert!(reply.field("retry-after").is_some(), "{round}");
        }
    }
    assert!(statuses.iter().all(|status| *status == 502), "{statuses:?}");
    let asked = cluster.origin.asked();
    eprintln!("all parents down: {asked} requests at the origin for 300 of viewers");
    assert!(asked < 100, "{asked}");
    cluster.origin.be(Mode::Well);
    let back = || {
        let path = format!("/vod/1-{TITLE_BYTES}");
        let reply = fetch(server.address(), "HEAD", &path, &[]);
        reply.map_or(0, |reply| reply.status())
    };
    eventually("the origin is back", back, |status| *status == 200);
}

#[test]
fn request_that_comes_back_is_refused() {
    // The origin of the box is the box itself.
    let folder = Scratch::new("loop").expect("a folder");
    let address = free_address();
    let settings = edge::settings(&format!("http://{address}/vod/"), folder.path(), "");
    let builder = ServerBuilder::new(Vec::<&std::path::Path>::new());
    let server = builder.config(&settings).address(address).start();
    let reply = server.get("/vod/a");
    assert_eq!(reply.status(), 502, "{}", reply.text());
}

/// Requests the beginning of a title.
fn visit(front: SocketAddr, path: &str) {
    let reply = fetch(front, "GET", path, &[("Range", "bytes=0-65535")]);
    assert_eq!(reply.expect("a reply").status(), 206);
}
