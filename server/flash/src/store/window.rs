//! Congestion window: how many records one store may request from an SSD at a time.
//!
//! An SSD serves all disks, and each disk has a store that knows nothing of the others. If all of
//! them requested as many records as they may, the queue at the SSD would grow with the number of
//! disks until every read is late and all stores distrust the SSD, although it works at full speed.
//! So each store uses additive increase, multiplicative decrease, as TCP does: a slow read shrinks
//! its window by a quarter, and a window of fast reads grows it by one. Reads that do not fit go to
//! the disk.
//!
//! Invariant: the window stays within its bounds, and shrinks at most once for reads issued at the
//! same time.

use headlong_units::{Duration, Instant};

/// Upper limit of records in flight, also of all SSDs together (`RECORDS_MAX` of the engine).
const SIZE_MAX: u32 = 64;
/// Lower limit: the records of one MiB, which one reply requests at a time. An SSD is busy with
/// less.
const SIZE_MIN: u32 = 8;
/// Latency above which a read counts as delayed by others: half of the latency at which a read is
/// late, and comparable to a moderately busy disk.
const CROWDED: Duration = Duration::from_millis(125);

/// The window of one SSD.
#[derive(Debug)]
pub(crate) struct ReadWindow {
    size: u32,
    /// Fast reads since the last increase.
    grown: u32,
    /// Time of the last decrease. Reads issued before it are ignored.
    cut_at: Instant,
}

impl Default for ReadWindow {
    fn default() -> Self {
        Self {
            size: SIZE_MAX,
            grown: 0,
            cut_at: Instant::ZERO,
        }
    }
}

impl ReadWindow {
    /// Whether another record may be requested with `outstanding` in flight.
    pub(crate) fn has_room(&self, outstanding: u32) -> bool {
        outstanding < self.size
    }

    /// A record was returned after `took`.
    pub(crate) fn end_read(&mut self, now: Instant, took: Duration) {
        if took <= CROWDED {
            self.grown += 1;
            if self.grown >= self.size {
                self.grown = 0;
                self.size = SIZE_MAX.min(self.size + 1);
            }
        } else if now.since(self.cut_at) >= took {
            self.cut_at = now;
            self.grown = 0;
            self.size = SIZE_MIN.max(self.size - self.size / 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn sizes(window: &ReadWindow) -> u32 {
        (0..=SIZE_MAX)
            .find(|count| !window.has_room(*count))
            .unwrap_or(0)
    }

    #[test]
    fn shrinks_once_per_batch_and_grows_by_one_per_window() {
        let mut window = ReadWindow::default();
        for _ in 0..64 {
            window.end_read(at(1_000), Duration::from_millis(200));
        }
        assert_eq!(sizes(&window), 48, "shrinks once for all of them");
        window.end_read(at(1_150), Duration::from_millis(200));
        assert_eq!(
            sizes(&window),
            48,
            "the read was issued before the decrease"
        );
        (0..48).for_each(|_| window.end_read(at(1_200), Duration::from_millis(20)));
        assert_eq!(sizes(&window), 49);
        for turn in 2..60 {
            window.end_read(at(turn * 1_000), Duration::from_millis(200));
        }
        assert_eq!(sizes(&window), SIZE_MIN);
        (0..10_000).for_each(|_| window.end_read(at(60_000), Duration::from_millis(1)));
        assert_eq!(sizes(&window), SIZE_MAX);
    }

    /// A queue shared by several stores: a read takes as long as all outstanding records.
    #[test]
    fn stores_sharing_an_ssd_converge_to_equal_windows() {
        let mut windows: alloc::vec::Vec<ReadWindow> =
            (0..36).map(|_| ReadWindow::default()).collect();
        // One of them had bad luck.
        (1..20).for_each(|turn| windows[0].end_read(at(turn * 300), Duration::from_millis(200)));
        let mut now = at(10_000);
        let mut took = Duration::ZERO;
        for _ in 0..2_000 {
            let outstanding: u32 = windows.iter().map(sizes).sum();
            // 3,000 records per second.
            took = Duration::from_micros(u64::from(outstanding) * 333);
            now = now + took;
            for window in &mut windows {
                (0..sizes(window)).for_each(|_| window.end_read(now, took));
            }
        }
        assert!(took < Duration::from_millis(250), "{took:?}");
        let (least, most) = (
            windows.iter().map(sizes).min(),
            windows.iter().map(sizes).max(),
        );
        assert!(
            most.unwrap_or(0) <= 2 * least.unwrap_or(0),
            "{least:?} {most:?}"
        );
    }
}
