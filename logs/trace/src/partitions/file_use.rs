//! Usage of files, for the estimation of unknown properties.

use headlong_chains::Request;

use crate::names::QuickMap;

/// Usage of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FileUse {
    /// The highest byte sent.
    pub(crate) end: u64,
    /// Bytes sent in sessions that used the file for a minute or more.
    pub(crate) long_bytes: u64,
    /// Total time that these sessions used it, ms.
    pub(crate) long_ms: u64,
}

impl FileUse {
    pub(super) fn add(&mut self, other: Self) {
        self.end = self.end.max(other.end);
        self.long_bytes += other.long_bytes;
        self.long_ms += other.long_ms;
    }
}

/// Shortest use of a file that indicates its bit rate, ms: shorter ones mainly fill a player's
/// buffer.
const LONG_MS: i64 = 60_000;

/// Usage of files by the requests of whole sessions.
pub(super) fn file_uses(requests: &[Request]) -> QuickMap<u32, FileUse> {
    struct SessionFileUse {
        first_ms: i64,
        last_ms: i64,
        bytes: u64,
    }
    let mut readings: QuickMap<(u32, u32), SessionFileUse> = QuickMap::default();
    let mut files: QuickMap<u32, FileUse> = QuickMap::default();
    for request in requests {
        let used = files.entry(request.file).or_default();
        // Requests without an offset or without bytes have no end.
        if request.takes_part() {
            used.end = used.end.max(request.end());
        }
        let reading = readings
            .entry((request.session, request.file))
            .or_insert(SessionFileUse {
                first_ms: request.received_ms,
                last_ms: request.completed_ms,
                bytes: 0,
            });
        reading.first_ms = reading.first_ms.min(request.received_ms);
        reading.last_ms = reading.last_ms.max(request.completed_ms);
        reading.bytes += request.sent_bytes;
    }
    for ((_, file), reading) in readings {
        let ms = reading.last_ms.saturating_sub(reading.first_ms);
        if ms >= LONG_MS {
            files.entry(file).or_default().add(FileUse {
                end: 0,
                long_bytes: reading.bytes,
                long_ms: ms as u64,
            });
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_chains::UNPLACED;

    #[test]
    fn file_ends_at_the_highest_placed_byte() {
        let request = |line, offset, sent_bytes| Request {
            line,
            session: 1,
            file: 7,
            received_ms: 0,
            completed_ms: LONG_MS,
            offset,
            asked_bytes: None,
            sent_bytes,
            disk: 0,
            device: 0,
        };
        let unplaced = request(1, UNPLACED, 512);
        let used = file_uses(&[unplaced, request(2, 1000, 24), request(3, 5000, 0)]);
        let expected = FileUse {
            end: 1024,
            long_bytes: 536,
            long_ms: LONG_MS as u64,
        };
        assert_eq!(used.get(&7), Some(&expected));
        assert_eq!(file_uses(&[unplaced]).get(&7).map(|used| used.end), Some(0));
    }
}
