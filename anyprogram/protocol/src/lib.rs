//! What the preloaded library and the reception say to each other.
//!
//! The one idea: one connection carries one message, and at most one answer. So nothing is open in
//! the program while it does not wait, a fork inherits nothing, and the reception may be started
//! again at any time. Messages have a fixed size and are sent whole (`SOCK_SEQPACKET`).
//!
//! Invariants: every message begins with [`MAGIC`] and [`VERSION`]; what is of another length,
//! magic or version is none. Numbers are little-endian. Nothing is allocated.
#![no_std]
#![forbid(unsafe_code)]

mod latency;
mod message;

pub use latency::{BUCKETS, Latencies, bucket, bucket_end_us};
pub use message::{ANSWER_BYTES, Answer, FileKey, Kind, MESSAGE_BYTES, Message};

/// First bytes of every message and answer.
pub const MAGIC: [u8; 4] = *b"HLRC";

/// Version of the protocol. One that does not know the other's goes on without it.
pub const VERSION: u16 = 1;

/// Where the reception listens unless told otherwise.
pub const SOCKET_DEFAULT: &str = "/run/headlong/reception.sock";

/// Names of the environment variables by which `headlong run` tells the library what to do.
pub mod environment {
    /// Path of the reception's socket.
    pub const SOCKET: &str = "HEADLONG_SOCKET";
    /// `daemon` (the default), `prefetch` or `off`.
    pub const MODE: &str = "HEADLONG_MODE";
    /// Bytes that mode `prefetch` reads at a time.
    pub const PREFETCH: &str = "HEADLONG_PREFETCH_BYTES";
    /// Longest wait for the reception, milliseconds.
    pub const WAIT: &str = "HEADLONG_WAIT_MS";
    /// Smaller files are left alone, bytes.
    pub const FILE_MIN: &str = "HEADLONG_FILE_BYTES_MIN";
}

/// Most bytes that one message asks for or tells of.
pub const ASK_BYTES_MAX: u64 = 4 << 20;

/// What a reception has answered for stays in memory for so long at least, and is taken to be there
/// where nobody else can be asked, milliseconds.
pub const ANSWERED_MS: u64 = 500;
