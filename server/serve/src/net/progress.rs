//! How far a reply's bytes have been taken by the protocol below.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use super::limits::Limits;

/// Bytes of one reply that were handed to the protocol, and those that it has taken.
#[derive(Debug, Default)]
pub(super) struct ReplyProgress {
    handed_bytes: AtomicU64,
    taken_bytes: AtomicU64,
    mark: Mutex<Option<Mark>>,
}

/// When progress was last sufficient, and what had been taken by then.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    taken_bytes: u64,
}

impl ReplyProgress {
    /// So many bytes were handed down.
    pub(super) fn handed(&self, bytes: usize) {
        self.handed_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// So many of them were taken, or dropped.
    pub(super) fn taken(&self, bytes: usize) {
        self.taken_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Whether bytes have waited for `send_timeout` while fewer than `send_bytes_min` were taken.
    pub(super) fn is_stalled(&self, now: Instant, limits: &Limits) -> bool {
        let taken_bytes = self.taken_bytes.load(Relaxed);
        let is_waiting = taken_bytes < self.handed_bytes.load(Relaxed);
        let mut slot = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = slot.get_or_insert(Mark {
            at: now,
            taken_bytes,
        });
        if !is_waiting || taken_bytes - mark.taken_bytes >= limits.send_bytes_min {
            *mark = Mark {
                at: now,
                taken_bytes,
            };
        }
        now.duration_since(mark.at) >= limits.send_timeout
    }
}
