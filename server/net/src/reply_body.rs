//! Reply bodies that can release memory while their client is slow.

use std::pin::Pin;

use bytes::Bytes;
use http_body::Body;
use http_body_util::Full;

/// A body that is notified about its bytes.
pub trait ReplyBytes: Body {
    /// `bytes` of the data it yielded were sent to the client.
    fn note_left(self: Pin<&mut Self>, _bytes: u64) {}

    /// No bytes are needed for a while: the body releases its memory. The last `unsent_bytes` that
    /// it yielded were dropped; it yields them again when it is polled.
    ///
    /// Returns false, and changes nothing, if it holds no memory that others could use.
    fn suspend(self: Pin<&mut Self>, _unsent_bytes: u64) -> bool {
        false
    }
}

impl ReplyBytes for Full<Bytes> {}
