//! How a run went, moment by moment, as it stands in its record.

use std::borrow::Cow;

use headlong_engine::Stats;
use headlong_units::{Instant, MIB};
use serde::{Deserialize, Serialize};

use crate::figures::{ratio, round};
use crate::measure::{Seen, classes};
use crate::series::Look;

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

impl Sample {
    /// What two looks, one after the other, show.
    pub(crate) fn between(looks: &[Look], disks: f64) -> Self {
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
    pub(crate) fn mean_of(seen: &Seen) -> Self {
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
pub(crate) fn score_ms(stats: &Stats) -> f64 {
    let transactions = stats.bytes_requested as f64 / TRANSACTION_BYTES;
    ratio(stats.busy_time.as_secs_f64() * 1e3, transactions)
}

/// Seconds that evicted pieces had been in memory, on average.
pub(crate) fn eviction_s(stats: &Stats) -> f64 {
    let time = stats.prefetch_eviction_time.as_secs_f64();
    ratio(time, stats.prefetch_evictions as f64)
}
