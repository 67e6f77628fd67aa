//! One viewer's network link: free space of the socket, and arrival times of bytes.
//!
//! Bytes leave in order at a fixed rate, so the departure and arrival times of a piece are known as
//! soon as the socket receives it, without further events. The socket buffers a bounded number of
//! unsent bytes, as with `TCP_NOTSENT_LOWAT`. The round trip never limits the rate, and there is no
//! slow start.

use std::collections::VecDeque;

use headlong_units::{BitRate, Duration, Instant};

/// The path from the server's socket to the viewer.
#[derive(Debug)]
pub(crate) struct Link {
    bandwidth: Option<BitRate>,
    delay: Duration,
    /// Unsent bytes that the socket accepts.
    socket_bytes: u64,
    /// Bytes given to the socket so far.
    given: u64,
    /// When the last byte given so far will have left.
    free_at: Instant,
    /// Pieces that were given and may not have left, oldest first.
    leaving: VecDeque<UnsentRange>,
}

#[derive(Debug, Clone, Copy)]
struct UnsentRange {
    from: u64,
    to: u64,
    starts: Instant,
}

/// Times of a piece on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PieceTimes {
    /// When the socket has accepted all of the piece and its memory is free.
    pub(crate) taken: Instant,
    /// When the last byte arrives.
    pub(crate) arrived: Instant,
}

impl Link {
    pub(crate) fn new(bandwidth: Option<BitRate>, delay: Duration, socket_bytes: u64) -> Self {
        Self {
            bandwidth,
            delay,
            socket_bytes,
            given: 0,
            free_at: Instant::ZERO,
            leaving: VecDeque::new(),
        }
    }

    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    /// Gives the next `bytes` to the socket.
    pub(crate) fn give(&mut self, now: Instant, bytes: u64) -> PieceTimes {
        let starts = self.free_at.max(now);
        let (from, to) = (self.given, self.given + bytes);
        self.given = to;
        self.free_at = starts + self.time_for(bytes);
        self.leaving.push_back(UnsentRange { from, to, starts });
        PieceTimes {
            taken: self.left(to.saturating_sub(self.socket_bytes)).max(now),
            arrived: self.free_at + self.delay,
        }
    }

    /// When the first `mark` bytes will have left. Calls must use non-decreasing marks.
    fn left(&mut self, mark: u64) -> Instant {
        while self.leaving.front().is_some_and(|first| first.to < mark) {
            self.leaving.pop_front();
        }
        let Some(first) = self.leaving.front() else {
            return self.free_at;
        };
        first.starts + self.time_for(mark.saturating_sub(first.from))
    }

    /// When the socket becomes writable again: unsent bytes are down to two thirds of the buffer,
    /// as in the kernel.
    pub(crate) fn writable_at(&self) -> Instant {
        let mark = self.given.saturating_sub(self.socket_bytes / 3 * 2);
        let part = self.leaving.iter().find(|part| part.to >= mark);
        part.map_or(self.free_at, |part| {
            part.starts + self.time_for(mark.saturating_sub(part.from))
        })
    }

    /// Bytes given in excess of the socket's buffer.
    pub(crate) fn excess_bytes(&self, now: Instant) -> u64 {
        let unsent = self
            .bandwidth
            .map_or(0, |rate| rate.bytes_in(self.free_at.since(now)));
        unsent.saturating_sub(self.socket_bytes)
    }

    fn time_for(&self, bytes: u64) -> Duration {
        self.bandwidth
            .map_or(Duration::ZERO, |rate| rate.time_for(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(50);

    fn at(milliseconds: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(milliseconds)
    }

    #[test]
    fn pieces_arrive_in_order_at_link_rate() {
        // 1,000 bytes a second.
        let mut link = Link::new(Some(BitRate(8_000)), DELAY, 0);
        let first = link.give(at(0), 500);
        let second = link.give(at(100), 500);
        assert_eq!((first.taken, first.arrived), (at(500), at(550)));
        assert_eq!((second.taken, second.arrived), (at(1000), at(1050)));
        assert_eq!(link.give(at(2000), 100).arrived, at(2150));
    }

    #[test]
    fn socket_takes_up_to_its_buffer_at_once() {
        let mut link = Link::new(Some(BitRate(8_000)), DELAY, 700);
        assert_eq!(link.give(at(0), 500).taken, at(0));
        assert_eq!(link.give(at(0), 500).taken, at(300));
        assert_eq!(link.give(at(0), 500).taken, at(800));
    }

    #[test]
    fn unlimited_link_delivers_after_delay() {
        let mut link = Link::new(None, DELAY, 0);
        let journey = link.give(at(7), 1 << 30);
        assert_eq!((journey.taken, journey.arrived), (at(7), at(57)));
    }
}
