//! Searches of the roots that viewers hardly notice.
//!
//! The one idea: who searches a disk that works for viewers waits nine times as long as each stretch
//! of its own work took. What took long because viewers' reads came first counts as its work too, so
//! it takes less of a disk the busier that is. A disk that nobody needs is searched at full speed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headlong_engine::{DeviceState, QueueUse};
use tokio::time::sleep;

use crate::disk::Device;

/// The search works so long at a stretch, or one look-up longer: what the kernel knows is asked for
/// thousands of times in that.
const STRETCH: Duration = Duration::from_millis(20);
/// How many times as long it waits.
const WAIT_TIMES: u32 = 9;
/// Longest to wait: a disk that hung for long needs no rest from the search.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// How often it is seen whether a disk has become free.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// How long after its last read a disk is still taken for busy.
const LINGER: Duration = Duration::from_secs(2);

/// A search at work: how long it has been since it waited.
#[derive(Debug, Default)]
struct Stretch(Duration);

impl Stretch {
    /// The search worked for so long; how long it is to wait now, if the disk is busy.
    fn worked(&mut self, took: Duration) -> Duration {
        self.0 += took;
        match self.0 >= STRETCH {
            true => (std::mem::take(&mut self.0) * WAIT_TIMES).min(WAIT_MAX),
            false => Duration::ZERO,
        }
    }
}

/// What a search does whenever it has asked its disk something.
pub(crate) fn resting(is_busy: &AtomicBool) -> impl FnMut(Duration) {
    let mut stretch = Stretch::default();
    move |took| {
        let mut left = stretch.worked(took);
        while !left.is_zero() && is_busy.load(Ordering::Relaxed) {
            let step = left.min(LOOK_INTERVAL);
            std::thread::sleep(step);
            left -= step;
        }
    }
}

/// What is known of how busy one device is.
#[derive(Debug, Default)]
struct Seen {
    reads: u64,
    busy_at: Option<Instant>,
}

impl Seen {
    /// It looks so now; whether it is busy.
    fn look(&mut self, now: Instant, (state, reads, queue): (DeviceState, u64, QueueUse)) -> bool {
        let is_at_work = queue.jobs > 0 || queue.outstanding_reads > 0 || reads != self.reads;
        self.reads = reads;
        if is_at_work {
            self.busy_at = Some(now);
        }
        let lingers = self.busy_at.is_some_and(|at| now - at < LINGER);
        lingers && state != DeviceState::Offline
    }
}

/// Keeps it known whether one of some devices is busy. Never ends.
pub(crate) async fn watch(devices: &[&Device], is_busy: &AtomicBool) {
    let mut seen: Vec<(&Device, Seen)> = Vec::new();
    for device in devices {
        let reads = device.snapshot().await.stats.reads;
        let busy_at = None;
        seen.push((device, Seen { reads, busy_at }));
    }
    loop {
        let mut is_any = false;
        for (device, seen) in &mut seen {
            let at = device.snapshot().await;
            is_any |= seen.look(Instant::now(), (at.state, at.stats.reads, at.queue));
        }
        is_busy.store(is_any, Ordering::Relaxed);
        sleep(LOOK_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_search_waits_nine_times_as_long_as_it_worked() {
        let mut stretch = Stretch::default();
        let took = [5, 12, 30, 0, 19, 1, 400].map(|ms| ms * MS);
        let waits = took.map(|took| stretch.worked(took));
        assert_eq!(waits, [0, 0, 423, 0, 0, 180, 3600].map(|ms| ms * MS));
        let (worked, waited): (Duration, Duration) = (took.iter().sum(), waits.iter().sum());
        assert_eq!(waited, worked * WAIT_TIMES);
    }

    #[test]
    fn what_hung_is_not_waited_for_as_long_again() {
        let mut stretch = Stretch::default();
        assert_eq!(stretch.worked(3600 * 1000 * MS), WAIT_MAX);
        assert_eq!(stretch.worked(STRETCH), STRETCH * WAIT_TIMES);
    }

    #[test]
    fn a_search_of_a_disk_that_nobody_needs_does_not_wait() {
        let is_busy = AtomicBool::new(false);
        let mut rest = resting(&is_busy);
        // The test would take hours.
        (0..10_000).for_each(|_| rest(3600 * 1000 * MS));
    }

    #[test]
    fn a_disk_is_busy_while_it_reads_and_a_while_after() {
        let began = Instant::now();
        let mut seen = Seen::default();
        let idle = QueueUse::default();
        let waiting = QueueUse { jobs: 1, ..idle };
        let mut look = |ms: u64, reads, queue| {
            let now = began + Duration::from_millis(ms);
            seen.look(now, (DeviceState::Online, reads, queue))
        };
        assert!(!look(0, 0, idle));
        assert!(look(250, 0, waiting));
        assert!(look(500, 1, idle), "it read between two looks");
        assert!(look(500 + 1999, 1, idle));
        assert!(!look(500 + 2000, 1, idle));
        assert!(look(3000, 2, idle));
        let offline = (DeviceState::Offline, 3, waiting);
        assert!(!seen.look(began + Duration::from_secs(4), offline));
    }
}
