//! Readahead window of one program.
//!
//! As in the kernel's readahead of a file: small at first, growing while it is used, shrinking when
//! it is not. A program that uses nothing is ignored for increasing periods.

const BYTES_MIN: u64 = 256 << 10;
/// About the bytes that a drive transfers in the time of a few seeks.
const BYTES_MAX: u64 = 16 << 20;
const GROWTH: u64 = 4;
/// Waits ignored after an unused sweep, doubling each time.
const PASSED_MIN: u32 = 8;
const PASSED_MAX: u32 = 4096;

/// Sweeps that may be unused at a time: a comparison traverses several trees in turn.
const SWEEPS_UNUSED: u32 = 4;

/// Window state of one program.
#[derive(Debug)]
pub(crate) struct SweepWindow {
    bytes: u64,
    /// Files of the last sweep.
    files: u32,
    /// Files read ahead and not yet found in memory by the program.
    unused: u32,
    /// Waits still to be ignored, and the number for the next time.
    passing: u32,
    pass_next: u32,
}

impl Default for SweepWindow {
    fn default() -> Self {
        Self {
            bytes: 0,
            files: 0,
            unused: 0,
            passing: 0,
            pass_next: PASSED_MIN,
        }
    }
}

/// The readahead step when a walking program waits again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowStep {
    Nothing,
    /// Read this many bytes.
    Bytes(u64),
    /// Read this many bytes in the other order: the last sweeps were not used.
    Otherwise(u64),
}

impl SweepWindow {
    /// The program waits again, after it found `found` files in memory.
    pub(crate) fn next(&mut self, found: u32) -> WindowStep {
        self.unused = self.unused.saturating_sub(found);
        if self.passing > 0 {
            self.passing -= 1;
            return WindowStep::Nothing;
        }
        if self.bytes == 0 {
            self.bytes = BYTES_MIN;
        } else if self.unused > 0 && self.unused >= SWEEPS_UNUSED * self.files {
            self.unused = 0;
            if self.bytes == BYTES_MIN {
                self.passing = self.pass_next;
                self.pass_next = (self.pass_next * 2).min(PASSED_MAX);
            }
            self.bytes = (self.bytes / GROWTH).max(BYTES_MIN);
            return match self.passing {
                0 => WindowStep::Otherwise(self.bytes),
                _ => WindowStep::Nothing,
            };
        } else if found >= self.files / 2 {
            self.bytes = (self.bytes * GROWTH).min(BYTES_MAX);
            self.pass_next = PASSED_MIN;
        }
        WindowStep::Bytes(self.bytes)
    }

    /// A sweep read this many files.
    pub(crate) fn swept(&mut self, files: u32) {
        self.files = files;
        self.unused = self.unused.saturating_add(files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_grows_while_used_up_to_its_limit() {
        let mut window = SweepWindow::default();
        let bytes: Vec<WindowStep> = (0..8)
            .map(|_| {
                let next = window.next(10);
                window.swept(10);
                next
            })
            .collect();
        assert_eq!(bytes[0], WindowStep::Bytes(BYTES_MIN));
        assert_eq!(bytes[2], WindowStep::Bytes(BYTES_MIN * GROWTH * GROWTH));
        assert_eq!(bytes[7], WindowStep::Bytes(BYTES_MAX));
    }

    #[test]
    fn alternating_between_two_trees_keeps_the_window() {
        let mut window = SweepWindow::default();
        for wait in 0..100 {
            // The sweep of one tree is used after the sweep of the other has been read.
            let next = window.next(if wait % 2 == 0 { 40 } else { 0 });
            assert!(matches!(next, WindowStep::Bytes(_)), "{wait}: {next:?}");
            window.swept(20);
        }
        assert_eq!(window.next(40), WindowStep::Bytes(BYTES_MAX));
    }

    #[test]
    fn unused_sweeps_pause_for_increasing_periods() {
        let mut window = SweepWindow::default();
        let mut sweeps = 0;
        for _ in 0..10_000 {
            if window.next(0) != WindowStep::Nothing {
                window.swept(20);
                sweeps += 1;
            }
        }
        assert!((10..80).contains(&sweeps), "{sweeps}");
    }
}
