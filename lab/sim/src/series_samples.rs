//! The time series in the record of a run.

use std::borrow::Cow;

use headlong_engine::Stats;
use headlong_units::{Instant, MIB};
use serde::{Deserialize, Serialize};

use crate::distribution_summary::{ratio, round};
use crate::measure::{StateSums, classes};
use crate::series::Snapshot;

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
