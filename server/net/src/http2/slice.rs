//! Bytes of a reply in the HTTP/2 library's buffers.
//!
//! The library only receives as many bytes as the client's windows and the connection's buffer have
//! room for, so a stream that is not read holds no piece of memory there. A small part of a piece
//! is copied, since a reference would keep the whole piece.

use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::connection_buffer::ConnectionBuffer;
use crate::progress::ReplyProgress;

/// Shorter slices are copied.
const SHARED_BYTES_MIN: usize = 16 << 10;

/// Consecutive bytes handed to the library.
#[derive(Debug)]
pub(super) struct Slice<D: Buf> {
    source: SliceBytes<D>,
    at: usize,
    end: usize,
    progress: Arc<ReplyProgress>,
    buffered: Arc<ConnectionBuffer>,
}

#[derive(Debug)]
enum SliceBytes<D> {
    Shared(Arc<D>),
    Copied(Bytes),
}

impl<D: Buf> Slice<D> {
    /// No bytes.
    pub(super) fn empty(progress: &Arc<ReplyProgress>, buffered: &Arc<ConnectionBuffer>) -> Self {
        Self {
            source: SliceBytes::Copied(Bytes::new()),
            at: 0,
            end: 0,
            progress: Arc::clone(progress),
            buffered: Arc::clone(buffered),
        }
    }

    /// The bytes from `at` to `end` of data that consists of one chunk.
    pub(super) fn new(
        data: &Arc<D>,
        (at, end): (usize, usize),
        progress: &Arc<ReplyProgress>,
        buffered: &Arc<ConnectionBuffer>,
    ) -> Self {
        let bytes = end - at;
        progress.handed(bytes);
        buffered.add(bytes);
        let is_all = bytes == data.remaining();
        let (source, at, end) = match bytes < SHARED_BYTES_MIN && !is_all {
            true => {
                let copy = Bytes::copy_from_slice(&data.chunk()[at..end]);
                (SliceBytes::Copied(copy), 0, bytes)
            }
            false => (SliceBytes::Shared(Arc::clone(data)), at, end),
        };
        Self {
            source,
            at,
            end,
            progress: Arc::clone(progress),
            buffered: Arc::clone(buffered),
        }
    }
}

impl<D: Buf> Buf for Slice<D> {
    fn remaining(&self) -> usize {
        self.end - self.at
    }

    fn chunk(&self) -> &[u8] {
        let all = match &self.source {
            SliceBytes::Shared(data) => data.chunk(),
            SliceBytes::Copied(bytes) => bytes,
        };
        &all[self.at..self.end]
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining(), "beyond the end");
        self.at += count;
        self.progress.sent(count);
        self.buffered.remove(count);
    }
}

impl<D: Buf> Drop for Slice<D> {
    fn drop(&mut self) {
        let dropped = self.remaining();
        if dropped > 0 {
            self.progress.dropped(dropped);
            self.buffered.remove(dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::super::connection_buffer::{BUFFER_BYTES_MAX, BufferTurn};
    use super::*;

    #[test]
    fn slice_keeps_piece_only_if_it_is_large() {
        let (progress, buffered) = (Arc::default(), Arc::default());
        let data = Arc::new(Bytes::from(vec![7; 64 << 10]));
        let slice = |range| Slice::new(&data, range, &progress, &buffered);
        let (small, large) = (slice((0, 100)), slice((100, 64 << 10)));
        assert_eq!(Arc::strong_count(&data), 2);
        let whole = Arc::new(Bytes::from_static(b"short"));
        let all = Slice::new(&whole, (0, 5), &progress, &buffered);
        assert_eq!(
            Arc::strong_count(&whole),
            2,
            "a whole piece is shared, not copied"
        );
        assert_eq!(
            (small.chunk().len(), large.remaining(), all.chunk()),
            (100, 65_436, &b"short"[..])
        );
    }

    #[test]
    fn room_returns_when_bytes_leave_or_are_dropped() {
        let (progress, buffered) = (
            Arc::<ReplyProgress>::default(),
            Arc::<ConnectionBuffer>::default(),
        );
        let data = Arc::new(Bytes::from(vec![7; BUFFER_BYTES_MAX]));
        let mut slice = Slice::new(&data, (0, BUFFER_BYTES_MAX), &progress, &buffered);
        let cx = Context::from_waker(Waker::noop());
        let mut turn = BufferTurn::new(&buffered);
        assert_eq!(turn.poll_room(&cx), 0);
        slice.advance(1000);
        assert_eq!(turn.poll_room(&cx), 1000);
        assert!(!progress.has_left_all());
        drop(slice);
        assert_eq!(turn.poll_room(&cx), BUFFER_BYTES_MAX);
        assert!(progress.has_left_all());
        assert_eq!(progress.take_left(), 1000);
        assert_eq!(progress.take_left(), 0);
    }
}
