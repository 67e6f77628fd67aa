//! Socket buffer size by reader speed.
//!
//! Bytes that wait in a socket are lost if the viewer leaves, so the limit is small
//! ([`super::tcp::UNSENT_BYTES_MAX`]). The kernel wakes the sender each time half of it is sent, and for a fast
//! reader these wake-ups cost more than the bytes. A reader that took the last [`WINDOW_BYTES`]
//! within [`FAST_WITHIN`] therefore gets [`FAST_UNSENT_BYTES`], which it takes in less than a tenth
//! of a second. It is slow again once a window takes longer than [`SLOW_BEYOND`].

use tokio::time::{Duration, Instant};

/// Bytes that are timed together.
const WINDOW_BYTES: u64 = 1 << 20;
/// 32 MiB/s.
const FAST_WITHIN: Duration = Duration::from_millis(32);
/// A quarter of that speed; the hysteresis prevents flapping.
const SLOW_BEYOND: Duration = Duration::from_millis(128);
/// Limit on unsent bytes of a fast reader.
pub(super) const FAST_UNSENT_BYTES: u32 = 2 << 20;

/// Measures how fast a reader takes its bytes.
#[derive(Debug, Default)]
pub(super) struct ReaderSpeed {
    began: Option<Instant>,
    bytes: u64,
    is_fast: bool,
}

impl ReaderSpeed {
    /// The reader took `bytes`. Returns whether it is fast, if that changed.
    pub(super) fn took(&mut self, now: Instant, bytes: u64) -> Option<bool> {
        let began = *self.began.get_or_insert(now);
        self.bytes += bytes;
        if self.bytes < WINDOW_BYTES {
            return None;
        }
        let lasted = now.duration_since(began);
        (self.began, self.bytes) = (Some(now), 0);
        let is_fast = match self.is_fast {
            true => lasted <= SLOW_BEYOND,
            false => lasted <= FAST_WITHIN,
        };
        let is_new = is_fast != self.is_fast;
        self.is_fast = is_fast;
        is_new.then_some(is_fast)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_is_fast_until_a_window_takes_long() {
        let mut speed = ReaderSpeed::default();
        let mut now = Instant::now();
        let mut take = |bytes: u64, after_ms: u64| {
            now += Duration::from_millis(after_ms);
            speed.took(now, bytes)
        };
        assert_eq!(take(64 << 10, 0), None);
        assert_eq!(take(WINDOW_BYTES, 100), None, "3 % of that speed is slow");
        assert_eq!(
            take(WINDOW_BYTES / 2, 10),
            None,
            "half a window does not decide"
        );
        assert_eq!(take(WINDOW_BYTES / 2, 10), Some(true));
        assert_eq!(
            take(WINDOW_BYTES, 100),
            None,
            "a little slower is still fast"
        );
        assert_eq!(take(WINDOW_BYTES, 200), Some(false));
    }
}
