//! Concurrent clients of a server that request parts of titles while the kernel drops its page
//! cache.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headlong_testkit::Seed;

use super::{Peer, cool};
use crate::Title;

const CLIENTS_OF_A_WAY: u64 = 4;
const REQUESTS_OF_A_CLIENT: u32 = 25;

/// Each client sends this many requests, and continues while `goes_on`; meanwhile the page cache is
/// dropped.
///
/// # Panics
/// If any byte of a reply is wrong.
pub fn all_right(peer: &Peer, titles: &[Title], goes_on: impl Fn() -> bool + Sync) {
    let is_over = AtomicBool::new(false);
    let mut seed = Seed::announced("crowd", 23);
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
        cooling.join().expect("the cooling thread ends");
        for end in ends {
            assert_eq!(end.expect("no panic"), Ok(()));
        }
    });
}
