//! Figures of one run, taken from the record of a real or a virtual run.

use serde::Serialize;
use serde_json::Value;

use crate::record::{DiskFacts, RunRecord};
use crate::run_phases::sum_of_devices;

/// Results of one run at a given rate. Rates in bytes per second of model time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ValidationFigures {
    /// Requested by calls sent in steady state.
    pub asked_for: Option<f64>,
    /// Received by viewers in steady state.
    pub delivered: f64,
    /// Read by the first drive in steady state.
    pub disk: f64,
    /// Mean bytes of a sequence of adjacent requests.
    pub bytes_per_seek: f64,
    /// Block requests per second.
    pub requests_per_second: f64,
    /// Share of the whole run in which a drive was busy, on average over all drives.
    pub disk_busy: Option<f64>,
    /// Read commands of the server per second, over the whole run.
    pub reads_per_second: Option<f64>,
    /// Mean bytes of a prefetch.
    pub prefetch_bytes: Option<f64>,
    /// Bytes sent that were served from an earlier read, as a share of bytes sent.
    pub hit_ratio: Option<f64>,
    /// Bytes prefetched and evicted unread, as a share of bytes read.
    pub evicted_ratio: Option<f64>,
    /// Share of sessions in steady state that failed.
    pub failure_share: f64,
}

impl ValidationFigures {
    /// Takes the figures from a record, real or virtual.
    pub fn of(record: &RunRecord) -> Self {
        let pattern = &record.disk.pattern;
        let drive = |path: &str| record.disk.counters.pointer(path).and_then(Value::as_f64);
        let elapsed = drive("/counters/elapsed_ns").filter(|ns| *ns > 0.0);
        let served = |name: &str| sum_of_devices(&record.server_facts.status, name);
        let ratio = |part: &str, whole: &str| {
            let whole = served(whole).filter(|whole| *whole > 0.0)?;
            Some(served(part)? / whole)
        };
        let seconds = pattern.seconds.max(1e-9);
        let is_counted = served("jobs").is_some_and(|jobs| jobs > 0.0);
        // A server without counters: the hit ratio is the share that the drive did not read for
        // it.
        let delivered = record.verdict.delivered;
        let kept = || (delivered > 0.0).then(|| (1.0 - pattern.rate() / delivered).max(0.0));
        let of_engine = |value: Option<f64>| value.filter(|_| is_counted);
        Self {
            asked_for: record.verdict.asked_for,
            delivered,
            disk: pattern.rate(),
            bytes_per_seek: pattern.bytes_per_sequence,
            requests_per_second: pattern.requests as f64 / seconds,
            disk_busy: busy_share(&record.disk),
            reads_per_second: of_engine(
                served("reads_done")
                    .zip(elapsed)
                    .map(|(reads, elapsed)| reads / (elapsed / 1e9)),
            ),
            prefetch_bytes: ratio("job_bytes", "jobs"),
            hit_ratio: of_engine(ratio("bytes_reused", "bytes_sent")).or_else(kept),
            evicted_ratio: of_engine(ratio("prefetch_evicted_bytes", "bytes_read")),
            failure_share: record.verdict.failure_share,
        }
    }
}

fn busy_share(disk: &DiskFacts) -> Option<f64> {
    let drives = std::iter::once(&disk.counters).chain(&disk.others);
    let share = |drive: &Value| {
        let of = |path: &str| drive.pointer(path).and_then(Value::as_f64);
        let elapsed = of("/counters/elapsed_ns").filter(|ns| *ns > 0.0)?;
        Some(of("/counters/busy_ns")? / elapsed)
    };
    let shares: Option<Vec<f64>> = drives.map(share).collect();
    let shares = shares?;
    Some(shares.iter().sum::<f64>() / shares.len() as f64)
}
