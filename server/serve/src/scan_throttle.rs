//! Scan throttling: scans of the roots that hardly affect viewers.
//!
//! A scan of a busy disk pauses nine times as long as each stretch of its own work took. Delays
//! caused by viewers' reads count as work, so the busier a disk is, the smaller the share of the
//! scan. An idle disk is scanned at full speed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headlong_engine::{DeviceState, QueueUse};
use tokio::time::sleep;

use headlong_storage::Device;

/// Length of a stretch of work, plus at most one lookup: thousands of lookups, if the kernel has
/// the data cached.
const STRETCH: Duration = Duration::from_millis(20);
/// Length of the pause, as a multiple of the stretch.
const WAIT_TIMES: u32 = 9;
/// Upper limit of the pause: a disk that hung for long needs no equally long pause.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Interval between checks whether the disk is idle.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Time after its last read during which a disk counts as busy.
const LINGER: Duration = Duration::from_secs(1);

/// Work done by a scan since its last pause.
#[derive(Debug, Default)]
struct WorkSincePause(Duration);

impl WorkSincePause {
    /// Adds work; returns the length of the pause that is due, if the disk is busy.
    fn worked(&mut self, took: Duration) -> Duration {
        self.0 += took;
        match self.0 >= STRETCH {
            true => (std::mem::take(&mut self.0) * WAIT_TIMES).min(WAIT_MAX),
            false => Duration::ZERO,
        }
    }
}

/// Returns the callback that a scan calls after each disk access.
pub(crate) fn resting(is_busy: &AtomicBool) -> impl FnMut(Duration) {
    let mut stretch = WorkSincePause::default();
    move |took| {
        let mut left = stretch.worked(took);
        while !left.is_zero() && is_busy.load(Ordering::Relaxed) {
            let step = left.min(LOOK_INTERVAL);
            std::thread::sleep(step);
            left -= step;
        }
    }
}

/// Activity of one device.
#[derive(Debug, Default)]
struct DeviceActivity {
    reads: u64,
    busy_at: Option<Instant>,
}

impl DeviceActivity {
    /// Updates the activity; returns whether the device is busy.
    fn update(
        &mut self,
        now: Instant,
        (state, reads, queue): (DeviceState, u64, QueueUse),
    ) -> bool {
        let is_at_work = queue.jobs > 0 || queue.outstanding_reads > 0 || reads != self.reads;
        self.reads = reads;
        if is_at_work {
            self.busy_at = Some(now);
        }
        let lingers = self.busy_at.is_some_and(|at| now - at < LINGER);
        lingers && state != DeviceState::Offline
    }
}

/// Keeps `is_busy` up to date for some devices. Never returns.
pub(crate) async fn watch(devices: &[&Device], is_busy: &AtomicBool) {
    let mut seen: Vec<(&Device, DeviceActivity)> = Vec::new();
    for device in devices {
        let reads = device.snapshot().await.stats.reads;
        let busy_at = None;
        seen.push((device, DeviceActivity { reads, busy_at }));
    }
    loop {
        let mut is_any = false;
        for (device, seen) in &mut seen {
            let at = device.snapshot().await;
            is_any |= seen.update(Instant::now(), (at.state, at.stats.reads, at.queue));
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
    fn scan_pauses_nine_times_as_long_as_it_worked() {
        let mut stretch = WorkSincePause::default();
        let took = [5, 12, 30, 0, 19, 1, 400].map(|ms| ms * MS);
        let waits = took.map(|took| stretch.worked(took));
        assert_eq!(waits, [0, 0, 423, 0, 0, 180, 3600].map(|ms| ms * MS));
        let (worked, waited): (Duration, Duration) = (took.iter().sum(), waits.iter().sum());
        assert_eq!(waited, worked * WAIT_TIMES);
    }

    #[test]
    fn pause_is_bounded_after_a_hang() {
        let mut stretch = WorkSincePause::default();
        assert_eq!(stretch.worked(3600 * 1000 * MS), WAIT_MAX);
        assert_eq!(stretch.worked(STRETCH), STRETCH * WAIT_TIMES);
    }

    #[test]
    fn scan_of_idle_disk_does_not_pause() {
        let is_busy = AtomicBool::new(false);
        let mut rest = resting(&is_busy);
        // Would take hours if it waited.
        (0..10_000).for_each(|_| rest(3600 * 1000 * MS));
    }

    #[test]
    fn disk_is_busy_during_reads_and_shortly_after() {
        let began = Instant::now();
        let mut seen = DeviceActivity::default();
        let idle = QueueUse::default();
        let waiting = QueueUse { jobs: 1, ..idle };
        let mut look = |ms: u64, reads, queue| {
            let now = began + Duration::from_millis(ms);
            seen.update(now, (DeviceState::Online, reads, queue))
        };
        assert!(!look(0, 0, idle));
        assert!(look(250, 0, waiting));
        assert!(look(500, 1, idle), "a read between two checks");
        assert!(look(500 + 999, 1, idle));
        assert!(!look(500 + 1000, 1, idle));
        assert!(look(3000, 2, idle));
        let offline = (DeviceState::Offline, 3, waiting);
        assert!(!seen.update(began + Duration::from_secs(4), offline));
    }
}
