//! Facts from the headers of one media file: its duration, and how long it should be.

use headlong_units::{BitRate, Duration};

/// Plausible bit rates of a film. A header with any other value is ignored.
const RATE_MIN: BitRate = BitRate(100);
const RATE_MAX: BitRate = BitRate::from_kbps(2_000_000);

/// Facts from the headers of the whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeaderFacts {
    /// Duration; zero if the headers do not contain it.
    pub duration: Duration,
    /// Whether the duration is estimated from the first fragments, because no header has it.
    pub is_estimated: bool,
    /// End of the file by its headers: for MP4, by the boxes from `moov` to the first media box
    /// after it. Larger than the file if it was truncated or is still being copied; zero if no
    /// header gives it.
    pub end_declared: u64,
}

impl HeaderFacts {
    /// The bytes of the file over its duration; for a truncated file, the bytes that it should
    /// have. `None` if that is not a plausible rate.
    pub fn bit_rate(&self, size_bytes: u64) -> Option<BitRate> {
        let whole_bytes = size_bytes.max(self.end_declared);
        BitRate::from_transfer(whole_bytes, self.duration)
            .filter(|rate| (RATE_MIN..=RATE_MAX).contains(rate))
    }

    /// Whether a file of `size_bytes` lacks some of its media.
    pub fn is_cut(&self, size_bytes: u64) -> bool {
        self.end_declared > size_bytes
    }
}
