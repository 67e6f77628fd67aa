//! Bodies of replies that a slow reader does not keep memory with.

use std::pin::Pin;

use bytes::Bytes;
use http_body::Body;
use http_body_util::Full;

/// A body that is told what became of its bytes.
pub trait ReplyBytes: Body {
    /// So many of the bytes that it gave have left for the reader.
    fn note_left(self: Pin<&mut Self>, _bytes: u64) {}

    /// Nothing is wanted for a while: it releases the memory that it holds. The last `unsent_bytes`
    /// that it gave were dropped, and come again when it is polled.
    ///
    /// Returns false, and has done nothing, if it holds no memory that others wait for.
    fn suspend(self: Pin<&mut Self>, _unsent_bytes: u64) -> bool {
        false
    }
}

impl ReplyBytes for Full<Bytes> {}
