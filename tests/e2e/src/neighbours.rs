//! Background viewers beside a fault: their latencies before it and during it.
//!
//! The test compares a server with itself on the same machine in the same minute, and never with an
//! absolute time.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headlong_testkit::client::fetch;
use headlong_testkit::{Seed, pattern};

use crate::library::Title;

/// Concurrent viewers.
const VIEWERS: u64 = 4;
/// Fewest requests of each viewer, so that the slowest percent is several requests.
const REQUESTS_MIN: usize = 150;
/// Pause between two requests of one viewer: the viewers must not be the load.
const PAUSE: Duration = Duration::from_millis(2);
/// Accepted growth of the 99th percentile. A busy machine causes that much; a viewer blocked by a
/// hung disk waits thousands of times longer.
const FACTOR: u32 = 20;

/// Viewers of these titles; each request has its own connection and a random offset.
#[derive(Debug, Clone, Copy)]
pub struct BackgroundViewers<'a> {
    /// The server.
    pub address: SocketAddr,
    /// Titles that they read.
    pub titles: &'a [Title],
    /// Size of each request.
    pub request_bytes: u64,
    /// How long the fault delays requests that it affects: other viewers that wait a quarter as
    /// long count as affected.
    pub held_up: Duration,
}

/// Latencies, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits(Vec<Duration>);

impl Waits {
    /// The 99th percentile.
    pub fn p99(&self) -> Duration {
        let at = (self.0.len() * 99).div_ceil(100).saturating_sub(1);
        self.0.get(at).copied().unwrap_or_default()
    }
}

impl BackgroundViewers<'_> {
    /// Runs `trouble` while the viewers read, and fails the test if it affects them: by an
    /// unexpected response, or by latencies above those before. Returns the result of `trouble`.
    pub fn do_not_notice<T>(&self, name: &str, trouble: impl FnOnce() -> T) -> T {
        let (before, ()) = self.beside(1, || ());
        let (during, result) = self.beside(2, trouble);
        let bound = (before.p99() * FACTOR).max(self.held_up / 4);
        eprintln!(
            "{name}: p99 of the others before {:?} ({} requests), during {:?} ({})",
            before.p99(),
            before.0.len(),
            during.p99(),
            during.0.len(),
        );
        assert!(
            during.p99() <= bound,
            "{name}: the others waited {:?} instead of {:?}",
            during.p99(),
            before.p99()
        );
        result
    }

    /// The viewers read until `trouble` is over, and for a minimum of requests.
    fn beside<T>(&self, seed: u64, trouble: impl FnOnce() -> T) -> (Waits, T) {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watching: Vec<_> = (0..VIEWERS)
                .map(|viewer| {
                    let is_over = &is_over;
                    scope.spawn(move || self.watch(seed * VIEWERS + viewer, is_over))
                })
                .collect();
            let over = Over(&is_over);
            let result = trouble();
            drop(over);
            let waits = watching.into_iter();
            let waits = waits.flat_map(|viewer| viewer.join().expect("every viewer is served"));
            let mut waits: Vec<_> = waits.collect();
            waits.sort_unstable();
            (Waits(waits), result)
        })
    }

    fn watch(&self, seed: u64, is_over: &AtomicBool) -> Vec<Duration> {
        let mut seed = Seed::new(seed);
        let mut waits = Vec::new();
        while waits.len() < REQUESTS_MIN || !is_over.load(Ordering::Relaxed) {
            let title = &self.titles[seed.below(self.titles.len() as u64) as usize];
            let first = seed.below(title.size_bytes - self.request_bytes + 1);
            let range = format!("bytes={first}-{}", first + self.request_bytes - 1);
            let asked = Instant::now();
            let reply = fetch(self.address, "GET", &title.target, &[("Range", &range)]);
            waits.push(asked.elapsed());
            let reply = reply.unwrap_or_else(|error| panic!("{}: {error}", title.target));
            assert_eq!(reply.status(), 206, "{}: {}", title.target, reply.text());
            pattern::verify(title.number, first, &reply.body).expect("correct bytes");
            std::thread::sleep(PAUSE);
        }
        waits
    }
}

/// Signals the end of the fault to the viewers, also after a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p99_ignores_one_wait_in_a_hundred() {
        let waits = |longest: [u64; 2]| {
            let all = (0..198).map(|_| 1).chain(longest);
            Waits(all.map(Duration::from_millis).collect())
        };
        assert_eq!(waits([9, 9]).p99(), Duration::from_millis(1));
        let more = Waits((1..=50).map(Duration::from_millis).collect());
        assert_eq!(more.p99(), Duration::from_millis(50));
    }
}
