//! How many records may be asked of an SSD at once, for one room among many.
//!
//! The one idea: an SSD serves all disks, and each has a room of its own that knows nothing of the
//! others. If all of them ask for as many records as they may, what waits at the SSD grows with the
//! number of disks until every read is late and all give it up, though it works as fast as it can. So
//! each room does what TCP does on a line that it shares: reads that take long make its window a
//! quarter smaller, reads that do not make it grow by one for each window. What finds no room in it
//! is asked of the disk.
//!
//! Invariant: the window is within its bounds, and is cut once at most for what was asked at the same
//! time.

use headlong_units::{Duration, Instant};

/// Most records at once, of all SSDs together too (`RECORDS_MAX` of the engine).
const SIZE_MAX: u32 = 64;
/// Fewest: what one reply asks for at a time, a MiB. An SSD is busy with less than that.
const SIZE_MIN: u32 = 8;
/// Reads that take longer wait for those of others. It is half of what makes a read late: a disk with
/// some work takes as long.
const CROWDED: Duration = Duration::from_millis(125);

/// The window of one SSD.
#[derive(Debug)]
pub(crate) struct Window {
    size: u32,
    /// Reads since it grew last.
    grown: u32,
    /// Reads that were asked for before it was cut last say nothing of it.
    cut_at: Instant,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            size: SIZE_MAX,
            grown: 0,
            cut_at: Instant::ZERO,
        }
    }
}

impl Window {
    /// Whether one more may be asked for beside so many.
    pub(crate) fn has_room(&self, outstanding: u32) -> bool {
        outstanding < self.size
    }

    /// A record came back after so long.
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

    fn sizes(window: &Window) -> u32 {
        (0..=SIZE_MAX)
            .find(|count| !window.has_room(*count))
            .unwrap_or(0)
    }

    #[test]
    fn it_is_cut_once_for_what_was_asked_together_and_grows_by_one_for_each_window() {
        let mut window = Window::default();
        for _ in 0..64 {
            window.end_read(at(1_000), Duration::from_millis(200));
        }
        assert_eq!(sizes(&window), 48, "once for all of them");
        window.end_read(at(1_150), Duration::from_millis(200));
        assert_eq!(sizes(&window), 48, "it was asked before the cut");
        (0..48).for_each(|_| window.end_read(at(1_200), Duration::from_millis(20)));
        assert_eq!(sizes(&window), 49);
        for turn in 2..60 {
            window.end_read(at(turn * 1_000), Duration::from_millis(200));
        }
        assert_eq!(sizes(&window), SIZE_MIN);
        (0..10_000).for_each(|_| window.end_read(at(60_000), Duration::from_millis(1)));
        assert_eq!(sizes(&window), SIZE_MAX);
    }

    /// A queue that rooms share: reads take as long as all that is outstanding takes.
    #[test]
    fn rooms_that_share_an_ssd_come_to_equal_windows_and_none_is_late() {
        let mut windows: alloc::vec::Vec<Window> = (0..36).map(|_| Window::default()).collect();
        // One has had bad luck.
        (1..20).for_each(|turn| windows[0].end_read(at(turn * 300), Duration::from_millis(200)));
        let mut now = at(10_000);
        let mut took = Duration::ZERO;
        for _ in 0..2_000 {
            let outstanding: u32 = windows.iter().map(sizes).sum();
            // 3,000 records a second.
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
