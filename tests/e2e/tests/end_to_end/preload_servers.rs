//! nginx and Apache under `headlong run` serve every byte correctly, with all their read methods,
//! to many clients that request random ranges.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use headlong_e2e_tests::preload::{
    ACTS, Peer, Reception, all_right, killed_all_the_time, under, with_dying_reception,
};
use headlong_e2e_tests::{Library, Title, have_or_skip};

/// Fewest kills of the reception.
const KILLS: u32 = 12;

fn with_every_reception(start: impl Fn(&Path, &[String]) -> std::io::Result<Peer>) {
    let mut library = Library::new(6, 2_500_007).expect("titles");
    let root = library.root().to_owned();
    for (name, size) in [("small", 5_000), ("one-byte", 1), ("middle", 300_000)] {
        let title = Title::create(&root, name, size, size).expect("written");
        library.titles.push(title);
    }
    let socket = root.join("reception.sock");
    let peer = start(&root, &under(&socket)).expect("it starts");
    let titles = &library.titles;
    all_right(&peer, titles, || false);
    // The library looks for a reception once a second.
    // It has memory for a part of the titles, so that some are read repeatedly.
    let little = ["--memory", "4MiB", "--prefetch", "512KiB"];
    let reception = Reception::start_with(&socket, &little);
    std::thread::sleep(Duration::from_millis(1100));
    all_right(&peer, titles, || false);
    let status = reception.status();
    let ready = reception.calls("ready");
    assert!(ready > 20, "{ready} calls were helped: {status}");
    // The check whether it listens sent no message.
    assert!(reception.calls("unreadable") <= 1, "{status}");
    reception.kill();
    killed_all_the_time(&socket, |kills: &AtomicU32| {
        all_right(&peer, titles, || kills.load(Ordering::Relaxed) < KILLS);
    });
    assert_eq!(peer.crashes(), Vec::<String>::new());
}

#[test]
fn nginx_serves_correct_bytes() {
    if have_or_skip("nginx under preload", "nginx") {
        with_every_reception(Peer::nginx);
    }
}

#[test]
fn apache_serves_correct_bytes() {
    if have_or_skip("Apache under preload", "apache2") {
        with_every_reception(Peer::apache);
    }
}

#[test]
fn nginx_serves_right_bytes_beside_hostile_reception() {
    if !have_or_skip("nginx beside a hostile reception", "nginx") {
        return;
    }
    let library = Library::new(4, 1_000_001).expect("titles");
    let socket = library.root().join("socket");
    let peer = Peer::nginx(library.root(), &under(&socket)).expect("it starts");
    let end = Instant::now() + Duration::from_secs(60);
    with_dying_reception(&socket, |taken| {
        all_right(&peer, &library.titles, || {
            // Three of them have died.
            let is_short = taken.load(Ordering::Relaxed) < 3 * ACTS.len();
            assert!(!is_short || Instant::now() < end, "{taken:?} connections");
            is_short
        });
    });
    assert_eq!(peer.crashes(), Vec::<String>::new());
}
