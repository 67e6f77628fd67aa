//! Listeners, TLS, limits and timeouts of connections.
//!
//! Everything a client can make the server hold (a connection, a header, memory for a slow socket)
//! has a limit in [`ConnectionLimits`]. Every connection passes through the same layers, from the
//! bottom up:
//!
//! ```text
//! socket -> TimedStream (turns, send timeout, clean close) -> TLS, if any -> http1 -> service
//!                                                                      or -> http2  -> service
//! ```
//!
//! On PROXY protocol listeners the PROXY header is read from the socket first.
//!
//! Invariants:
//! - a connection counts as open in [`ConnectionCounters`] exactly as long as its future lives;
//! - memory lent to a reply is released within `send_timeout` after its client stops taking bytes,
//!   over HTTP/1.1 (the socket is full) and HTTP/2 (the stream's window is closed) alike;
//! - after [`Shutdown`] begins to drain, every connection is closed within `drain_timeout`.
//!
//! Paths, ranges and devices are handled by the layers above. The service given to
//! [`serve_listener`] finds its connection in the request's extensions as `Arc<ConnectionInfo>`.

mod accept;
mod address;
mod address_limits;
mod certificate;
mod connection;
mod context;
mod counters;
mod flood_penalties;
mod head;
mod head_cache_service;
mod http1;
mod http2;
mod info;
mod limits;
mod listen;
mod peer_liveness;
mod port_use;
mod progress;
mod protocol_detection;
mod remote;
mod reply_body;
mod reply_stream;
mod reply_writer;
mod request_memory;
mod shutdown;
mod socket;
mod socket_buffer;
mod socket_file;
mod tcp;
mod threads;
mod timed_stream;
mod tls;
mod turn_budget;

pub use accept::{accept_reader, serve_listener};
pub use address::ListenAddress;
pub use address_limits::{AddressLimits, AddressShare, ShareLimit, Subscriber, holder};
pub use certificate::{
    CertificateFiles, CertificateValidity, TlsError, ValidityProblem, check_pair,
};
pub use connection::{ConnectionEnd, serve_connection};
pub use context::ListenerContext;
pub use counters::{ConnectionCounters, ConnectionCounts};
pub use head::{begin_head, head_text};
pub use head_cache_service::{CachedReply, HeadCacheService, RawHead, WithoutHeadCache};
pub use info::{ActiveRequest, ConnectionInfo};
pub use limits::ConnectionLimits;
#[cfg(test)]
pub(crate) use listen::bind_local;
pub use listen::{BindError, adopt, bind};
pub use port_use::{PortUse, family_trouble};
pub use remote::{Remote, TrustedProxies};
pub use reply_body::{HELD_PIECES_MAX, ReplyBytes};
pub use reply_stream::{ReplyBuf, ReplyStream};
pub use shutdown::{Shutdown, ShutdownTrigger, shutdown};
pub use socket::Listener;
pub use socket_file::is_socket;
pub use socket_file::{SocketFile, SocketFileError};
pub use tcp::TcpOptions;
pub use threads::{ConnectionThreads, ThreadResponsiveness};
pub use timed_stream::TimedStream;
pub use tls::{CertificateReload, Encryption, ReloadingCertificates};

/// Body of a request, which is never read.
pub type NoBody = http_body_util::Empty<bytes::Bytes>;

/// Error of a service or a body.
type BoxError = Box<dyn std::error::Error + Send + Sync>;
