//! On-demand readahead of Linux: how far to read beyond the requested pages, and when.
//!
//! As in mm/readahead.c of Linux 6.18: a window of pages is read with a mark in it, and an access
//! to the mark triggers the next window, twice as large, up to `read_ahead_kb`. The state belongs
//! to an open file, and a server opens the file for every request, so every request starts with a
//! small window; but if the preceding pages are resident, the kernel assumes a sequential reader.
//!
//! Invariants: handles page numbers only; performs no reads; a window holds the requested page.

/// Limits of the block device, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeviceLimits {
    /// `read_ahead_kb`.
    pub(super) window: u32,
    /// `max_sectors_kb`: how far one large request may exceed `window`.
    pub(super) request: u32,
}

/// Pages to read, and the page whose access triggers the next window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadAheadWindow {
    pub(super) from: u32,
    pub(super) pages: u32,
    pub(super) mark: Option<u32>,
    /// Binary logarithm of the number of pages that the kernel tries to allocate at a time.
    pub(super) order: u32,
}

/// State of one open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ReadAheadState {
    start: u32,
    size: u32,
    async_size: u32,
    order: u32,
    /// The page after the last one read; none at first.
    previous: Option<u32>,
}

impl ReadAheadState {
    /// The reader has reached the end of the page before `next`.
    pub(super) fn passed(&mut self, next: u32) {
        self.previous = Some(next);
    }

    /// Handles a miss at `page`, the first of `asked` requested pages: `page_cache_sync_ra`.
    /// `cached_before` counts resident pages directly before it, up to a limit.
    pub(super) fn missing(
        &mut self,
        limits: DeviceLimits,
        page: u32,
        asked: u32,
        cached_before: impl FnOnce(u32) -> u32,
    ) -> ReadAheadWindow {
        if limits.window == 0 {
            return ReadAheadWindow::plain(page, 1);
        }
        let most = limits.most(asked);
        let goes_on = self
            .previous
            .is_some_and(|previous| page.wrapping_sub(previous) <= 1);
        if page == 0 || asked > most || goes_on {
            self.size = initial(asked, most);
            self.async_size = match self.size > asked {
                true => self.size - asked,
                false => self.size / 2,
            };
        } else {
            let mut before = cached_before(most);
            if before <= asked {
                return ReadAheadWindow::plain(page, asked);
            }
            if before >= page {
                // Resident from the beginning of the file: strong evidence of a sequential reader.
                before *= 2;
            }
            self.size = (before + asked).min(most);
            self.async_size = 1;
        }
        self.start = page;
        self.order = 0;
        self.window()
    }

    /// Handles a fault in a memory-mapped file: reads the pages around it
    /// (`do_sync_mmap_readahead`).
    pub(super) fn fault(&mut self, limits: DeviceLimits, page: u32) -> ReadAheadWindow {
        if limits.window == 0 {
            return ReadAheadWindow::plain(page, 1);
        }
        self.start = page.saturating_sub(limits.window / 2);
        self.size = limits.window;
        self.async_size = limits.window / 4;
        self.order = 0;
        self.window()
    }

    /// The reader has reached a mark at the start of a folio of `folio_pages`, and requests `asked`
    /// pages from there: `page_cache_async_ra`. `next_missing` returns the first absent page from a
    /// page on, within a number of pages.
    pub(super) fn marked(
        &mut self,
        limits: DeviceLimits,
        page: u32,
        folio_pages: u32,
        asked: u32,
        next_missing: impl FnOnce(u32, u32) -> Option<u32>,
    ) -> Option<ReadAheadWindow> {
        if limits.window == 0 {
            return None;
        }
        let most = limits.most(asked);
        let mark = (self.start + self.size).saturating_sub(self.async_size);
        if self.size > 0 && page == mark / folio_pages * folio_pages {
            self.start += self.size;
            self.size = next(self.size, most);
        } else {
            // A mark of another reader or of an earlier request.
            let start = next_missing(page + 1, most)?;
            self.start = start;
            self.size = next(start - page + asked, most);
        }
        self.async_size = self.size;
        self.order += 2;
        Some(self.window())
    }

    fn window(&mut self) -> ReadAheadWindow {
        self.order = self.order.min(self.size.max(1).ilog2()).min(ORDER_MAX);
        ReadAheadWindow {
            from: self.start,
            pages: self.size,
            mark: Some(self.start + self.size - self.async_size),
            order: self.order,
        }
    }
}

/// The largest allocation of the page cache: 2 MiB.
const ORDER_MAX: u32 = 9;

impl ReadAheadWindow {
    fn plain(from: u32, pages: u32) -> Self {
        Self {
            from,
            pages,
            mark: None,
            order: 0,
        }
    }
}

impl DeviceLimits {
    /// `ractl_max_pages`.
    fn most(self, asked: u32) -> u32 {
        match asked > self.window && self.request > self.window {
            true => asked.min(self.request),
            false => self.window,
        }
    }
}

/// `get_init_ra_size`.
fn initial(asked: u32, most: u32) -> u32 {
    let size = asked.max(1).next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

/// `get_next_ra_size`.
fn next(size: u32, most: u32) -> u32 {
    if size < most / 16 {
        size * 4
    } else if size <= most / 2 {
        size * 2
    } else {
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB_128: DeviceLimits = DeviceLimits {
        window: 32,
        request: 320,
    };
    const KB_2048: DeviceLimits = DeviceLimits {
        window: 512,
        request: 320,
    };

    fn nothing_before(_: u32) -> u32 {
        0
    }

    #[test]
    fn windows_double_up_to_limit_for_sequential_reader() {
        let mut state = ReadAheadState::default();
        let first = state.missing(KB_2048, 0, 16, nothing_before);
        assert_eq!((first.pages, first.mark), (64, Some(16)));
        let mut sizes = Vec::new();
        let mut mark = first.mark;
        for _ in 0..5 {
            let window = state.marked(KB_2048, mark.expect("marked"), 1, 16, |_, _| None);
            let window = window.expect("the expected mark");
            sizes.push((window.from, window.pages));
            mark = window.mark;
        }
        let expected = [(64, 128), (192, 256), (448, 512), (960, 512), (1472, 512)];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn request_mid_file_reads_exact_range_until_sequential() {
        let mut state = ReadAheadState::default();
        let first = state.missing(KB_128, 1000, 16, nothing_before);
        assert_eq!((first.pages, first.mark), (16, None));
        state.passed(1016);
        let second = state.missing(KB_128, 1016, 16, nothing_before);
        assert_eq!((second.pages, second.mark), (32, Some(1032)));
    }

    #[test]
    fn resident_pages_before_request_imply_sequential_reader() {
        let mut state = ReadAheadState::default();
        let window = state.missing(KB_2048, 1024, 16, |most| most.min(128));
        assert_eq!((window.pages, window.mark), (144, Some(1024 + 143)));
        // Resident from the beginning of the file: the count doubles.
        let window = ReadAheadState::default().missing(KB_2048, 128, 16, |most| most.min(128));
        assert_eq!(window.pages, 272);
    }

    #[test]
    fn mark_of_earlier_request_continues_after_resident_pages() {
        let mut state = ReadAheadState::default();
        let window = state.marked(KB_128, 100, 1, 16, |from, most| {
            assert_eq!((from, most), (101, 32));
            Some(110)
        });
        let window = window.expect("a window");
        assert_eq!((window.from, window.pages), (110, 32));
        assert_eq!(state.marked(KB_128, 500, 1, 16, |_, _| None), None);
    }

    #[test]
    fn single_pages_are_read_without_readahead() {
        let off = DeviceLimits {
            window: 0,
            request: 320,
        };
        let window = ReadAheadState::default().missing(off, 7, 16, nothing_before);
        assert_eq!((window.from, window.pages), (7, 1));
        assert_eq!(
            ReadAheadState::default().marked(off, 7, 1, 16, |_, _| None),
            None
        );
    }
}
