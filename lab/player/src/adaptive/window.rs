//! The segments in the buffer: all up to the first missing one, and some after it.

/// Segments after the first missing one that are tracked individually and so may be requested
/// early.
pub(crate) const WINDOW: u32 = 64;

/// The received segments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedSegments {
    end: u32,
    /// Bit `n`: segment `end + n` has been received. Bit 0 is never set.
    behind: u64,
}

impl ReceivedSegments {
    /// An empty buffer whose first missing segment is `segment`.
    pub(crate) const fn starting_at(segment: u32) -> Self {
        Self {
            end: segment,
            behind: 0,
        }
    }

    /// The first missing segment.
    pub(crate) const fn end(&self) -> u32 {
        self.end
    }

    pub(crate) const fn has(&self, segment: u32) -> bool {
        if segment < self.end {
            return true;
        }
        let place = segment - self.end;
        place < WINDOW && self.behind >> place & 1 == 1
    }

    pub(crate) fn put(&mut self, segment: u32) {
        let Some(place) = segment
            .checked_sub(self.end)
            .filter(|place| *place < WINDOW)
        else {
            return;
        };
        self.behind |= 1 << place;
        let whole = self.behind.trailing_ones();
        self.end += whole;
        self.behind = self.behind.checked_shr(whole).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_segments_wait_for_missing_one() {
        let mut window = ReceivedSegments::starting_at(10);
        window.put(12);
        window.put(11);
        assert_eq!(
            (window.end(), window.has(11), window.has(10)),
            (10, true, false)
        );
        window.put(10);
        assert_eq!(
            (window.end(), window.has(12), window.has(13)),
            (13, true, false)
        );
    }

    #[test]
    fn full_window_advances_at_once() {
        let mut window = ReceivedSegments::starting_at(0);
        (1..WINDOW).for_each(|segment| window.put(segment));
        window.put(WINDOW + 5);
        window.put(0);
        assert_eq!(window.end(), WINDOW);
        assert!(!window.has(WINDOW + 5));
    }
}
