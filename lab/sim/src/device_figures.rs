//! Records of the individual disks and SSDs, for worlds with several.

use std::fmt::Write as _;

use headlong_units::MIB;
use serde::{Deserialize, Serialize};

use crate::disk_use::DiskUse;
use crate::distribution_summary::{DistributionSummary, ratio, round};
use crate::measure::{CallCounts, RunMeasurements};
use crate::ssd_use::SsdUse;

/// Activity of one of several disks within the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskFigures {
    /// Calls of titles on this disk that ended.
    pub calls: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Share of time with a read outstanding.
    pub busy: f64,
    /// Bytes read from the disk, MiB/s.
    pub disk_mib_s: f64,
    /// Bytes sent of titles on this disk, MiB/s.
    pub sent_mib_s: f64,
    /// Bytes sent that were read from flash on demand, by bytes sent.
    pub flash_ratio: f64,
    /// Bytes written to its partition of the tier, MiB/s.
    pub flash_written_mib_s: f64,
}

/// Activity of one SSD of a tier within the window, for all disks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SsdFigures {
    /// Share of time with a request in the SSD.
    pub busy: f64,
    /// Bytes read, including headers, MiB/s.
    pub read_mib_s: f64,
    /// Bytes written, including summaries and checkpoints, MiB/s.
    pub written_mib_s: f64,
    /// Bytes written per day at the rate of the window, 10^9 bytes.
    pub written_gb_per_day: f64,
    /// Latency of reads of adjacent records.
    pub read_ms: DistributionSummary,
    /// Latency of writes to a block.
    pub write_ms: DistributionSummary,
    /// Mean number of reads in progress.
    pub reads_mean: f64,
    /// Most reads in progress.
    pub reads_max: usize,
    /// Mean number of writes in progress.
    pub writes_mean: f64,
    /// Most writes in progress.
    pub writes_max: usize,
    /// Probes by disks that had taken the SSD out of service.
    pub probes: u64,
}

const DAY_S: f64 = 86_400.0;

impl DiskFigures {
    fn of(used: &DiskUse, calls: &CallCounts, seconds: f64) -> Self {
        let mib_s = |bytes: u64| ratio(bytes as f64 / MIB as f64, seconds);
        let stats = &used.stats;
        Self {
            calls: calls.ended,
            failures: calls.failures(),
            busy: ratio(stats.busy_time.as_secs_f64(), seconds),
            disk_mib_s: mib_s(stats.bytes_read),
            sent_mib_s: mib_s(stats.bytes_sent),
            flash_ratio: ratio(stats.bytes_from_flash as f64, stats.bytes_sent as f64),
            flash_written_mib_s: mib_s(used.flash.written_bytes),
        }
    }
}

impl SsdFigures {
    fn of(used: &SsdUse, seen: &RunMeasurements) -> Self {
        let seconds = seen.length().as_secs_f64();
        let mib_s = |bytes: u64| ratio(bytes as f64 / MIB as f64, seconds);
        Self {
            busy: ratio(used.drive.busy.as_secs_f64(), seconds),
            read_mib_s: mib_s(used.read_bytes),
            written_mib_s: mib_s(used.written_bytes),
            written_gb_per_day: ratio(used.written_bytes as f64 / 1e9 * DAY_S, seconds),
            read_ms: DistributionSummary::of(&used.reads),
            write_ms: DistributionSummary::of(&used.writes),
            reads_mean: round(used.readers.mean(seen.length()), 2),
            reads_max: used.readers.max,
            writes_mean: round(used.writers.mean(seen.length()), 2),
            writes_max: used.writers.max,
            probes: used.probes,
        }
    }
}

/// Disks and SSDs of a world; empty for a world with at most one of each, which the record itself
/// covers.
pub(crate) fn devices_of(seen: &RunMeasurements) -> (Vec<DiskFigures>, Vec<SsdFigures>) {
    if seen.disks.len() < 2 && seen.ssds.len() < 2 {
        return (Vec::new(), Vec::new());
    }
    let seconds = seen.length().as_secs_f64();
    let disks = seen.disks.iter().zip(&seen.calls_by_disk);
    let disks = disks.map(|(used, calls)| DiskFigures::of(used, calls, seconds));
    let ssds = seen.ssds.iter().map(|used| SsdFigures::of(used, seen));
    (disks.collect(), ssds.collect())
}

/// Minimum, mean and maximum.
fn range(values: impl Iterator<Item = f64> + Clone, places: usize) -> String {
    let count = values.clone().count().max(1) as f64;
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.clone().fold(0.0, f64::max);
    let mean = values.sum::<f64>() / count;
    format!("{least:.places$}/{mean:.places$}/{most:.places$}")
}

/// Lines for people: minimum, mean and maximum of each figure.
pub(crate) fn lines(disks: &[DiskFigures], ssds: &[SsdFigures]) -> String {
    let mut text = String::new();
    let disks_failed = disks.iter().filter(|disk| disk.failures > 0).count();
    if let Some(most) = disks.iter().map(|disk| disk.failures).max() {
        let _ = write!(
            text,
            "  {} disks, least/mean/most: busy {}%, read {} MiB/s, sent {} MiB/s, from flash {}%; \
             calls failed on {disks_failed}, at most {most} on one",
            disks.len(),
            range(disks.iter().map(|disk| disk.busy * 100.0), 0),
            range(disks.iter().map(|disk| disk.disk_mib_s), 1),
            range(disks.iter().map(|disk| disk.sent_mib_s), 1),
            range(disks.iter().map(|disk| disk.flash_ratio * 100.0), 0),
        );
    }
    if !ssds.is_empty() {
        let _ = write!(
            text,
            "\n  {} SSDs, least/mean/most: busy {}%, read {} MiB/s, written {} MiB/s; reads p50 {}, \
             p99 {} ms, waiting {}, {} at most; writes p99 {} ms, waiting {}, {} at most; probes {}",
            ssds.len(),
            range(ssds.iter().map(|ssd| ssd.busy * 100.0), 0),
            range(ssds.iter().map(|ssd| ssd.read_mib_s), 1),
            range(ssds.iter().map(|ssd| ssd.written_mib_s), 2),
            range(ssds.iter().map(|ssd| ssd.read_ms.p50), 1),
            range(ssds.iter().map(|ssd| ssd.read_ms.p99), 1),
            range(ssds.iter().map(|ssd| ssd.reads_mean), 1),
            ssds.iter().map(|ssd| ssd.reads_max).max().unwrap_or(0),
            range(ssds.iter().map(|ssd| ssd.write_ms.p99), 0),
            range(ssds.iter().map(|ssd| ssd.writes_mean), 2),
            ssds.iter().map(|ssd| ssd.writes_max).max().unwrap_or(0),
            range(ssds.iter().map(|ssd| ssd.probes as f64), 0),
        );
    }
    text
}
