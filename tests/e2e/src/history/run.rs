//! Writers and readers of one test, which run until a deadline.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headlong_testkit::Seed;

use super::History;

/// Duration of a run; a version settles in two seconds. On a busy machine a run lasts until a reply
/// of a settled version was seen.
const DURATION: Duration = Duration::from_secs(4);
const DURATION_MAX: Duration = Duration::from_secs(30);
/// `revalidate` of the server, plus a margin for a look-up and for delayed threads on a busy
/// machine.
pub const BELIEVED: Duration = Duration::from_millis(2_050);
const TITLES: usize = 6;
const READERS: usize = 3;

/// Counts of outcomes.
#[derive(Debug, Default)]
pub struct Seen(BTreeMap<String, u64>);

impl Seen {
    /// Counts one.
    pub fn note(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    /// How often that occurred.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
}

/// State shared by all threads of a test.
#[derive(Debug, Default)]
pub struct Run {
    is_over: AtomicBool,
    has_settled: AtomicBool,
}

impl Run {
    /// Whether the run is over.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Records a reply of a settled version.
    pub fn met_settled(&self) {
        self.has_settled.store(true, Ordering::Relaxed);
    }
}

/// Changes titles until the run is over: half of them without pause, the others with pauses in
/// which their versions settle.
fn write(history: &History, number: usize, mut seed: Seed, of: &Run) -> io::Result<()> {
    while !of.is_over() {
        history.change(&mut seed)?;
        let pause = match number % 2 {
            0 => seed.below(60),
            _ => 2_600 + seed.below(1_400),
        };
        let until = Instant::now() + Duration::from_millis(pause);
        while Instant::now() < until && !of.is_over() {
            std::thread::sleep(Duration::from_millis(pause.clamp(1, 20)));
        }
    }
    Ok(())
}

/// Runs writers, and readers until the deadline; returns the readers' counts.
///
/// # Panics
/// If a reader finds a wrong reply.
pub fn run(
    test: &str,
    histories: &[History],
    read: impl Fn(Seed, &Run) -> Result<Seen, String> + Sync,
) -> Seen {
    let mut seed = Seed::announced(test, 25);
    let of = Run::default();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..histories.len())
            .map(|number| {
                let (history, seed) = (&histories[number], Seed::new(seed.next_u64()));
                let of = &of;
                scope.spawn(move || write(history, number, seed, of))
            })
            .collect();
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let (seed, read, of) = (Seed::new(seed.next_u64()), &read, &of);
                scope.spawn(move || read(seed, of))
            })
            .collect();
        let began = Instant::now();
        let is_enough = || match of.has_settled.load(Ordering::Relaxed) {
            true => began.elapsed() >= DURATION,
            false => began.elapsed() >= DURATION_MAX,
        };
        while !is_enough() && readers.iter().all(|reader| !reader.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
        }
        of.is_over.store(true, Ordering::Relaxed);
        for writer in writers {
            writer
                .join()
                .expect("no panic")
                .expect("the write succeeds");
        }
        let mut all = Seen::default();
        for reader in readers {
            let seen = reader.join().expect("no panic");
            let seen = seen.unwrap_or_else(|wrong| panic!("{test}: {wrong}"));
            for (what, count) in seen.0 {
                *all.0.entry(what).or_default() += count;
            }
        }
        all
    })
}

/// Titles that do not exist yet; says whether they will be written in place.
pub fn histories(root: &Path, is_in_place: bool) -> Vec<History> {
    let path = |number| root.join(format!("title{number}.bin"));
    (0..TITLES)
        .map(|number| History::new(path(number), is_in_place))
        .collect()
}
