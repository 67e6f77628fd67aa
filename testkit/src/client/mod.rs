//! Clients for tests: requests written byte by byte, viewers that read at their own pace and check
//! every byte, and TLS with HTTP/2.
//!
//! A reply that ends before its announced length is an error here ([`ClientError::CutShort`]), never
//! a short body: the difference between the two is what many tests are about.

mod connection;
mod head;
mod secure;
mod viewer;

pub use connection::{Connection, fetch, request_text};
pub use head::{ByteRangePart, Head, Response};
pub use secure::{SecureClient, Version};
pub use viewer::{Asking, Viewer, ViewerReport};

/// Why a reply did not arrive whole.
#[derive(Debug)]
pub enum ClientError {
    /// The connection could not be made.
    Connect(std::io::Error),
    /// The server closed the connection before a status line.
    Closed,
    /// The connection was reset or failed.
    Io(std::io::Error),
    /// Nothing came for longer than the client's patience.
    TimedOut,
    /// The reply ended before its announced length.
    CutShort {
        /// Status that had been promised.
        status: u16,
        /// Bytes of body that came.
        received_bytes: u64,
        /// What ended it.
        cause: std::io::Error,
    },
    /// The bytes were not a reply.
    Malformed(String),
    /// A byte of the body is not what the file holds.
    Wrong(crate::pattern::Mismatch),
    /// The reply is not what was asked for: another status or range.
    Unexpected(String),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "cannot connect: {error}"),
            Self::Closed => f.write_str("closed before any reply"),
            Self::Io(error) => write!(f, "connection failed: {error}"),
            Self::TimedOut => f.write_str("no bytes for too long"),
            Self::CutShort {
                status,
                received_bytes,
                cause,
            } => {
                write!(
                    f,
                    "reply {status} ended after {received_bytes} bytes: {cause}"
                )
            }
            Self::Malformed(what) => write!(f, "not a reply: {what}"),
            Self::Wrong(mismatch) => write!(f, "wrong content: {mismatch}"),
            Self::Unexpected(what) => write!(f, "unexpected reply: {what}"),
        }
    }
}

impl std::error::Error for ClientError {}

impl ClientError {
    /// Whether the connection or the reply was ended from the other side.
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
