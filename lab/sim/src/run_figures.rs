//! The record of one run, as lines for people and as JSON: its figures, those of disks, SSDs and
//! the flash tier, viewing quality by network class, and the time series.

use std::borrow::Cow;
use std::fmt::Write as _;

use headlong_engine::Stats;
use headlong_units::{Duration, Instant, KIB, MIB};
use serde::{Deserialize, Serialize};

use crate::histogram::{DistributionSummary, Histogram, is_none, is_zero, ratio, round};
use crate::measure::{CallCounts, RunMeasurements, Snapshot, StateSums, ViewingQuality, classes};
use crate::usage::{DiskUse, FlashUse, SsdUse};

/// Name and version of the schema of [`RunFigures`]. New fields may be added under the same name.
pub const SCHEMA: &str = "headlong-simulate-1";

/// Figures of one run in virtual time, measured within its window unless stated otherwise. Times
/// are in seconds or, where the name says so, milliseconds; rates are in MiB/s.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFigures {
    /// [`SCHEMA`].
    pub schema: Cow<'static, str>,
    /// Sessions that began within the window and ended.
    pub sessions_steady: u64,
    /// Offered: the rate that the workload was generated for.
    pub rate_mib_s: f64,
    /// Seed of the workload.
    pub seed: u64,
    /// Length of the window.
    pub seconds: f64,
    /// Calls that failed.
    pub failures: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Calls that broke off or could not connect: the server was restarted.
    #[serde(default)]
    pub cut: u64,
    /// Calls that failed outside the window.
    pub failures_outside: u64,
    /// Calls that failed before the window opened.
    #[serde(default)]
    pub ramp_failures: u64,
    /// Viewers that arrived before the window opened.
    #[serde(default)]
    pub ramp_sessions: u64,
    /// Time of the last failed call before the window, from the start of the run; 0 if there was
    /// none.
    #[serde(default)]
    pub ramp_failed_last_s: f64,
    /// Calls that failed, by network class.
    pub failures_by_class: Vec<u64>,
    /// Viewers that arrived in the whole run.
    pub sessions: u64,
    /// Calls that ended.
    pub calls: u64,
    /// Mean number of viewers present.
    pub viewers_mean: f64,
    /// Most viewers present at once.
    pub viewers_max: u64,
    /// Bytes requested by requests sent within the window.
    #[serde(default)]
    pub asked_for_mib_s: f64,
    /// Bytes that reached viewers within the window.
    #[serde(default)]
    pub delivered_mib_s: f64,
    /// Goodput: bytes of complete calls.
    pub served_mib_s: f64,
    /// Bytes read from the device.
    pub disk_mib_s: f64,
    /// Share of time with a read outstanding; the mean over several disks.
    pub busy: f64,
    /// Reads issued.
    pub reads: u64,
    /// Mean size of a read.
    pub read_kib: f64,
    /// Time with a read outstanding, per read.
    pub read_ms: f64,
    /// Repositions of the drive per read: more than one if the drive alternates between reads.
    pub repositions_per_read: f64,
    /// Drive time per read spent on seeks.
    pub seek_ms: f64,
    /// Rotational latency per read.
    pub rotation_ms: f64,
    /// Transfer time per read.
    pub transfer_ms: f64,
    /// Command overhead and all other drive time per read.
    pub overhead_ms: f64,
    /// Bytes sent that had been sent before, by bytes sent.
    pub hit_ratio: f64,
    /// Bytes sent that were in memory when requested, by bytes sent.
    pub ram_ratio: f64,
    /// Bytes sent that were read from flash on demand, by bytes sent; omitted if zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flash_ratio: f64,
    /// Activity of the flash tier; omitted without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash: Option<FlashFigures>,
    /// Each disk, if there are several; omitted for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskFigures>,
    /// Each SSD, if there are several, or several disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssds: Vec<SsdFigures>,
    /// Bytes read and never sent, by bytes read.
    pub waste_ratio: f64,
    /// Bytes prefetched for a live chain and evicted unread, by bytes read.
    pub evicted_ratio: f64,
    /// Jobs completed.
    pub jobs: u64,
    /// Share of jobs that completed late.
    pub jobs_late_ratio: f64,
    /// Share of jobs that were merged into others.
    pub jobs_merged_ratio: f64,
    /// Mean size of a job as requested by the prefetch policy.
    pub job_wanted_kib: f64,
    /// Mean number of queued jobs.
    pub queue_mean: f64,
    /// Mean number of queued jobs that a reply waited for.
    pub queue_demanded_mean: f64,
    /// Share of calls whose first piece was not in memory on arrival.
    pub waited_ratio: f64,
    /// Wait for the first piece, at the server.
    pub wait_ms: DistributionSummary,
    /// From sending a call to its last byte.
    pub response_ms: DistributionSummary,
    /// The same by network class.
    pub response_ms_by_class: Vec<DistributionSummary>,
    /// Mean division of memory.
    pub memory: MemoryShares,
    /// Mean prefetch size in use.
    pub prefetch_mib: f64,
    /// Prefetched bytes that were evicted unread.
    pub evicted_mib_s: f64,
    /// Mean age of those bytes in memory.
    pub eviction_s: f64,
    /// Disk time per 128 KiB requested: time per byte times the miss ratio, which the paper's
    /// controller minimizes (automated-prefetching 4.1).
    pub score_ms: f64,
    /// Viewing quality of sessions that began within the window and ended, by network class.
    #[serde(default)]
    pub viewing: Vec<ViewingRecord>,
    /// Time series from the start of the run.
    pub series: Vec<SeriesSample>,
}

impl RunFigures {
    /// Computes the figures from the measurements.
    pub fn new(rate_mib_s: f64, seed: u64, seen: &RunMeasurements) -> Self {
        let (stats, drive) = (&seen.stats, &seen.drive);
        let seconds = seen.length().as_secs_f64();
        let mib_s = |bytes: u64| ratio(bytes as f64 / MIB as f64, seconds);
        let per_read = |time: Duration| ratio(time.as_secs_f64() * 1e3, stats.reads_done as f64);
        let share = |part: u64, whole: u64| ratio(part as f64, whole as f64);
        let looks = &seen.seen;
        let mut all = Histogram::default();
        seen.response_times
            .iter()
            .for_each(|times| all.merge(times));
        let waited = seen.waits.count() - seen.waits.zeros();
        let prefetch = looks.prefetch_bytes as f64 / MIB as f64;
        let parts = &drive.parts;
        let disk_count = seen.disks.len().max(1) as f64;
        let (disks, ssds) = devices_of(seen);
        Self {
            schema: SCHEMA.into(),
            sessions_steady: seen.sessions_steady,
            rate_mib_s,
            seed,
            seconds: round(seconds, 3),
            failures: seen.calls.failures(),
            refused: seen.calls.refused,
            cut: seen.calls.broken,
            failures_outside: seen.calls_outside.failures(),
            ramp_failures: seen.ramp_up.calls.failures(),
            ramp_sessions: seen.ramp_up.sessions,
            ramp_failed_last_s: seen
                .ramp_up
                .failed_last
                .map_or(0.0, |at| round(at.0 as f64 / 1e9, 1)),
            failures_by_class: seen.failures_by_class.clone(),
            sessions: seen.sessions_began(),
            calls: seen.calls.ended,
            viewers_mean: share(looks.viewers, looks.looks),
            viewers_max: looks.viewers_max,
            asked_for_mib_s: mib_s(seen.asked_for_bytes()),
            delivered_mib_s: mib_s(seen.delivered_bytes()),
            served_mib_s: mib_s(seen.calls.whole_bytes),
            disk_mib_s: mib_s(stats.bytes_read),
            busy: ratio(stats.busy_time.as_secs_f64(), seconds * disk_count),
            reads: stats.reads_done,
            read_kib: share(stats.bytes_read / KIB, stats.reads),
            read_ms: per_read(stats.busy_time),
            repositions_per_read: share(drive.repositions, stats.reads_done),
            seek_ms: per_read(parts.seek),
            rotation_ms: per_read(parts.rotation),
            transfer_ms: per_read(parts.transfer),
            overhead_ms: per_read(parts.overhead + parts.cleaning),
            hit_ratio: share(stats.bytes_reused, stats.bytes_sent),
            ram_ratio: share(stats.bytes_from_ram, stats.bytes_sent),
            flash_ratio: share(stats.bytes_from_flash, stats.bytes_sent),
            flash: seen.flash.map(|flash| FlashFigures::of(&flash, seconds)),
            disks,
            ssds,
            waste_ratio: share(stats.wasted_bytes, stats.bytes_read),
            evicted_ratio: share(stats.prefetch_evicted_bytes, stats.bytes_read),
            jobs: stats.jobs,
            jobs_late_ratio: share(stats.jobs_late, stats.jobs),
            jobs_merged_ratio: share(stats.jobs_merged, stats.jobs + stats.jobs_merged),
            job_wanted_kib: share(stats.job_bytes_wanted / KIB, stats.jobs),
            queue_mean: ratio(stats.queue_time.as_secs_f64(), seconds),
            queue_demanded_mean: share(looks.queue_demanded, looks.looks),
            waited_ratio: share(waited, seen.waits.count()),
            wait_ms: DistributionSummary::of(&seen.waits),
            response_ms: DistributionSummary::of(&all),
            response_ms_by_class: seen
                .response_times
                .iter()
                .map(DistributionSummary::of)
                .collect(),
            memory: MemoryShares::mean_of(looks),
            prefetch_mib: ratio(prefetch, looks.looks as f64),
            evicted_mib_s: mib_s(stats.prefetch_evicted_bytes),
            eviction_s: eviction_s(stats),
            score_ms: score_ms(stats),
            viewing: seen.viewing.iter().map(ViewingRecord::of).collect(),
            series: {
                let pairs = seen.looks().windows(2);
                pairs
                    .map(|pair| SeriesSample::between(pair, disk_count))
                    .collect()
            },
        }
    }

    /// Column headings for [`Self::line`].
    pub fn heading() -> &'static str {
        "offered seed  ramp  fail viewers asked_for delivered   disk busy  reads/s read_KiB   ms/r goto  seek   rot xfer   \
         hit waste evict  late queue wait  wait_p90/p99/max_ms   resp_p99/max_s  mem_unread/send/read"
    }

    /// One line of a table for people.
    pub fn line(&self) -> String {
        let (wait, response, memory) = (&self.wait_ms, &self.response_ms, &self.memory);
        format!(
            "{:7.1} {:4} {:5} {:>5} {:7.0} {:9.1} {:9.1} {:6.1} {:4.0}% {:7.1} {:8.0} {:6.1} {:4.1} {:5.1} {:5.1} \
             {:4.0} {:4.1}% {:4.1}% {:4.1}% {:4.1}% {:5.1} {:3.0}% {:>20} {:>16} {:>21}",
            self.rate_mib_s,
            self.seed,
            self.ramp_failures,
            self.failures_by_kind(),
            self.viewers_mean,
            self.asked_for_mib_s,
            self.delivered_mib_s,
            self.disk_mib_s,
            self.busy * 100.0,
            ratio(self.reads as f64, self.seconds),
            self.read_kib,
            self.read_ms,
            self.repositions_per_read,
            self.seek_ms,
            self.rotation_ms,
            self.transfer_ms,
            self.hit_ratio * 100.0,
            self.waste_ratio * 100.0,
            self.evicted_ratio * 100.0,
            self.jobs_late_ratio * 100.0,
            self.queue_mean,
            self.waited_ratio * 100.0,
            format!("{:.0}/{:.0}/{:.0}", wait.p90, wait.p99, wait.max),
            format!("{:.2}/{:.2}", response.p99 / 1e3, response.max / 1e3),
            format!(
                "{:.0}/{:.0}/{:.0}%",
                memory.unread * 100.0,
                memory.sending * 100.0,
                memory.read * 100.0
            ),
        )
    }

    /// Lines for people about each disk and SSD, if there are several.
    pub fn devices(&self) -> Option<String> {
        let has_several = !self.disks.is_empty() || !self.ssds.is_empty();
        has_several.then(|| lines(&self.disks, &self.ssds))
    }

    /// Number of failures by kind, `t` timed out or broken, `r` refused; `0` if there are none.
    fn failures_by_kind(&self) -> String {
        match (self.failures - self.refused, self.refused) {
            (0, 0) => "0".to_owned(),
            (timed_out, 0) => format!("{timed_out}t"),
            (0, refused) => format!("{refused}r"),
            (timed_out, refused) => format!("{timed_out}t{refused}r"),
        }
    }
}

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

/// Activity of a flash tier within the window, and its state at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlashFigures {
    /// Capacity of its blocks, 10^9 bytes.
    pub capacity_gb: f64,
    /// Share of the capacity with readable records.
    pub filled_ratio: f64,
    /// Most bytes written in any 24 hours besides the initial fill, 10^9.
    pub budget_gb_per_day: f64,
    /// Bytes written per day at the rate of the window, 10^9.
    pub written_gb_per_day: f64,
    /// Bytes written.
    pub written_mib_s: f64,
    /// Bytes read.
    pub read_mib_s: f64,
    /// Bytes read for each byte written; none if nothing was written.
    pub reads_per_write: Option<f64>,
    /// Bytes written to flash for each byte written to the drive: 1, because all writes are whole
    /// blocks.
    pub write_amplification: f64,
    /// Offered bytes that were rejected: too little benefit, write budget, writes waiting for
    /// reads.
    pub refused_mib_s: [f64; 3],
    /// Records that arrived too late, so that the disk was read as well.
    #[serde(default, skip_serializing_if = "is_none")]
    pub late_records: u64,
    /// Bytes offered while no SSD was in service, MiB/s.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub out_of_service_mib_s: f64,
}

const GB: f64 = 1e9;

impl FlashFigures {
    pub(crate) fn of(flash: &FlashUse, seconds: f64) -> Self {
        let counts = &flash.counts;
        let mib_s = |bytes: u64| ratio(bytes as f64 / MIB as f64, seconds);
        let refused = [
            counts.not_worth_bytes,
            counts.over_budget_bytes,
            counts.busy_bytes,
        ];
        let (read, written) = (counts.read_bytes as f64, counts.written_bytes as f64);
        Self {
            capacity_gb: ratio(flash.capacity_bytes as f64, GB),
            filled_ratio: ratio(flash.filled_bytes as f64, flash.capacity_bytes as f64),
            budget_gb_per_day: ratio(flash.budget_bytes as f64, GB),
            written_gb_per_day: ratio(written / GB * DAY_S, seconds),
            written_mib_s: mib_s(counts.written_bytes),
            read_mib_s: mib_s(counts.read_bytes),
            reads_per_write: (written > 0.0).then(|| ratio(read, written)),
            write_amplification: 1.0,
            refused_mib_s: refused.map(mib_s),
            late_records: counts.late_records,
            out_of_service_mib_s: mib_s(counts.out_of_service_bytes),
        }
    }

    /// One line for people.
    pub fn line(&self, from_flash: f64) -> String {
        let reads = self.reads_per_write;
        let reads = reads.map_or("-".to_owned(), |reads| format!("{reads:.1}"));
        let [not_worth, budget, busy] = self.refused_mib_s;
        format!(
            "  flash: {:.0}% of bytes, {:.0}% of {:.1} GB filled; written {:.2} MiB/s, \
             {:.1} GB a day of {:.1}; {reads} bytes read per byte written; refused MiB/s: \
             not worth it {not_worth:.1}, budget {budget:.1}, busy {busy:.1}",
            from_flash * 100.0,
            self.filled_ratio * 100.0,
            self.capacity_gb,
            self.written_mib_s,
            self.written_gb_per_day,
            self.budget_gb_per_day,
        )
    }
}

/// Viewing quality in one network class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ViewingRecord {
    /// Name of the class.
    pub class: String,
    /// Sessions.
    pub sessions: u64,
    /// Sessions whose viewers left before playback started.
    pub gave_up: u64,
    /// From arrival to the start of playback.
    pub startup_ms: DistributionSummary,
    /// Sessions with at least one stall.
    pub stalled: u64,
    /// Number of stalls.
    pub stalls: u64,
    /// Time stalled, by the sum of time stalled and time played.
    pub stall_ratio: f64,
    /// Mean over sessions of the mean bit rate received; none if no session has one.
    pub kbps_mean: Option<f64>,
    /// Mean number of bit rate changes in a session.
    pub switches_mean: f64,
}

impl ViewingRecord {
    pub(crate) fn of(seen: &ViewingQuality) -> Self {
        let stalled_s = seen.stall_time.as_secs_f64();
        let (rated, sum) = seen.bit_rates;
        Self {
            class: seen.class.clone(),
            sessions: seen.sessions,
            gave_up: seen.gave_up,
            startup_ms: DistributionSummary::of(&seen.startup),
            stalled: seen.stalled,
            stalls: seen.stalls,
            stall_ratio: ratio(stalled_s, stalled_s + seen.played.as_secs_f64()),
            kbps_mean: (rated > 0).then(|| round(sum as f64 / rated as f64 / 1e3, 1)),
            switches_mean: ratio(seen.switches as f64, seen.sessions as f64),
        }
    }

    /// Column headings for [`Self::line`].
    pub fn heading() -> &'static str {
        "  class         sessions gave_up startup_p50/p99_ms stalled stalls of_time     kbps switches"
    }

    /// One line of a table for people.
    pub fn line(&self) -> String {
        let startup = format!("{:.0}/{:.0}", self.startup_ms.p50, self.startup_ms.p99);
        let kbps = self.kbps_mean;
        let kbps = kbps.map_or("-".to_owned(), |kbps| format!("{kbps:.1}"));
        format!(
            "  {:<13} {:8} {:7} {startup:>18} {:7} {:6} {:6.2}% {kbps:>8} {:8.2}",
            self.class,
            self.sessions,
            self.gave_up,
            self.stalled,
            self.stalls,
            self.stall_ratio * 100.0,
            self.switches_mean,
        )
    }
}

/// State at one moment, and activity since the previous sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesSample {
    /// Time from the start of the run.
    pub second: f64,
    /// Viewers present.
    pub viewers: u64,
    /// Bytes requested since the previous sample.
    #[serde(default)]
    pub asked_for_mib_s: f64,
    /// Bytes delivered since the previous sample.
    #[serde(default)]
    pub delivered_mib_s: f64,
    /// Bytes handed to replies since the previous sample.
    pub sent_mib_s: f64,
    /// Bytes read from the device since the previous sample.
    pub disk_mib_s: f64,
    /// Share of the time since the previous sample with a read outstanding.
    pub busy: f64,
    /// Queued jobs.
    pub queue: usize,
    /// Queued jobs that a reply waits for.
    pub queue_demanded: usize,
    /// Queued jobs past their deadline.
    pub queue_overdue: usize,
    /// Live chains.
    pub chains: usize,
    /// Disk time per 128 KiB requested since the previous sample: the controller's score.
    pub score_ms: f64,
    /// Prefetched bytes evicted unread since the previous sample.
    pub evicted_mib_s: f64,
    /// Mean age of those bytes in memory; zero if there were none.
    pub eviction_s: f64,
    /// Position of the latest read, from the start of the device.
    pub head_gib: f64,
    /// Reference size of prefetches in use.
    pub prefetch_mib: f64,
    /// Target of the reference size.
    pub prefetch_target_mib: f64,
    /// Disk time for each MiB sent at the controller's latest decision; none without a controller.
    pub score_ms_per_mib: Option<f64>,
    /// Reason of that decision.
    pub reason: Option<Cow<'static, str>>,
    /// Bytes evicted unread, by bytes sent, since the previous sample.
    pub evicted_ratio: f64,
    /// Division of memory.
    pub memory: MemoryShares,
}

/// Shares of memory by class of slots; the sum is 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct MemoryShares {
    /// Free.
    pub free: f64,
    /// Being read into.
    pub filling: f64,
    /// Prefetched and not yet sent.
    pub unread: f64,
    /// In sockets.
    pub sending: f64,
    /// Sent, and retained.
    pub read: f64,
}

impl SeriesSample {
    /// The sample for two consecutive snapshots.
    pub(crate) fn between(looks: &[Snapshot], disks: f64) -> Self {
        let (before, look) = (&looks[0], &looks[looks.len() - 1]);
        let stats = look.stats - before.stats;
        let seconds = look.at.since(before.at).as_secs_f64();
        let mib_s = |bytes: u64| ratio(bytes as f64 / MIB as f64, seconds);
        Self {
            second: round(look.at.since(Instant::ZERO).as_secs_f64(), 3),
            viewers: look.viewers,
            asked_for_mib_s: mib_s(look.asked_for_bytes - before.asked_for_bytes),
            delivered_mib_s: mib_s(look.delivered_bytes - before.delivered_bytes),
            sent_mib_s: mib_s(stats.bytes_sent),
            disk_mib_s: mib_s(stats.bytes_read),
            busy: ratio(stats.busy_time.as_secs_f64(), seconds * disks),
            queue: look.queue,
            queue_demanded: look.queue_demanded,
            queue_overdue: look.queue_overdue,
            chains: look.chains,
            score_ms: score_ms(&stats),
            evicted_mib_s: mib_s(stats.prefetch_evicted_bytes),
            eviction_s: eviction_s(&stats),
            head_gib: round(look.head_physical as f64 / (1u64 << 30) as f64, 3),
            memory: MemoryShares::of(classes(&look.memory).map(u128::from)),
            prefetch_mib: ratio(look.control.bytes as f64, MIB as f64),
            prefetch_target_mib: ratio(look.control.target_bytes as f64, MIB as f64),
            score_ms_per_mib: look
                .control
                .score
                .map(|score| round(score.as_secs_f64() * 1e3, 4)),
            reason: look.control.reason.map(|reason| reason.name().into()),
            evicted_ratio: ratio(stats.prefetch_evicted_bytes as f64, stats.bytes_sent as f64),
        }
    }
}

impl MemoryShares {
    pub(crate) fn mean_of(seen: &StateSums) -> Self {
        Self::of(seen.memory)
    }

    fn of(classes: [u128; 5]) -> Self {
        let all: u128 = classes.iter().sum();
        let [free, filling, unread, sending, read] =
            classes.map(|class| ratio(class as f64, all as f64));
        Self {
            free,
            filling,
            unread,
            sending,
            read,
        }
    }
}

/// Bytes of a FreeBSD disk transaction, the unit of disk time in the papers.
const TRANSACTION_BYTES: f64 = 131_072.0;

/// Disk time for 128 KiB requested, milliseconds.
pub(crate) fn score_ms(stats: &Stats) -> f64 {
    let transactions = stats.bytes_requested as f64 / TRANSACTION_BYTES;
    ratio(stats.busy_time.as_secs_f64() * 1e3, transactions)
}

/// Mean age in memory of evicted pieces, seconds.
pub(crate) fn eviction_s(stats: &Stats) -> f64 {
    let time = stats.prefetch_eviction_time.as_secs_f64();
    ratio(time, stats.prefetch_evictions as f64)
}
