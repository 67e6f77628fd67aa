//! How much is read ahead for one program.
//!
//! As the kernel does within a file: little at first, more while it is used, less when it is not;
//! who uses nothing is left alone for longer and longer.

const BYTES_MIN: u64 = 256 << 10;
/// What a drive reads in the time of some seeks.
const BYTES_MAX: u64 = 16 << 20;
const GROWTH: u64 = 4;
/// Waits that are passed over after a sweep of which nothing was used, doubling.
const PASSED_MIN: u32 = 8;
const PASSED_MAX: u32 = 4096;

/// So many sweeps may wait to be used: who compares goes through several trees at a time.
const SWEEPS_UNUSED: u32 = 4;

/// The state of one program.
#[derive(Debug)]
pub(crate) struct Window {
    bytes: u64,
    /// Files of the last sweep.
    files: u32,
    /// Files that were read ahead and not found yet.
    unused: u32,
    /// Waits that are still passed over, and how many will be the next time.
    passing: u32,
    pass_next: u32,
}

impl Default for Window {
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

/// What a program that walks, and waits again, is to have read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    /// So much.
    Bytes(u64),
    /// So much, and in another order: the last sweeps were not used.
    Otherwise(u64),
}

impl Window {
    /// The program waits again, and found so many files in memory before that.
    pub(crate) fn next(&mut self, found: u32) -> Next {
        self.unused = self.unused.saturating_sub(found);
        if self.passing > 0 {
            self.passing -= 1;
            return Next::Nothing;
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
                0 => Next::Otherwise(self.bytes),
                _ => Next::Nothing,
            };
        } else if found >= self.files / 2 {
            self.bytes = (self.bytes * GROWTH).min(BYTES_MAX);
            self.pass_next = PASSED_MIN;
        }
        Next::Bytes(self.bytes)
    }

    /// So many files were read.
    pub(crate) fn swept(&mut self, files: u32) {
        self.files = files;
        self.unused = self.unused.saturating_add(files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_while_it_is_used_and_has_an_end() {
        let mut window = Window::default();
        let bytes: Vec<Next> = (0..8)
            .map(|_| {
                let next = window.next(10);
                window.swept(10);
                next
            })
            .collect();
        assert_eq!(bytes[0], Next::Bytes(BYTES_MIN));
        assert_eq!(bytes[2], Next::Bytes(BYTES_MIN * GROWTH * GROWTH));
        assert_eq!(bytes[7], Next::Bytes(BYTES_MAX));
    }

    #[test]
    fn who_goes_through_two_trees_by_turns_uses_what_is_read_for_both() {
        let mut window = Window::default();
        for wait in 0..100 {
            // The sweep of one tree is used once that of the other is there.
            let next = window.next(if wait % 2 == 0 { 40 } else { 0 });
            assert!(matches!(next, Next::Bytes(_)), "{wait}: {next:?}");
            window.swept(20);
        }
        assert_eq!(window.next(40), Next::Bytes(BYTES_MAX));
    }

    #[test]
    fn who_uses_nothing_is_left_alone_for_longer_and_longer() {
        let mut window = Window::default();
        let mut sweeps = 0;
        for _ in 0..10_000 {
            if window.next(0) != Next::Nothing {
                window.swept(20);
                sweeps += 1;
            }
        }
        assert!((10..80).contains(&sweeps), "{sweeps}");
    }
}
