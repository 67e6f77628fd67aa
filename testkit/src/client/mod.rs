//! Clients for tests: raw requests, viewers that read at their own pace and verify every byte, and
//! TLS with HTTP/2.
//!
//! A reply that ends before its announced length is an error ([`ClientError::CutShort`]), never a
//! short body: many tests depend on this distinction.

mod connection;
mod head;
mod secure;
mod viewer;

pub use connection::{Connection, fetch, request_text};
pub use head::{ByteRangePart, Head, Response};
pub use secure::{SecureClient, Version};
pub use viewer::{Asking, Viewer, ViewerReport};

/// Why a reply was not received completely.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Connecting failed.
    #[error("cannot connect: {0}")]
    Connect(std::io::Error),
    /// The server closed the connection before a status line.
    #[error("closed before any reply")]
    Closed,
    /// The connection was reset or failed.
    #[error("connection failed: {0}")]
    Io(std::io::Error),
    /// No bytes arrived within the client's timeout.
    #[error("no bytes for too long")]
    TimedOut,
    /// The reply ended before its announced length.
    #[error("reply {status} ended after {received_bytes} bytes: {cause}")]
    CutShort {
        /// Status of the reply.
        status: u16,
        /// Bytes of the body that arrived.
        received_bytes: u64,
        /// How the connection ended.
        cause: std::io::Error,
    },
    /// The bytes are not a valid reply.
    #[error("not a reply: {0}")]
    Malformed(String),
    /// A byte of the body differs from the file.
    #[error("wrong content: {0}")]
    Wrong(crate::pattern::Mismatch),
    /// The reply has an unexpected status or range.
    #[error("unexpected reply: {0}")]
    Unexpected(String),
}

impl ClientError {
    /// Whether the other side ended the connection or the reply.
    pub fn is_cut(&self) -> bool {
        matches!(self, Self::Closed | Self::Io(_) | Self::CutShort { .. })
    }
}

impl From<std::io::Error> for ClientError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => Self::TimedOut,
            _ => Self::Io(error),
        }
    }
}
