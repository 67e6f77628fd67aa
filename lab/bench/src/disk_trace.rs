//! Access pattern of the drive: the order of requests that kernel and server made of the workload.

use std::path::Path;

use headlong_stats::{Access, Cdf, Sequences};
use headlong_units::Duration;
use serde::{Deserialize, Serialize};

/// Points kept of the distribution.
const CDF_POINTS: usize = 200;
/// Requests shown in a plot: as many as libception Figures 2 to 5.
const EXCERPT_REQUESTS: usize = 250;

/// A request of a drive's trace, in the columns that matter here.
#[derive(Debug, Clone, Copy, Deserialize)]
struct TracedRequest {
    started_ns: u64,
    ended_ns: u64,
    lba: u64,
    sectors: u64,
    direction: char,
}

impl TracedRequest {
    fn access(&self) -> Access {
        Access {
            start_bytes: self.lba.saturating_mul(512),
            length_bytes: self.sectors.saturating_mul(512),
            is_write: self.direction == 'W',
        }
    }
}

/// Reads and writes in the measured period.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DiskPattern {
    /// Requests that reached the drive.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Seconds of model time observed.
    pub seconds: f64,
    /// Share of busy time; `None` if the trace does not contain it.
    #[serde(default)]
    pub busy_share: Option<f64>,
    /// Sequences of adjacent requests: each begins with a seek (libception 5.5).
    pub sequences: u64,
    /// Mean bytes of a sequence.
    pub bytes_per_sequence: f64,
    /// Cumulative share of bytes in sequences up to a length in bytes (libception Figure 6).
    pub sequence_cdf: Vec<(f64, f64)>,
    /// First sector and sector count of consecutive requests, from the middle of the run
    /// (libception Figures 2 to 5).
    pub excerpt: Vec<(u64, u64)>,
}

impl DiskPattern {
    /// From a drive's trace: requests that began between two times since the trace's first request.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub fn read(file: &Path, from: Duration, to: Duration) -> Result<Self, csv::Error> {
        let requests = csv::Reader::from_path(file)?.into_deserialize();
        let mut requests: Vec<TracedRequest> = requests.collect::<Result<_, _>>()?;
        // The order in which the drive executed them.
        requests.sort_by_key(|request| request.started_ns);
        Ok(Self::of(&requests, from, to))
    }

    fn of(all: &[TracedRequest], from: Duration, to: Duration) -> Self {
        let origin = all.first().map_or(0, |request| request.started_ns);
        let last = all.last().map_or(0, |request| request.started_ns - origin);
        // A run that ended early is evaluated up to its end.
        let (from, to) = match last > from.0 {
            true => (from.0, to.0.min(last)),
            false => (0, last),
        };
        let inside = |request: &&TracedRequest| {
            let at = request.started_ns - origin;
            (from..=to).contains(&at)
        };
        let part: Vec<&TracedRequest> = all.iter().filter(inside).collect();
        let sequences: Sequences = part.iter().map(|request| request.access()).collect();
        let middle = part.len().saturating_sub(EXCERPT_REQUESTS) / 2;
        let excerpt = part.iter().skip(middle).take(EXCERPT_REQUESTS);
        let excerpt = excerpt.map(|request| (request.lba, request.sectors));
        let length = Duration(to - from);
        let work = all
            .iter()
            .map(|request| (request.started_ns, request.ended_ns));
        let busy = busy(work, origin + from, origin + to);
        Self::of_sequences(&sequences, length, Some(busy), excerpt.collect())
    }

    /// From sequences that the caller has found.
    pub(crate) fn of_sequences(
        sequences: &Sequences,
        length: Duration,
        busy: Option<Duration>,
        excerpt: Vec<(u64, u64)>,
    ) -> Self {
        // A caller that counts requests at their end includes all of the first one.
        let share = |busy: Duration| (busy.as_secs_f64() / length.as_secs_f64()).min(1.0);
        Self {
            requests: sequences.requests(),
            bytes: sequences.bytes(),
            seconds: length.as_secs_f64(),
            busy_share: busy.filter(|_| length > Duration::ZERO).map(share),
            sequences: sequences.sequences(),
            bytes_per_sequence: sequences.mean_bytes().unwrap_or(0.0),
            sequence_cdf: sequences
                .cdf()
                .map_or_else(|_| Vec::new(), |cdf| cdf.points(CDF_POINTS)),
            excerpt,
        }
    }

    /// Bytes read and written per second of model time.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9)
    }

    /// Mean KiB of a sequence, if sequences were observed: the kernel counts none of a block device.
    pub fn kib_per_sequence(&self) -> Option<f64> {
        (self.sequences > 0).then_some(self.bytes_per_sequence / 1024.0)
    }

    /// The addresses of the excerpt, for a chart.
    pub(crate) fn lbas(&self) -> impl Iterator<Item = u64> {
        self.excerpt.iter().map(|(lba, _)| *lba)
    }

    /// The distribution of bytes over sequence lengths, if anything was read.
    pub fn cdf(&self) -> Option<Cdf> {
        let mut before = 0.0;
        let steps = self.sequence_cdf.iter().map(|(length, share)| {
            let weight = share - before;
            before = *share;
            (*length, weight)
        });
        Cdf::of_weighted(steps.filter(|(_, weight)| *weight > 0.0)).ok()
    }
}

/// How long between two times at least one request was in progress, from begin and end times sorted
/// by begin. Arms of one drive work concurrently.
fn busy(work: impl Iterator<Item = (u64, u64)>, from: u64, to: u64) -> Duration {
    let (mut sum, mut done) = (0, from);
    for (started, ended) in work {
        let (started, ended) = (started.max(done), ended.min(to));
        sum += ended.saturating_sub(started);
        done = done.max(ended);
    }
    Duration(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(second: u64, lba: u64) -> TracedRequest {
        let started_ns = 7_000_000_000 + second * 1_000_000_000;
        TracedRequest {
            started_ns,
            ended_ns: started_ns + 250_000_000,
            lba,
            sectors: 8,
            direction: 'R',
        }
    }

    #[test]
    fn trace_of_emulated_disk_is_read_in_order_of_execution() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("trace.csv");
        let read = |lines: &str| {
            let text = format!("{}\n{lines}\n", headlong_vdisk::TRACE_HEADER);
            std::fs::write(&file, text).expect("written");
            DiskPattern::read(&file, Duration(0), Duration(1_000))
        };
        let late = "3,50,73,73,2056,8,W,3,0,30,0,1,0,0,0";
        let early = "4,2,33,34,2048,8,R,3,0,30,0,1,0,0,0";
        let pattern = read(&format!("{late}\n{early}")).expect("a trace");
        assert_eq!(pattern.excerpt, [(2048, 8), (2056, 8)]);
        assert_eq!(
            (pattern.bytes, pattern.sequences),
            (8192, 2),
            "a write after a read"
        );
        let wrong = read("1,?,33,34,2048,8,R,3,0,30,0,1,0,0,0").expect_err("no number");
        assert!(wrong.to_string().contains("line: 2"), "{wrong}");
    }

    #[test]
    fn counts_only_measured_period() {
        let all: Vec<_> = (0..10)
            .map(|second| access(second, second * 1000))
            .collect();
        let pattern = DiskPattern::of(&all, Duration::from_secs(2), Duration::from_secs(6));
        assert_eq!((pattern.requests, pattern.sequences), (5, 5));
        assert_eq!(pattern.rate(), 5.0 * 4096.0 / 4.0);
        assert_eq!(pattern.excerpt[0], (2000, 8));
        // A request that began at the last moment adds no busy time.
        assert_eq!(pattern.busy_share, Some(0.25));
    }

    #[test]
    fn busy_time_counts_concurrent_arms_once_within_period() {
        let work = [(0, 4), (3, 6), (5, 6), (8, 20)];
        assert_eq!(busy(work.into_iter(), 2, 10), Duration(6));
        assert_eq!(busy([].into_iter(), 2, 10), Duration(0));
    }

    #[test]
    fn truncated_run_is_evaluated_up_to_its_end() {
        let all = [access(0, 0), access(1, 8), access(3, 5000)];
        let pattern = DiskPattern::of(&all, Duration::from_secs(300), Duration::from_secs(600));
        assert_eq!((pattern.requests, pattern.sequences), (3, 2));
        assert_eq!(pattern.seconds, 3.0);
        let cdf = pattern.cdf().expect("bytes were read");
        assert!((cdf.share_up_to(4096.0) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(DiskPattern::of(&[], Duration(0), Duration(9)).requests, 0);
    }
}
