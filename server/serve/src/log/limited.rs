//! Log lines that clients can bring about: at most one a minute of each kind.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two lines of one kind.
const INTERVAL: Duration = Duration::from_secs(60);

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedKind {
    /// Connections cannot be accepted.
    Accept,
    /// All connections are in use.
    ConnectionsMax,
    /// An address has as many connections as it may.
    AddressConnections,
    /// An address has as many requests, or as much memory, as it may.
    AddressRequests,
    /// All memory for requests in progress is in use.
    RequestMemory,
    /// The PROXY protocol was not spoken.
    Proxy,
    /// A connection floods.
    Flood,
    /// The server of `auth_url` does not answer.
    Access,
    /// A file cannot be looked up.
    Lookup,
    /// A file may not be read.
    Forbidden,
}

const KINDS: usize = LimitedKind::Forbidden as usize + 1;

/// When a line of each kind was last written, and how many were left out since.
#[derive(Debug, Default)]
pub struct LimitedLog([Mutex<Line>; KINDS]);

#[derive(Debug, Default)]
struct Line {
    written: Option<Instant>,
    left_out: u64,
}

impl LimitedLog {
    /// Writes a line unless one of its kind was written less than a minute ago. The writer is given
    /// the number of lines left out before it.
    pub fn write(&self, kind: LimitedKind, write: impl FnOnce(u64)) {
        if let Some(left_out) = self.permit(kind, Instant::now()) {
            write(left_out);
        }
    }

    fn permit(&self, kind: LimitedKind, now: Instant) -> Option<u64> {
        let line = &self.0[kind as usize];
        let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
        if line
            .written
            .is_some_and(|written| now.duration_since(written) < INTERVAL)
        {
            line.left_out += 1;
            return None;
        }
        line.written = Some(now);
        Some(std::mem::take(&mut line.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_of_each_kind_says_how_many_were_left_out() {
        let log = LimitedLog::default();
        let begun = Instant::now();
        let permit = |kind, second| log.permit(kind, begun + Duration::from_secs(second));
        assert_eq!(permit(LimitedKind::Flood, 0), Some(0));
        for second in 1..60 {
            assert_eq!(permit(LimitedKind::Flood, second), None);
        }
        assert_eq!(permit(LimitedKind::Proxy, 30), Some(0), "of another kind");
        assert_eq!(permit(LimitedKind::Flood, 60), Some(59));
        assert_eq!(permit(LimitedKind::Flood, 120), Some(0));
    }
}
