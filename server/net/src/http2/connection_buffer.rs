//! Buffer between the streams and the socket of one connection: the bytes in it, and the order in
//! which streams add to it.
//!
//! Invariant: streams that found no room add in the order in which they came, one piece each. A
//! stream that is at the front of the queue has been woken if at least half of the buffer is free.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// Limit on bytes of replies in the buffer.
pub(super) const BUFFER_BYTES_MAX: usize = 256 << 10;

/// The buffer of one connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionBuffer(Mutex<BufferState>);

#[derive(Debug, Default)]
struct BufferState {
    bytes: usize,
    next_number: u64,
    /// Numbers of the streams that wait for room.
    queue: VecDeque<(u64, Waker)>,
}

impl BufferState {
    fn wake_front(&self) {
        if let Some((_, waker)) = self.queue.front() {
            waker.wake_by_ref();
        }
    }
}

impl ConnectionBuffer {
    /// `bytes` were handed to the library.
    pub(super) fn add(&self, bytes: usize) {
        self.lock().bytes += bytes;
    }

    /// `bytes` were sent or dropped.
    pub(super) fn remove(&self, bytes: usize) {
        let mut state = self.lock();
        state.bytes -= bytes;
        if state.bytes <= BUFFER_BYTES_MAX / 2 {
            state.wake_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BufferState> {
        // Nothing under the lock panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one stream in the queue of its connection.
#[derive(Debug)]
pub(super) struct BufferTurn {
    buffer: Arc<ConnectionBuffer>,
    number: u64,
    /// It was at the front of the queue, and has added nothing since.
    has_turn: bool,
}

impl BufferTurn {
    pub(super) fn new(buffer: &Arc<ConnectionBuffer>) -> Self {
        let mut state = buffer.lock();
        state.next_number += 1;
        Self {
            buffer: Arc::clone(buffer),
            number: state.next_number,
            has_turn: false,
        }
    }

    /// Bytes that the stream may add now; if zero, it waits in the queue and is woken.
    pub(super) fn poll_room(&mut self, cx: &Context<'_>) -> usize {
        let mut state = self.buffer.lock();
        let room = BUFFER_BYTES_MAX.saturating_sub(state.bytes);
        if self.has_turn && room > 0 {
            return room;
        }
        self.has_turn = false;
        let numbers = state.queue.iter().map(|(number, _)| *number);
        match numbers.clone().position(|number| number == self.number) {
            Some(0) if room > 0 => {
                state.queue.pop_front();
                self.has_turn = true;
                // The next stream takes the room that this one leaves.
                state.wake_front();
                room
            }
            None if room > 0 && state.queue.is_empty() => room,
            Some(place) => {
                state.queue[place].1.clone_from(cx.waker());
                0
            }
            None => {
                state.queue.push_back((self.number, cx.waker().clone()));
                0
            }
        }
    }

    /// The stream has added a piece, or has nothing to add for now: its turn ends.
    pub(super) fn end(&mut self) {
        self.has_turn = false;
        let mut state = self.buffer.lock();
        let mut numbers = state.queue.iter().map(|(number, _)| *number);
        let Some(place) = numbers.position(|number| number == self.number) else {
            return;
        };
        state.queue.remove(place);
        if place == 0 {
            state.wake_front();
        }
    }
}

impl Drop for BufferTurn {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::progress::tests::WakeCount;

    #[test]
    fn streams_that_wait_add_in_turn() {
        let buffer = Arc::<ConnectionBuffer>::default();
        let [mut a, mut b, mut c] = [(); 3].map(|()| BufferTurn::new(&buffer));
        let wakes = [(); 3].map(|()| Arc::<WakeCount>::default());
        let wakers = wakes.clone().map(Waker::from);
        let [of_a, of_b, of_c] = wakers.each_ref().map(Context::from_waker);
        let woken = || wakes.each_ref().map(|count| count.0.swap(0, Relaxed));
        assert_eq!(a.poll_room(&of_a), BUFFER_BYTES_MAX);
        buffer.add(BUFFER_BYTES_MAX);
        for (turn, cx) in [(&mut b, &of_b), (&mut c, &of_c), (&mut a, &of_a)] {
            assert_eq!(turn.poll_room(cx), 0);
        }
        buffer.remove(1000);
        assert_eq!(a.poll_room(&of_a), 0, "the others are first");
        assert_eq!(woken(), [0; 3], "less than half is free");
        buffer.remove(BUFFER_BYTES_MAX / 2);
        assert_eq!(woken(), [0, 1, 0]);
        assert_eq!(b.poll_room(&of_b), BUFFER_BYTES_MAX / 2 + 1000);
        assert_eq!(woken(), [0, 0, 1]);
        assert!(b.poll_room(&of_b) > 0, "it has added nothing yet");
        b.end();
        assert_eq!(b.poll_room(&of_b), 0, "it has had its turn");
        drop(c);
        assert_eq!(
            woken(),
            [1, 0, 0],
            "a stream that ended keeps no other waiting"
        );
        a.end();
        assert_eq!(woken(), [0, 1, 0]);
        assert_eq!(b.poll_room(&of_b), BUFFER_BYTES_MAX / 2 + 1000);
        assert!(buffer.lock().queue.is_empty());
    }
}
