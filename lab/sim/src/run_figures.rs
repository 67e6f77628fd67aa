//! The record of one run, as a line for people and as JSON.

use std::borrow::Cow;

use headlong_units::{Duration, KIB, MIB};
use serde::{Deserialize, Serialize};

use crate::device_figures::{DiskFigures, SsdFigures, devices_of, lines};
use crate::distribution_summary::{DistributionSummary, is_zero, ratio, round};
use crate::flash_figures::FlashFigures;
use crate::histogram::Histogram;
use crate::measure::RunMeasurements;
use crate::series_samples::{MemoryShares, SeriesSample, eviction_s, score_ms};
use crate::viewing_figures::ViewingRecord;

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
