//! nginx and Apache under `headlong run` give every byte right, in all their ways to read, to many
//! clients who ask here and there.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use headlong_e2e_tests::preload::{Peer, Reception, cool, killed_all_the_time};
use headlong_e2e_tests::{Library, Title, have_or_skip};
use headlong_testkit::Seed;

const CLIENTS_OF_A_WAY: u64 = 4;
const REQUESTS_OF_A_CLIENT: u32 = 25;
/// So often a reception is killed at least.
const KILLS: u32 = 12;

/// Every client asks so often, and for as long as `goes_on`, while the kernel is made to forget.
fn all_right(peer: &Peer, titles: &[Title], goes_on: impl Fn() -> bool + Sync) {
    let is_over = AtomicBool::new(false);
    let mut seed = Seed::announced("preload servers", 23);
    std::thread::scope(|scope| {
        let cooling = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                titles.iter().for_each(|title| cool(&title.path));
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        let ways = peer
            .ways
            .iter()
            .flat_map(|way| (0..CLIENTS_OF_A_WAY).map(move |_| way));
        let goes_on = &goes_on;
        let clients: Vec<_> = ways
            .map(|way| {
                let client = peer.client(way, seed.next_u64());
                scope.spawn(move || {
                    let mut client = client.map_err(|error| error.to_string())?;
                    let mut asked = 0;
                    while asked < REQUESTS_OF_A_CLIENT || goes_on() {
                        client.ask(titles)?;
                        asked += 1;
                    }
                    Ok::<(), String>(())
                })
            })
            .collect();
        let ends: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        cooling.join().expect("it cools");
        for end in ends {
            assert_eq!(end.expect("no panic"), Ok(()));
        }
    });
}

fn with_every_reception(start: impl Fn(&Path, &Path) -> std::io::Result<Peer>) {
    let mut library = Library::new(6, 2_500_007).expect("titles");
    let root = library.root().to_owned();
    for (name, size) in [("small", 5_000), ("one-byte", 1), ("middle", 300_000)] {
        let title = Title::create(&root, name, size, size).expect("written");
        library.titles.push(title);
    }
    let socket = root.join("reception.sock");
    let peer = start(&root, &socket).expect("it starts");
    let titles = &library.titles;
    all_right(&peer, titles, || false);
    // The library looks for one once a second.
    let reception = Reception::start(&socket);
    std::thread::sleep(Duration::from_millis(1100));
    all_right(&peer, titles, || false);
    let status = reception.status();
    let ready = reception.calls("ready");
    assert!(ready > 20, "{ready} calls were helped: {status}");
    // Who looked whether it listens said nothing.
    assert!(reception.calls("unreadable") <= 1, "{status}");
    reception.kill();
    killed_all_the_time(&socket, |kills: &AtomicU32| {
        all_right(&peer, titles, || kills.load(Ordering::Relaxed) < KILLS);
    });
    assert_eq!(peer.crashes(), Vec::<String>::new());
}

#[test]
fn nginx_gives_every_byte_right() {
    if have_or_skip("nginx under preload", "nginx") {
        with_every_reception(Peer::nginx);
    }
}

#[test]
fn apache_gives_every_byte_right() {
    if have_or_skip("Apache under preload", "apache2") {
        with_every_reception(Peer::apache);
    }
}
