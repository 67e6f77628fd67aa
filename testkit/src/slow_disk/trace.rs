//! What the disk was asked, and what that says about its caller.
//!
//! The kernel cuts a large read into requests (1280 KiB by a loop device, 1 MiB by FUSE). A caller's
//! read is found again as a [`Run`]: requests that touch and were outstanding together. A caller whose
//! submission is slower than the disk (memory that is faulted in page by page, a large time
//! compression) may show as several runs for one read, never as one run for several reads.

use std::time::Duration;

/// One request. Times are model time since the disk was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Whether it wrote.
    pub write: bool,
    /// When it came.
    pub arrived: Duration,
    /// When the arm began to move for it.
    pub started: Duration,
    /// When it was answered.
    pub completed: Duration,
    /// What the drive model said it takes; zero with the timing switched off.
    pub service: Duration,
    /// Requests outstanding when it came, itself included.
    pub outstanding: usize,
    /// Whether it was answered with an error.
    pub failed: bool,
}

impl From<&headlong_vdisk::Record> for Record {
    fn from(record: &headlong_vdisk::Record) -> Self {
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

/// Adjoining requests that were outstanding together: one read of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// When its first request came.
    pub arrived: Duration,
    /// When its last request was answered.
    pub completed: Duration,
}

/// Requests in the order they came.
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

    /// All requests, in the order they came.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The reads of at least `length_min` bytes: a file system's own small reads of its tables
    /// are not the caller's.
    pub fn reads(&self, length_min: u64) -> Self {
        let keep = |record: &&Record| !record.write && record.length >= length_min;
        Self {
            records: self.records.iter().filter(keep).copied().collect(),
        }
    }

    /// The same requests at other offsets, without those for which there is none. With a file's
    /// place on the disk turned into the place in the file, a read over two of its extents is one
    /// run, and what belongs to no file is not seen.
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

    /// Only what came at or after `time`.
    pub fn since(&self, time: Duration) -> Self {
        let keep = |record: &&Record| record.arrived >= time;
        Self {
            records: self.records.iter().filter(keep).copied().collect(),
        }
    }

    /// The caller's reads and writes, in the order their first request came.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for record in &self.records {
            let end = record.offset + record.length;
            // Only the youngest runs can still be outstanding: the search is bounded by the
            // disk's own queue.
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

    /// Time the drive was at work, by its model.
    pub fn service_time(&self) -> Duration {
        self.records.iter().map(|record| record.service).sum()
    }
}

/// Most intervals that contain one moment. An interval that ends when another begins does not
/// meet it.
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
    fn requests_cut_from_one_read_are_one_run() {
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
    fn a_read_that_continues_after_the_last_one_ended_is_a_run_of_its_own() {
        let trace = Trace::new(vec![record(0, 100, 0, 10), record(100, 100, 11, 20)]);
        assert_eq!(trace.runs().len(), 2);
        assert_eq!(trace.outstanding_runs_max(), 1);
    }

    #[test]
    fn a_read_over_two_extents_of_a_file_is_one_run_of_the_file() {
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
    fn two_reads_at_different_places_are_seen_as_two() {
        let trace = Trace::new(vec![record(0, 100, 0, 10), record(500, 100, 5, 20)]);
        assert_eq!(trace.outstanding_runs_max(), 2);
    }
}
