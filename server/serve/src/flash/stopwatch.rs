//! How long an SSD takes, without the time that the machine takes.
//!
//! A thread that waits for an SSD is woken when the SSD is done, and goes on when a processor is free
//! for it: on a busy machine that may be a quarter of a second later, for which no SSD is to be blamed.
//! The kernel counts how long a thread could have run and did not (`schedstat`, proc(5)). A kernel that
//! does not count says zero, or nothing; then all of the time is the SSD's.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

thread_local! {
    /// The present thread's counts.
    static COUNTS: Option<File> = File::open("/proc/thread-self/schedstat").ok();
}

/// Runs while a thread waits for an SSD.
#[derive(Debug)]
pub(super) struct Stopwatch {
    began: Instant,
    held_up: Duration,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self {
            began: Instant::now(),
            held_up: held_up(),
        }
    }

    /// The time since the start, on the same thread, in which this thread waited for something else than
    /// a processor.
    pub(super) fn elapsed(&self) -> Duration {
        // Counted before the time is looked at, so that no more is taken off than has passed.
        let held_up = held_up().saturating_sub(self.held_up);
        self.began.elapsed().saturating_sub(held_up)
    }
}

/// How long the present thread could have run and did not, since it began.
fn held_up() -> Duration {
    let read = COUNTS.try_with(|counts| {
        let mut text = [0; 64];
        let length = counts.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..length)?).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok()
    });
    Duration::from_nanos(read.ok().flatten().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::thread::{available_parallelism, scope};

    use super::*;

    #[test]
    fn time_in_which_no_processor_is_free_is_not_counted_and_waiting_is() {
        let threads = available_parallelism().map_or(1, usize::from) * 4;
        let spin = || {
            let stopwatch = Stopwatch::start();
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(300) {
                std::hint::spin_loop();
            }
            (stopwatch.elapsed(), began.elapsed())
        };
        let spun: Vec<_> = scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(spin)).collect();
            all.into_iter()
                .map(|one| one.join().expect("no panic"))
                .collect()
        });
        let ran: Duration = spun.iter().map(|(own, _)| *own).sum();
        let passed: Duration = spun.iter().map(|(_, all)| *all).sum();
        let counts = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        if counts
            .split_ascii_whitespace()
            .nth(1)
            .is_some_and(|count| count != "0")
        {
            assert!(ran < passed / 2, "{ran:?} of {passed:?}");
        }
        let stopwatch = Stopwatch::start();
        std::thread::sleep(Duration::from_millis(50));
        // It waits for nothing but the end of it, and is woken a little late perhaps.
        assert!(stopwatch.elapsed() >= Duration::from_millis(50));
    }
}
