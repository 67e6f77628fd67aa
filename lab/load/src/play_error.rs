//! Reasons for not playing a trace.

use std::io;

use headlong_units::Duration;

/// Why a trace cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// It has no sessions.
    #[error("the trace has no sessions")]
    Empty,
    /// It refers to a missing object or class.
    #[error("session {session} of the trace (from 0): {reason}")]
    Trace {
        /// Number of the session.
        session: u64,
        /// The reason.
        reason: String,
    },
    /// The ramps are too long.
    #[error(
        "no session counts: the trace has {sessions} sessions within {length}; shorten the \
         ramps or use a longer trace"
    )]
    NothingCounts {
        /// From the first arrival to the last.
        length: Duration,
        /// Number of sessions.
        sessions: u64,
    },
    /// The machine does not permit the number of connections.
    #[error(
        "the trace needs at least {needed} concurrent connections, but there are {what} for \
         {limit}; {remedy}"
    )]
    TooMany {
        /// Connections needed.
        needed: u64,
        /// The scarce resource.
        what: &'static str,
        /// Connections for which it suffices.
        limit: u64,
        /// The remedy.
        remedy: &'static str,
    },
    /// A system call that every Linux supports failed.
    #[error("cannot wait for sockets: {0}")]
    Wait(#[from] io::Error),
}

impl PlayError {
    /// Whether the input is at fault, not the machine.
    pub const fn is_usage(&self) -> bool {
        !matches!(self, Self::Wait(_) | Self::TooMany { .. })
    }
}
