//! Why a trace is not played at all.

use std::io;

use headlong_units::Duration;

/// Why a trace cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// It has no sessions.
    #[error("the trace has no sessions")]
    Empty,
    /// It names what is not there.
    #[error("session {session} of the trace (from 0): {reason}")]
    Trace {
        /// Which session.
        session: u64,
        /// What is wrong.
        reason: String,
    },
    /// The ramps are too long.
    #[error(
        "no session counts: the trace has {sessions} sessions within {length}; make the ramps \
         shorter or the trace longer"
    )]
    NothingCounts {
        /// From the first arrival to the last.
        length: Duration,
        /// How many there are.
        sessions: u64,
    },
    /// The machine does not allow so many connections.
    #[error(
        "the trace needs {needed} connections at a time at least, and there are {what} for {limit}; \
         {remedy}"
    )]
    TooMany {
        /// So many.
        needed: u64,
        /// Of what there are too few.
        what: &'static str,
        /// For so many they are enough.
        limit: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// The system does not do what every Linux does.
    #[error("cannot wait for sockets: {0}")]
    Wait(#[from] io::Error),
}

impl PlayError {
    /// Whether the mistake is in what was asked for, and not in the machine.
    pub const fn is_usage(&self) -> bool {
        !matches!(self, Self::Wait(_) | Self::TooMany { .. })
    }
}
