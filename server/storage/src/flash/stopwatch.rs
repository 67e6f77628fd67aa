//! Latency of an SSD, without scheduling delay of this machine.
//!
//! A thread that waits for an SSD resumes only when a processor is free: on a busy machine up to a
//! quarter of a second later, which must not count against the SSD. The kernel counts the time a
//! thread was runnable but not running (`schedstat`, proc(5)). If a kernel does not, the full time
//! counts as latency.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

thread_local! {
    /// Scheduler statistics of the current thread.
    static COUNTS: Option<File> = File::open("/proc/thread-self/schedstat").ok();
}

/// Measures a wait for an SSD.
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

    /// Time since the start minus scheduling delay. Must be called on the same thread.
    pub(super) fn elapsed(&self) -> Duration {
        // Read the delay first, so that it never exceeds the elapsed time.
        let held_up = held_up().saturating_sub(self.held_up);
        self.began.elapsed().saturating_sub(held_up)
    }
}

/// Total scheduling delay of the current thread.
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
    fn excludes_scheduling_delay_but_counts_waiting() {
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
        // The thread waits only for the other to end, and may be woken a little late.
        assert!(stopwatch.elapsed() >= Duration::from_millis(50));
    }
}
