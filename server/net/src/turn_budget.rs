//! Turns: limits how much a connection may read before others are served.
//!
//! A connection that always has input would occupy its thread and delay every other connection on
//! it. After a limited number of bytes or frames a read therefore returns pending once: the
//! connection wakes itself and yields.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll};

/// Bytes of one turn; the last read may exceed it by its buffer.
const BYTES: u32 = 16 << 10;
/// HTTP/2 frames of one turn; the last read may exceed it by the frames it contains.
const FRAMES: u32 = 64;

/// Remaining allowance of a connection's turn. Only its own task changes it.
#[derive(Debug)]
pub(super) struct TurnBudget {
    bytes: AtomicU32,
    frames: AtomicU32,
}

impl TurnBudget {
    pub(super) fn new() -> Self {
        Self {
            bytes: AtomicU32::new(BYTES),
            frames: AtomicU32::new(FRAMES),
        }
    }

    pub(super) fn note_bytes(&self, bytes: usize) {
        spend(&self.bytes, u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    pub(super) fn note_frames(&self, frames: u32) {
        spend(&self.frames, frames);
    }

    /// Whether more may be read. If not, the turn ends: the task is woken and runs again after
    /// others.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if self.bytes.load(Relaxed) > 0 && self.frames.load(Relaxed) > 0 {
            return Poll::Ready(());
        }
        self.bytes.store(BYTES, Relaxed);
        self.frames.store(FRAMES, Relaxed);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

fn spend(left: &AtomicU32, count: u32) {
    left.store(left.load(Relaxed).saturating_sub(count), Relaxed);
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn turn_ends_after_its_bytes_or_frames_and_the_next_begins() {
        let cx = Context::from_waker(Waker::noop());
        let turn = TurnBudget::new();
        let mut reads = [0, 0];
        for (reads, spend) in reads.iter_mut().zip([
            &|turn: &TurnBudget| turn.note_bytes(1024),
            &|turn: &TurnBudget| turn.note_frames(8),
        ] as [&dyn Fn(&TurnBudget); 2])
        {
            while turn.poll(&cx).is_ready() {
                spend(&turn);
                *reads += 1;
            }
        }
        assert_eq!(reads, [16, 8]);
        assert!(turn.poll(&cx).is_ready());
    }
}
