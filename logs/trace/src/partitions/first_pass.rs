//! First pass over all partitions, for results that need all requests: sessions of viewers,
//! duplicates, and the usage of files.

use headlong_chains::Request;

use super::maps::{divide, drop_repeated};
use super::{Partitions, PartitionsError};
use crate::files::FileUse;
use crate::names::QuickMap;

/// Shortest use of a file that indicates its bit rate, ms: shorter ones mainly fill a player's
/// buffer.
const LONG_MS: i64 = 60_000;

/// Usage of files by the requests of whole sessions.
fn file_uses(requests: &[Request]) -> QuickMap<u32, FileUse> {
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

/// Result of the first pass.
#[derive(Debug, Default)]
pub(crate) struct FirstPass {
    /// Number of sessions of each name (names with one session are omitted).
    pub(crate) counts: QuickMap<u32, u32>,
    /// Number of requests of each viewer without a session id, by its name.
    pub(crate) viewer_requests: QuickMap<u32, u64>,
    /// Duplicate requests of two logs: their number, their bytes, and the first log positions.
    pub(crate) repeated: u64,
    pub(crate) repeated_bytes: u64,
    pub(crate) repeated_lines: Vec<u64>,
    /// Usage of files.
    pub(crate) files: QuickMap<u32, FileUse>,
}

impl Partitions {
    /// Passes over all partitions once: counts the sessions of viewers, finds duplicates, and
    /// collects the usage of files.
    pub(crate) fn first_pass(
        &self,
        threads: usize,
        with_files: bool,
    ) -> Result<FirstPass, PartitionsError> {
        let outcomes = self.each_loaded(threads, |_, loader, unit| {
            loader.decode(unit)?;
            let mut first_pass = FirstPass::default();
            if self.maps.drop_repeated {
                drop_repeated(&mut loader.requests, |request| first_pass.repeat(request));
            }
            if self.maps.viewers_divide() {
                let counts = &mut first_pass.counts;
                let viewer_requests = &mut first_pass.viewer_requests;
                let sessions_named = self.maps.sessions_named;
                divide(&mut loader.requests, &self.maps, |_, key, number| {
                    if key >= sessions_named {
                        *viewer_requests.entry(key).or_default() += 1;
                    }
                    if number > 0 {
                        counts.insert(key, number + 1);
                    }
                });
            }
            if with_files {
                first_pass.files = file_uses(&loader.requests);
            }
            Ok(first_pass)
        })?;
        let mut all = FirstPass::default();
        for outcome in outcomes {
            all.counts.extend(outcome.counts);
            all.viewer_requests.extend(outcome.viewer_requests);
            all.repeated += outcome.repeated;
            all.repeated_bytes += outcome.repeated_bytes;
            all.repeated_lines.extend(outcome.repeated_lines);
            for (file, used) in outcome.files {
                all.files.entry(file).or_default().add(used);
            }
        }
        all.repeated_lines.sort_unstable();
        all.repeated_lines.truncate(crate::drop_counts::SAMPLES_MAX);
        Ok(all)
    }
}

impl FirstPass {
    fn repeat(&mut self, request: &Request) {
        self.repeated += 1;
        self.repeated_bytes += request.sent_bytes;
        self.repeated_lines.push(request.line);
        if self.repeated_lines.len() > 64 {
            self.repeated_lines.sort_unstable();
            self.repeated_lines
                .truncate(crate::drop_counts::SAMPLES_MAX);
        }
    }
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
