//! The requests of the disk.

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
    /// When it was answered.
    pub completed: Duration,
    /// Service time according to the model; zero with the timing off.
    pub service: Duration,
}

impl From<&headlong_vdisk::TraceRecord> for Record {
    fn from(record: &headlong_vdisk::TraceRecord) -> Self {
        let time = |instant: headlong_units::Instant| Duration::from_nanos(instant.0);
        Self {
            offset: record.offset,
            length: record.length,
            write: record.direction == headlong_drive::Direction::Write,
            arrived: time(record.arrived),
            completed: time(record.answered),
            service: Duration::from_nanos(headlong_vdisk::service(&record.parts).0),
        }
    }
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

    /// Requests that arrived at or after `time`.
    pub fn since(&self, time: Duration) -> Self {
        let keep = |record: &&Record| record.arrived >= time;
        Self {
            records: self.records.iter().filter(keep).copied().collect(),
        }
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
