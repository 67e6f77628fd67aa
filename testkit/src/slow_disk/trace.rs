//! The requests of the disk, and their interpretation as reads of the caller.
//!
//! The kernel splits a large read into requests (1280 KiB by a loop device, 1 MiB by FUSE). A
//! caller's read is recovered as a [`Run`]: adjacent requests that were outstanding together. If
//! the caller submits more slowly than the disk serves (page faults in its memory, a high time
//! compression), one read may appear as several runs, but never several reads as one run.

use std::time::Duration;

/// One request. Times are model time since the disk was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Whether it wrote.
    pub write: bool,
    /// Time of arrival.
    pub arrived: Duration,
    /// When service began.
    pub started: Duration,
    /// When it was answered.
    pub completed: Duration,
    /// Service time according to the model; zero with the timing off.
    pub service: Duration,
    /// Requests outstanding on arrival, itself included.
    pub outstanding: usize,
    /// Whether it was answered with an error.
    pub failed: bool,
}

impl From<&headlong_vdisk::TraceRecord> for Record {
    fn from(record: &headlong_vdisk::TraceRecord) -> Self {
        let time = |instant: headlong_units::Instant| Duration::from_nanos(instant.0);
        Self {
            offset: record.offset,
            length: record.length,
            write: record.direction == headlong_drive::Direction::Write,
            arrived: time(record.arrived),
            started: time(record.started),
            completed: time(record.answered),
            service: Duration::from_nanos(headlong_vdisk::service(&record.parts).0),
            outstanding: record.outstanding,
            failed: record.is_failed,
        }
    }
}

/// Adjacent requests that were outstanding together: one read of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Arrival of the first request.
    pub arrived: Duration,
    /// Completion of the last request.
    pub completed: Duration,
}

/// Requests in order of arrival.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    records: Vec<Record>,
}

impl Trace {
    /// A trace of these requests, in any order.
    pub fn new(mut records: Vec<Record>) -> Self {
        records.sort_by_key(|record| record.arrived);
        Self { records }
    }

    /// All requests, in order of arrival.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The reads of at least `length_min` bytes, to exclude small metadata reads of the file
    /// system.
    pub fn reads(&self, length_min: u64) -> Self {
        let keep = |record: &&Record| !record.write && record.length >= length_min;
        Self {
            records: self.records.iter().filter(keep).copied().collect(),
        }
    }

    /// Maps the offsets of requests and drops those without a mapping. With positions on the disk
    /// mapped to offsets in a file, a read over two of its extents is one run, and requests outside
    /// the file are dropped.
    pub fn mapped(&self, place: impl Fn(u64) -> Option<u64>) -> Self {
        let map = |record: &Record| {
            Some(Record {
                offset: place(record.offset)?,
                ..*record
            })
        };
        Self {
            records: self.records.iter().filter_map(map).collect(),
        }
    }

    /// Requests that arrived at or after `time`.
    pub fn since(&self, time: Duration) -> Self {
        let keep = |record: &&Record| record.arrived >= time;
        Self {
            records: self.records.iter().filter(keep).copied().collect(),
        }
    }

    /// The caller's reads and writes, in order of their first request.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for record in &self.records {
            let end = record.offset + record.length;
            // Only the youngest runs can still be outstanding: the disk's queue bounds the search.
            let joined = runs.iter_mut().rev().take(1_024).find(|run| {
                let touches = run.offset + run.length == record.offset || end == run.offset;
                touches && record.arrived <= run.completed
            });
            match joined {
                Some(run) => {
                    run.offset = run.offset.min(record.offset);
                    run.length += record.length;
                    run.completed = run.completed.max(record.completed);
                }
                None => runs.push(Run {
                    offset: record.offset,
                    length: record.length,
                    arrived: record.arrived,
                    completed: record.completed,
                }),
            }
        }
        runs
    }

    /// Most requests outstanding at once.
    pub fn outstanding_requests_max(&self) -> usize {
        most_at_once(
            self.records
                .iter()
                .map(|record| (record.arrived, record.completed)),
        )
    }

    /// Most runs outstanding at once: the caller's reads in flight.
    pub fn outstanding_runs_max(&self) -> usize {
        most_at_once(self.runs().iter().map(|run| (run.arrived, run.completed)))
    }

    /// Mean bytes of a run; zero if there is none.
    pub fn run_bytes_mean(&self) -> u64 {
        let runs = self.runs();
        let bytes: u64 = runs.iter().map(|run| run.length).sum();
        bytes.checked_div(runs.len() as u64).unwrap_or(0)
    }

    /// Bytes of all requests.
    pub fn bytes(&self) -> u64 {
        self.records.iter().map(|record| record.length).sum()
    }

    /// Service time of the drive, by its model.
    pub fn service_time(&self) -> Duration {
        self.records.iter().map(|record| record.service).sum()
    }
}

/// Largest number of intervals that overlap. Intervals that only touch do not overlap.
fn most_at_once(intervals: impl Iterator<Item = (Duration, Duration)>) -> usize {
    let mut edges: Vec<(Duration, bool)> = intervals
        .flat_map(|(start, end)| [(start, true), (end, false)])
        .collect();
    edges.sort();
    let (mut now, mut most) = (0usize, 0usize);
    for (_, begins) in edges {
        now = if begins {
            now + 1
        } else {
            now.saturating_sub(1)
        };
        most = most.max(now);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(offset: u64, length: u64, arrived: u64, completed: u64) -> Record {
        Record {
            offset,
            length,
            write: false,
            arrived: Duration::from_millis(arrived),
            started: Duration::from_millis(arrived),
            completed: Duration::from_millis(completed),
            service: Duration::from_millis(completed - arrived),
            outstanding: 1,
            failed: false,
        }
    }

    #[test]
    fn requests_of_one_read_are_one_run() {
        let trace = Trace::new(vec![
            record(0, 100, 0, 10),
            record(100, 100, 0, 20),
            record(200, 50, 1, 25),
        ]);
        assert_eq!(trace.runs().len(), 1);
        assert_eq!(trace.run_bytes_mean(), 250);
        assert_eq!(trace.outstanding_requests_max(), 3);
        assert_eq!(trace.outstanding_runs_max(), 1);
    }

    #[test]
    fn read_after_end_of_previous_is_separate_run() {
        let trace = Trace::new(vec![record(0, 100, 0, 10), record(100, 100, 11, 20)]);
        assert_eq!(trace.runs().len(), 2);
        assert_eq!(trace.outstanding_runs_max(), 1);
    }

    #[test]
    fn read_over_two_extents_is_one_run_of_file() {
        let trace = Trace::new(vec![
            record(1_000, 100, 0, 10),
            record(5_000, 50, 0, 20),
            record(0, 4, 0, 1),
        ]);
        let place = |offset| match offset {
            1_000..1_100 => Some(offset - 1_000),
            5_000..5_050 => Some(offset - 5_000 + 100),
            _ => None,
        };
        let file = trace.mapped(place);
        assert_eq!((file.runs().len(), file.run_bytes_mean()), (1, 150));
    }

    #[test]
    fn reads_at_distant_offsets_are_separate_runs() {
        let trace = Trace::new(vec![record(0, 100, 0, 10), record(500, 100, 5, 20)]);
        assert_eq!(trace.outstanding_runs_max(), 2);
    }
}
