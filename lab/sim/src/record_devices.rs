//! The record of one run, disk by disk and SSD by SSD, of worlds that have several.

use std::fmt::Write as _;

use headlong_units::MIB;
use serde::{Deserialize, Serialize};

use crate::disk_use::DiskUse;
use crate::figures::{Spread, ratio, round};
use crate::measure::{Calls, Measure};
use crate::ssd_use::SsdUse;

/// What one disk of several did within the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskFigures {
    /// Calls that ended, of titles that lie on it.
    pub calls: u64,
    /// Of those, calls that failed.
    pub failures: u64,
    /// Share of the time during which a read was outstanding.
    pub busy: f64,
    /// Bytes read from it, MiB/s.
    pub disk_mib_s: f64,
    /// Bytes sent of what lies on it, MiB/s.
    pub sent_mib_s: f64,
    /// Bytes sent that were read from flash for it, by bytes sent.
    pub flash_ratio: f64,
    /// Bytes of its part of the tier that were written, MiB/s.
    pub flash_written_mib_s: f64,
}

/// What one SSD of a tier did within the window, for all disks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SsdFigures {
    /// Share of the time during which it had something to do.
    pub busy: f64,
    /// Bytes read from it, with headers, MiB/s.
    pub read_mib_s: f64,
    /// Bytes written to it, with summaries and checkpoints, MiB/s.
    pub written_mib_s: f64,
    /// The same, if a day were as the window: 10^9 bytes a day.
    pub written_gb_per_day: f64,
    /// From asking for records that lie in a row until they were there.
    pub read_ms: Spread,
    /// From giving it bytes of a block until they were written.
    pub write_ms: Spread,
    /// Reads that were asked for and not there, on average.
    pub reads_mean: f64,
    /// At most.
    pub reads_max: usize,
    /// Writes that were asked for and not done, on average.
    pub writes_mean: f64,
    /// At most.
    pub writes_max: usize,
    /// Looks at whether it is well again, of disks that had given it up.
    pub probes: u64,
}

const DAY_S: f64 = 86_400.0;

impl DiskFigures {
    fn of(used: &DiskUse, calls: &Calls, seconds: f64) -> Self {
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
    fn of(used: &SsdUse, seen: &Measure) -> Self {
        let seconds = seen.length().as_secs_f64();
        let mib_s = |bytes: u64| ratio(bytes as f64 / MIB as f64, seconds);
        Self {
            busy: ratio(used.drive.busy.as_secs_f64(), seconds),
            read_mib_s: mib_s(used.read_bytes),
            written_mib_s: mib_s(used.written_bytes),
            written_gb_per_day: ratio(used.written_bytes as f64 / 1e9 * DAY_S, seconds),
            read_ms: Spread::of(&used.reads),
            write_ms: Spread::of(&used.writes),
            reads_mean: round(used.readers.mean(seen.length()), 2),
            reads_max: used.readers.max,
            writes_mean: round(used.writers.mean(seen.length()), 2),
            writes_max: used.writers.max,
            probes: used.probes,
        }
    }
}

/// Disks and SSDs of a world; none of one that has one disk and one SSD at most, of which the record
/// tells everything anyway.
pub(crate) fn devices_of(seen: &Measure) -> (Vec<DiskFigures>, Vec<SsdFigures>) {
    if seen.disks.len() < 2 && seen.ssds.len() < 2 {
        return (Vec::new(), Vec::new());
    }
    let seconds = seen.length().as_secs_f64();
    let disks = seen.disks.iter().zip(&seen.calls_by_disk);
    let disks = disks.map(|(used, calls)| DiskFigures::of(used, calls, seconds));
    let ssds = seen.ssds.iter().map(|used| SsdFigures::of(used, seen));
    (disks.collect(), ssds.collect())
}

/// The least, the mean and the most.
fn range(values: impl Iterator<Item = f64> + Clone, places: usize) -> String {
    let count = values.clone().count().max(1) as f64;
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.clone().fold(0.0, f64::max);
    let mean = values.sum::<f64>() / count;
    format!("{least:.places$}/{mean:.places$}/{most:.places$}")
}

/// Lines for a person: the least, the mean and the most of each figure.
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
