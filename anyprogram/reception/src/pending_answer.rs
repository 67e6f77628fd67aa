//! The pending answer of a waiting call.

use std::os::fd::OwnedFd;
use std::time::Instant;

use headlong_protocol::Answer;
use rustix::net::{SendFlags, send};

use crate::clients::CallPermit;

/// The connection of a waiting call. Dropping it lets the program continue without an answer.
#[derive(Debug)]
pub(crate) struct PendingAnswer {
    connection: OwnedFd,
    since: Instant,
    /// Held while the call waits.
    _seat: CallPermit,
}

impl PendingAnswer {
    pub(crate) fn new(connection: OwnedFd, seat: CallPermit) -> Self {
        Self {
            connection,
            since: Instant::now(),
            _seat: seat,
        }
    }

    /// Sends the answer; returns how long the program waited, in nanoseconds.
    pub(crate) fn answer(self, answer: Answer) -> u64 {
        send_answer(&self.connection, answer);
        u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Sends an answer on a connection without a seat. A closed connection is ignored.
pub(crate) fn send_answer(connection: &OwnedFd, answer: Answer) {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = send(connection, &answer.encode(), flags);
}
