//! The record of one run: figures for people and for programs.

use std::borrow::Cow;

use headlong_engine::Stats;
use headlong_units::{Duration, Instant, KIB, MIB};
use serde::{Deserialize, Serialize};

use crate::figures::{Spread, ratio, round};
use crate::flash_use::FlashUse;
use crate::histogram::Histogram;
use crate::measure::{Measure, Seen, Viewing, classes};
use crate::record_devices::{DiskFigures, SsdFigures, devices_of, lines};
use crate::series::Look;

/// Name and version of the form of [`Record`]. Fields are only ever added under one name.
pub const SCHEMA: &str = "headlong-simulate-1";

/// What is seen of one run in virtual time: figures taken within its window unless said otherwise. Times in seconds or, where
/// the name says so, milliseconds; rates in MiB/s.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: Cow<'static, str>,
    /// Sessions that began within the window and ended.
    pub sessions_steady: u64,
    /// Offered: the rate that the workload was generated for.
    pub rate_mib_s: f64,
    /// Its seed.
    pub seed: u64,
    /// How long the window was open.
    pub seconds: f64,
    /// Calls that failed.
    pub failures: u64,
    /// Of those, calls that were refused.
    pub refused: u64,
    /// Of those, calls that broke off or found nobody: the server was restarted.
    #[serde(default)]
    pub cut: u64,
    /// Calls that failed outside the window.
    pub failures_outside: u64,
    /// Calls that failed before the window opened.
    #[serde(default)]
    pub ramp_failures: u64,
    /// Viewers who came before it opened.
    #[serde(default)]
    pub ramp_sessions: u64,
    /// When the last call failed before it opened, from the beginning of the run; 0 if none did.
    #[serde(default)]
    pub ramp_failed_last_s: f64,
    /// Calls that failed, by class of the network.
    pub failures_by_class: Vec<u64>,
    /// Viewers who came in the whole run.
    pub sessions: u64,
    /// Calls that ended.
    pub calls: u64,
    /// Viewers present, on average.
    pub viewers_mean: f64,
    /// Viewers present, at most.
    pub viewers_max: u64,
    /// Asked for: bytes that requests sent within the window asked for.
    #[serde(default)]
    pub asked_for_mib_s: f64,
    /// Delivered: bytes that reached viewers within the window.
    #[serde(default)]
    pub delivered_mib_s: f64,
    /// Goodput: bytes of calls answered whole.
    pub served_mib_s: f64,
    /// Bytes read from the device.
    pub disk_mib_s: f64,
    /// Share of the time during which a read was outstanding; of several disks, on average.
    pub busy: f64,
    /// Reads issued.
    pub reads: u64,
    /// Mean size of a read.
    pub read_kib: f64,
    /// Time during which a read was outstanding, for each read.
    pub read_ms: f64,
    /// How often the drive had to go somewhere for a read: more than once if it works on several
    /// by turns.
    pub repositions_per_read: f64,
    /// Of the drive's own time for each read: moving the arm.
    pub seek_ms: f64,
    /// Waiting for the sector.
    pub rotation_ms: f64,
    /// Moving bytes.
    pub transfer_ms: f64,
    /// Commands and everything else.
    pub overhead_ms: f64,
    /// Bytes sent that had been read before, by bytes sent.
    pub hit_ratio: f64,
    /// Bytes sent that were in memory when asked for, by bytes sent.
    pub ram_ratio: f64,
    /// Bytes sent that were read from flash for it, by bytes sent; left out without any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flash_ratio: f64,
    /// What the flash tier did; left out without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash: Option<FlashFigures>,
    /// Each disk of several; left out of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskFigures>,
    /// Each SSD, of several or below several disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssds: Vec<SsdFigures>,
    /// Bytes read that nobody read, by bytes read.
    pub waste_ratio: f64,
    /// Bytes prefetched for a live chain and evicted unread, by bytes read.
    pub evicted_ratio: f64,
    /// Jobs completed.
    pub jobs: u64,
    /// Share of jobs that came late.
    pub jobs_late_ratio: f64,
    /// Share of jobs that merged into others.
    pub jobs_merged_ratio: f64,
    /// Mean bytes the rule asked for, for each job.
    pub job_wanted_kib: f64,
    /// Jobs waiting, on average.
    pub queue_mean: f64,
    /// Of those, jobs that somebody waited for, on average.
    pub queue_demanded_mean: f64,
    /// Share of calls whose first piece was not there when they were asked.
    pub waited_ratio: f64,
    /// Waits for the first piece, at the server.
    pub wait_ms: Spread,
    /// From sending a call to its last byte.
    pub response_ms: Spread,
    /// The same by class of the network.
    pub response_ms_by_class: Vec<Spread>,
    /// Mean division of memory.
    pub memory: MemoryShares,
    /// The prefetch size in use, on average.
    pub prefetch_mib: f64,
    /// Prefetched bytes that were evicted unread.
    pub evicted_mib_s: f64,
    /// How long they had been in memory, on average.
    pub eviction_s: f64,
    /// Disk time per 128 KiB asked for: time per byte times the miss ratio, which the paper's
    /// controller makes as small as it can (automated-prefetching 4.1).
    pub score_ms: f64,
    /// What viewers saw who came within the window and left in the run, by class of the network.
    #[serde(default)]
    pub viewing: Vec<Viewed>,
    /// How things went, from the beginning of the run on.
    pub series: Vec<Sample>,
}

/// What viewers of one network class saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Viewed {
    /// Name of the class.
    pub class: String,
    /// Sessions.
    pub sessions: u64,
    /// Of those, sessions whose viewers did not wait any longer for the picture.
    pub gave_up: u64,
    /// From arrival until the picture moved.
    pub startup_ms: Spread,
    /// Sessions in which the picture stood still.
    pub stalled: u64,
    /// How often it did.
    pub stalls: u64,
    /// Time for which it did, by that and the time that was played.
    pub stall_ratio: f64,
    /// Mean over sessions of the mean bit rate of what came; nothing if it is known of none.
    pub kbps_mean: Option<f64>,
    /// Changes of bit rate in a session, on average.
    pub switches_mean: f64,
}

impl Viewed {
    fn of(seen: &Viewing) -> Self {
        let stalled_s = seen.stall_time.as_secs_f64();
        let (rated, sum) = seen.bit_rates;
        Self {
            class: seen.class.clone(),
            sessions: seen.sessions,
            gave_up: seen.gave_up,
            startup_ms: Spread::of(&seen.startup),
            stalled: seen.stalled,
            stalls: seen.stalls,
            stall_ratio: ratio(stalled_s, stalled_s + seen.played.as_secs_f64()),
            kbps_mean: (rated > 0).then(|| round(sum as f64 / rated as f64 / 1e3, 1)),
            switches_mean: ratio(seen.switches as f64, seen.sessions as f64),
        }
    }

    /// Names of what [`Self::line`] shows, above it.
    pub fn heading() -> &'static str {
        "  class         sessions gave_up startup_p50/p99_ms stalled stalls of_time     kbps switches"
    }

    /// One line for a person.
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

/// What a flash tier did within the window, and how it stood at the end of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlashFigures {
    /// Bytes of its blocks, 10^9.
    pub capacity_gb: f64,
    /// Share of them with records that can be read.
    pub filled_ratio: f64,
    /// Most that it writes in any day beyond its first filling, 10^9 bytes.
    pub budget_gb_per_day: f64,
    /// Written, if a day were as the window: 10^9 bytes a day.
    pub written_gb_per_day: f64,
    /// Written.
    pub written_mib_s: f64,
    /// Read from it.
    pub read_mib_s: f64,
    /// Bytes read from it for each byte written; nothing if none was written.
    pub reads_per_write: Option<f64>,
    /// Bytes written to flash for each byte written to the drive: 1, for all writes are whole blocks.
    pub write_amplification: f64,
    /// Offered and not taken, by why: too little would be saved, the budget, reads go first.
    pub refused_mib_s: [f64; 3],
    /// Records that came too late, so that the disk was asked too.
    #[serde(default, skip_serializing_if = "is_none")]
    pub late_records: u64,
    /// Offered while no SSD was in service, MiB/s.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub out_of_service_mib_s: f64,
}

const DAY_S: f64 = 86_400.0;
const GB: f64 = 1e9;

impl FlashFigures {
    fn of(flash: &FlashUse, seconds: f64) -> Self {
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

    /// One line for a person.
    pub fn line(&self, from_flash: f64) -> String {
        let reads = self.reads_per_write;
        let reads = reads.map_or("-".to_owned(), |reads| format!("{reads:.1}"));
        let [not_worth, budget, busy] = self.refused_mib_s;
        format!(
            "  flash: {:.0}% of bytes, {:.0}% of {:.1} GB filled; written {:.2} MiB/s, {:.1} GB a day \
             of {:.1}; read {reads} times what was written; refused MiB/s: not worth it {not_worth:.1}, \
             budget {budget:.1}, busy {busy:.1}",
            from_flash * 100.0,
            self.filled_ratio * 100.0,
            self.capacity_gb,
            self.written_mib_s,
            self.written_gb_per_day,
            self.budget_gb_per_day,
        )
    }
}

/// One moment, and what happened since the one before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When, from the beginning of the run.
    pub second: f64,
    /// Viewers present.
    pub viewers: u64,
    /// Asked for by requests sent since the moment before.
    #[serde(default)]
    pub asked_for_mib_s: f64,
    /// Delivered since the moment before.
    #[serde(default)]
    pub delivered_mib_s: f64,
    /// Bytes handed to replies since the moment before.
    pub sent_mib_s: f64,
    /// Bytes read from the device since the moment before.
    pub disk_mib_s: f64,
    /// Share of the time since the moment before during which a read was outstanding.
    pub busy: f64,
    /// Jobs waiting.
    pub queue: usize,
    /// Of those, jobs somebody waits for.
    pub queue_demanded: usize,
    /// Of those, jobs past their deadline.
    pub queue_overdue: usize,
    /// Live chains.
    pub chains: usize,
    /// Disk time per 128 KiB asked for since the moment before: what the size is judged by.
    pub score_ms: f64,
    /// Prefetched bytes evicted unread since the moment before.
    pub evicted_mib_s: f64,
    /// How long those had been in memory, on average; zero of none.
    pub eviction_s: f64,
    /// Where the device last read, from its start.
    pub head_gib: f64,
    /// Reference size of prefetches in use.
    pub prefetch_mib: f64,
    /// The size it is going to.
    pub prefetch_target_mib: f64,
    /// Disk time for each MiB sent when the size was last judged; none without a controller.
    pub score_ms_per_mib: Option<f64>,
    /// What came of that.
    pub reason: Option<Cow<'static, str>>,
    /// Bytes evicted before anybody read them, by bytes sent, since the moment before.
    pub evicted_ratio: f64,
    /// Division of memory.
    pub memory: MemoryShares,
}

/// Shares of memory by class of slots; they add up to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct MemoryShares {
    /// Holding nothing.
    pub free: f64,
    /// Being read into.
    pub filling: f64,
    /// Prefetched and not read yet.
    pub unread: f64,
    /// In the sockets.
    pub sending: f64,
    /// Read, and kept.
    pub read: f64,
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl Record {
    /// The figures of what was seen.
    pub fn new(rate_mib_s: f64, seed: u64, seen: &Measure) -> Self {
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
            wait_ms: Spread::of(&seen.waits),
            response_ms: Spread::of(&all),
            response_ms_by_class: seen.response_times.iter().map(Spread::of).collect(),
            memory: MemoryShares::mean_of(looks),
            prefetch_mib: ratio(prefetch, looks.looks as f64),
            evicted_mib_s: mib_s(stats.prefetch_evicted_bytes),
            eviction_s: eviction_s(stats),
            score_ms: score_ms(stats),
            viewing: seen.viewing.iter().map(Viewed::of).collect(),
            series: {
                let pairs = seen.looks().windows(2);
                pairs
                    .map(|pair| Sample::between(pair, disk_count))
                    .collect()
            },
        }
    }

    /// Names of what [`Self::line`] shows, above it.
    pub fn heading() -> &'static str {
        "offered seed  ramp  fail viewers asked_for delivered   disk busy  reads/s read_KiB   ms/r goto  seek   rot xfer   \
         hit waste evict  late queue wait  wait_p90/p99/max_ms   resp_p99/max_s  mem_unread/send/read"
    }

    /// One line for a person.
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
}

impl Record {
    /// Lines for a person about each disk and SSD, of a world with several.
    pub fn devices(&self) -> Option<String> {
        let has_several = !self.disks.is_empty() || !self.ssds.is_empty();
        has_several.then(|| lines(&self.disks, &self.ssds))
    }
}

impl Sample {
    /// What two looks, one after the other, show.
    fn between(looks: &[Look], disks: f64) -> Self {
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

impl Record {
    /// Failures, and of what kind if there are any: `t` timed out or broken, `r` refused.
    fn failures_by_kind(&self) -> String {
        match (self.failures - self.refused, self.refused) {
            (0, 0) => "0".to_owned(),
            (timed_out, 0) => format!("{timed_out}t"),
            (0, refused) => format!("{refused}r"),
            (timed_out, refused) => format!("{timed_out}t{refused}r"),
        }
    }
}

impl MemoryShares {
    fn mean_of(seen: &Seen) -> Self {
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

/// Bytes of a transaction of FreeBSD's, by which the papers count disk time.
const TRANSACTION_BYTES: f64 = 131_072.0;

/// Milliseconds of the disk for 128 KiB that were asked for.
fn score_ms(stats: &Stats) -> f64 {
    let transactions = stats.bytes_requested as f64 / TRANSACTION_BYTES;
    ratio(stats.busy_time.as_secs_f64() * 1e3, transactions)
}

/// Seconds that evicted pieces had been in memory, on average.
fn eviction_s(stats: &Stats) -> f64 {
    let time = stats.prefetch_eviction_time.as_secs_f64();
    ratio(time, stats.prefetch_evictions as f64)
}
