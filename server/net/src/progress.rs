//! Progress of a reply's bytes through the protocol library.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

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
        self.left_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// `bytes` were dropped.
    pub(super) fn dropped(&self, bytes: usize) {
        self.dropped_bytes.fetch_add(bytes as u64, Relaxed);
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
        self.left_bytes.load(Relaxed) + self.dropped_bytes.load(Relaxed)
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
