//! Protocol between the preload library and the read-ahead daemon (the reception).
//!
//! One connection carries one message and at most one answer: no descriptor stays open in the
//! program between its calls, a fork inherits none, and the daemon may restart at any time.
//! Messages have a fixed size and are sent whole (`SOCK_SEQPACKET`).
//!
//! Invariants: every message starts with [`MAGIC`] and [`VERSION`]; anything of another length,
//! magic or version is rejected. Numbers are little-endian. Nothing is allocated.
#![no_std]
#![forbid(unsafe_code)]

mod latency;
mod message;

pub use latency::{BUCKETS, Latencies, bucket, bucket_end_us};
pub use message::{ANSWER_BYTES, Answer, FileKey, MESSAGE_BYTES, Message, MessageKind};

/// First bytes of every message and answer.
pub const MAGIC: [u8; 4] = *b"HLRC";

/// Version of the protocol. A peer with another version is ignored.
pub const VERSION: u16 = 1;

/// Default socket path of the daemon.
pub const SOCKET_DEFAULT: &str = "/run/headlong/reception.sock";

/// Environment variables by which `headlong run` configures the library.
pub mod environment {
    /// Path of the reception's socket.
    pub const SOCKET: &str = "HEADLONG_SOCKET";
    /// `daemon` (the default), `prefetch` or `off`.
    pub const MODE: &str = "HEADLONG_MODE";
    /// Bytes that mode `prefetch` reads at a time.
    pub const PREFETCH: &str = "HEADLONG_PREFETCH_BYTES";
    /// Longest wait for the reception, milliseconds.
    pub const WAIT: &str = "HEADLONG_WAIT_MS";
    /// Minimum file size, bytes; smaller files are ignored.
    pub const FILE_MIN: &str = "HEADLONG_FILE_BYTES_MIN";
}

/// Most bytes that one message requests or reports.
pub const REQUEST_BYTES_MAX: u64 = 4 << 20;

/// A range answered with `Ready` stays in memory for at least this long, milliseconds. The library
/// relies on it where it cannot query residency itself.
pub const ANSWERED_MS: u64 = 500;
