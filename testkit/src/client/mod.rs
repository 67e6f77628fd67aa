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
#[derive(Debug)]
pub enum ClientError {
    /// Connecting failed.
    Connect(std::io::Error),
    /// The server closed the connection before a status line.
    Closed,
    /// The connection was reset or failed.
    Io(std::io::Error),
    /// No bytes arrived within the client's timeout.
    TimedOut,
    /// The reply ended before its announced length.
    CutShort {
        /// Status of the reply.
        status: u16,
        /// Bytes of the body that arrived.
        received_bytes: u64,
        /// How the connection ended.
        cause: std::io::Error,
    },
    /// The bytes are not a valid reply.
    Malformed(String),
    /// A byte of the body differs from the file.
    Wrong(crate::pattern::Mismatch),
    /// The reply has an unexpected status or range.
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
