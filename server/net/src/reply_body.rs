//! Reply bodies that can release memory while their client is slow.

use std::pin::Pin;

use bytes::Bytes;
use http_body::Body;
use http_body_util::Full;

/// Most pieces of one body that a connection holds unsent.
pub const HELD_PIECES_MAX: usize = 64;

/// A body that is notified about its bytes.
pub trait ReplyBytes: Body {
    /// `bytes` of the data it yielded were sent to the client.
    fn note_left(self: Pin<&mut Self>, _bytes: u64) {}

    /// Whether it holds memory that others lack, because clients do not read their replies.
    fn holds_scarce_memory(&self) -> bool {
        false
    }

    /// No bytes are needed for a while: the body releases its memory. The last `unsent_bytes` that
    /// it yielded were dropped; it yields them again when it is polled. They are parts of the last
    /// [`HELD_PIECES_MAX`] pieces.
    ///
    /// Returns false, and changes nothing, if it holds no memory that others could use.
    fn suspend(self: Pin<&mut Self>, _unsent_bytes: u64) -> bool {
        false
    }
}

impl ReplyBytes for Full<Bytes> {}
