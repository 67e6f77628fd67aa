//! A call that waits for an answer.

use std::os::fd::OwnedFd;
use std::time::Instant;

use headlong_protocol::Answer;
use rustix::net::{SendFlags, send};

use crate::clients::Seat;

/// The connection of a call that waits. Dropping it lets the program go on, too.
#[derive(Debug)]
pub(crate) struct Answering {
    connection: OwnedFd,
    since: Instant,
    /// Kept while it waits.
    _seat: Seat,
}

impl Answering {
    pub(crate) fn new(connection: OwnedFd, seat: Seat) -> Self {
        Self {
            connection,
            since: Instant::now(),
            _seat: seat,
        }
    }

    /// Says it; how long the program waited, in nanoseconds.
    pub(crate) fn answer(self, answer: Answer) -> u64 {
        say(&self.connection, answer);
        u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Says it to somebody who has no seat. Who is not there any more does not hear it.
pub(crate) fn say(connection: &OwnedFd, answer: Answer) {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = send(connection, &answer.encode(), flags);
}
