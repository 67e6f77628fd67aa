//! Rate limit for log lines that clients can cause: one a minute of each kind.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Least interval between lines of one kind.
const INTERVAL: Duration = Duration::from_secs(60);

/// Kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedKind {
    /// Accepting connections fails.
    Accept,
    /// The connection limit is reached.
    ConnectionsMax,
    /// An address is at its connection limit.
    AddressConnections,
    /// An address is at its limit of requests or request memory.
    AddressRequests,
    /// Memory for requests in progress is used up.
    RequestMemory,
    /// A proxy connection was refused.
    Proxy,
    /// A connection was closed for flooding.
    Flood,
    /// An authorization request failed.
    Access,
    /// A look-up failed.
    Lookup,
    /// A file is not readable.
    Forbidden,
    /// A slice was not stored for lack of space.
    SliceNoSpace,
    /// A slice was not stored because the disk failed.
    SliceDisk,
    /// A stored slice was removed because the disk could not read it.
    SliceUnreadable,
    /// A file cannot be packaged.
    Package,
    /// Files of a packaged title have key frames at different times.
    PackageKeyFrames,
}

const KINDS: usize = LimitedKind::PackageKeyFrames as usize + 1;

/// Per kind, the time of the last line and the number of lines suppressed since.
#[derive(Debug, Default)]
pub struct LimitedLog([Mutex<LineSuppression>; KINDS]);

#[derive(Debug, Default)]
struct LineSuppression {
    written: Option<Instant>,
    left_out: u64,
}

impl LimitedLog {
    /// Writes a line unless one of its kind was written less than a minute ago. The closure
    /// receives the number of lines suppressed before it.
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
    fn writes_one_line_a_minute_per_kind_with_suppressed_count() {
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
