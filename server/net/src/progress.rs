//! Progress of a reply's bytes through the protocol library.
//!
//! The library may send or drop bytes in another task than the reply's. A waiting reply stores its
//! mark and then reads the count; the library adds to the count and then reads the mark. Both use
//! `SeqCst`, so at least one of them reads the other's change, and no wake-up is lost.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Mutex, PoisonError};
use std::task::Context;

use futures_util::task::AtomicWaker;
use tokio::time::Instant;

use super::limits::ConnectionLimits;

/// Bytes of one reply: handed to the protocol library, sent by it, dropped by it.
#[derive(Debug, Default)]
pub(super) struct ReplyProgress {
    handed_bytes: AtomicU64,
    left_bytes: AtomicU64,
    dropped_bytes: AtomicU64,
    /// Sent bytes that were already reported to the reply.
    told_bytes: AtomicU64,
    /// More data is ready, but the client's window or the connection's buffer is full.
    lacks_room: AtomicBool,
    /// The reply is woken when this many of its bytes were sent or dropped.
    wake_at_bytes: AtomicU64,
    waker: AtomicWaker,
    mark: Mutex<Option<ProgressMark>>,
}

/// When progress was last sufficient, and the bytes taken by then.
#[derive(Debug, Clone, Copy)]
struct ProgressMark {
    at: Instant,
    taken_bytes: u64,
}

impl ReplyProgress {
    /// `bytes` were handed to the library.
    pub(super) fn handed(&self, bytes: usize) {
        self.handed_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// `bytes` were sent.
    pub(super) fn sent(&self, bytes: usize) {
        self.left_bytes.fetch_add(bytes as u64, SeqCst);
        self.wake_if_due();
    }

    /// `bytes` were dropped.
    pub(super) fn dropped(&self, bytes: usize) {
        self.dropped_bytes.fetch_add(bytes as u64, SeqCst);
        self.wake_if_due();
    }

    /// Wakes the task when half of the bytes that the library holds of this reply have been sent or
    /// dropped, whatever it holds of others.
    pub(super) fn wait(&self, cx: &Context<'_>) {
        let (taken_bytes, handed_bytes) = (self.taken_bytes(), self.handed_bytes.load(Relaxed));
        if taken_bytes == handed_bytes {
            return;
        }
        self.waker.register(cx.waker());
        let half = (handed_bytes - taken_bytes).div_ceil(2);
        self.wake_at_bytes.store(taken_bytes + half, SeqCst);
        // Bytes may have been sent meanwhile.
        self.wake_if_due();
    }

    fn wake_if_due(&self) {
        let wake_at_bytes = self.wake_at_bytes.load(SeqCst);
        if wake_at_bytes > 0 && self.taken_bytes() >= wake_at_bytes {
            // A mark set meanwhile may be lost: the reply that set it is woken now and waits again.
            self.wake_at_bytes.store(0, SeqCst);
            self.waker.wake();
        }
    }

    /// Sets whether the reply waits for room.
    pub(super) fn set_lacks_room(&self, lacks: bool) {
        self.lacks_room.store(lacks, Relaxed);
    }

    /// Bytes sent since the last call.
    pub(super) fn take_left(&self) -> u64 {
        let left = self.left_bytes.load(Relaxed);
        left - self.told_bytes.swap(left, Relaxed)
    }

    /// Whether the library holds none of its bytes.
    pub(super) fn has_left_all(&self) -> bool {
        self.taken_bytes() == self.handed_bytes.load(Relaxed)
    }

    fn taken_bytes(&self) -> u64 {
        self.left_bytes.load(SeqCst) + self.dropped_bytes.load(SeqCst)
    }

    /// Whether bytes have waited for `send_timeout` while fewer than `send_bytes_min` were taken.
    pub(super) fn is_stalled(&self, now: Instant, limits: &ConnectionLimits) -> bool {
        let taken_bytes = self.taken_bytes();
        let is_waiting = !self.has_left_all() || self.lacks_room.load(Relaxed);
        let mut slot = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = slot.get_or_insert(ProgressMark {
            at: now,
            taken_bytes,
        });
        if !is_waiting || taken_bytes - mark.taken_bytes >= limits.send_bytes_min {
            *mark = ProgressMark {
                at: now,
                taken_bytes,
            };
        }
        now.duration_since(mark.at) >= limits.send_timeout
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Wake, Waker};

    use super::*;

    /// Counts how often it was woken.
    #[derive(Default)]
    pub(crate) struct WakeCount(pub(crate) AtomicUsize);

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn reply_is_woken_when_half_of_its_bytes_have_left() {
        let (progress, wakes) = (ReplyProgress::default(), Arc::<WakeCount>::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let cx = Context::from_waker(&waker);
        let woken = || wakes.0.swap(0, Relaxed);
        progress.wait(&cx);
        assert_eq!(woken(), 0, "nothing can leave");
        progress.handed(1000);
        progress.wait(&cx);
        progress.sent(499);
        assert_eq!(woken(), 0);
        progress.sent(1);
        progress.sent(1);
        assert_eq!(woken(), 1);
        progress.wait(&cx);
        progress.dropped(499);
        assert_eq!(woken(), 1);
        assert!(progress.has_left_all());
    }
}
