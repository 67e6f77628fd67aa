//! How much may wait in a socket: little for most, more for who takes it at once.
//!
//! What waits in a socket is lost if the viewer leaves, so there is little of it
//! (`tcp.unsent_max`). The kernel wakes the sender each time half of that is gone, and for a fast
//! reader the wake-ups cost more than the bytes. Who took the last [`WINDOW_BYTES`] within
//! [`FAST_WITHIN`] may have [`FAST_UNSENT_BYTES`] waiting; that lasts such a reader for less than a
//! tenth of a second. Who then needs longer than [`SLOW_BEYOND`] is one of most again.

use tokio::time::{Duration, Instant};

/// So many bytes are timed at once.
const WINDOW_BYTES: u64 = 1 << 20;
/// 32 MiB a second.
const FAST_WITHIN: Duration = Duration::from_millis(32);
/// A quarter of that, so that nobody goes to and fro.
const SLOW_BEYOND: Duration = Duration::from_millis(128);
/// What may wait for a fast reader.
pub(super) const FAST_UNSENT_BYTES: u32 = 2 << 20;

/// How fast a reader takes what it is sent.
#[derive(Debug, Default)]
pub(super) struct Speed {
    began: Option<Instant>,
    bytes: u64,
    is_fast: bool,
}

impl Speed {
    /// The reader took so many bytes. Answers whether it is fast from now on, if that is new.
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
    fn who_takes_a_mebibyte_at_once_is_fast_until_one_takes_long() {
        let mut speed = Speed::default();
        let mut now = Instant::now();
        let mut take = |bytes: u64, after_ms: u64| {
            now += Duration::from_millis(after_ms);
            speed.took(now, bytes)
        };
        assert_eq!(take(64 << 10, 0), None);
        assert_eq!(
            take(WINDOW_BYTES, 100),
            None,
            "3 % of that speed is not fast"
        );
        assert_eq!(
            take(WINDOW_BYTES / 2, 10),
            None,
            "half of one says nothing yet"
        );
        assert_eq!(take(WINDOW_BYTES / 2, 10), Some(true));
        assert_eq!(
            take(WINDOW_BYTES, 100),
            None,
            "a little slower is fast still"
        );
        assert_eq!(take(WINDOW_BYTES, 200), Some(false));
    }
}
