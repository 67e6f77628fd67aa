//! Table of a device's counters, with their names in `/status` and in `/metrics`.
//!
//! Every field of [`Stats`] is destructured by name, so a new counter of the engine does not
//! compile without a row here.

use std::fmt;

use headlong_engine::Stats;
use headlong_units::Duration;
use prometheus_client::encoding::MetricEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::encode::MetricValue;

/// A counter of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counter {
    /// Name in `/status`.
    pub(super) field: &'static str,
    /// Name in `/metrics`, without prefix, unit and `_total`.
    pub(super) metric: &'static str,
    /// Help text in `/metrics`.
    pub(super) help: &'static str,
    /// Its value.
    pub(super) value: CounterValue,
}

/// A value with its unit.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub(super) enum CounterValue {
    Count(u64),
    Bytes(u64),
    Seconds(f64),
}

impl CounterValue {
    /// Its unit in `/metrics`.
    pub(super) const fn unit(self) -> Option<Unit> {
        match self {
            Self::Count(_) => None,
            Self::Bytes(_) => Some(Unit::Bytes),
            Self::Seconds(_) => Some(Unit::Seconds),
        }
    }
}

impl MetricValue for CounterValue {
    fn encode(self, metric: MetricEncoder<'_>, kind: MetricType) -> fmt::Result {
        match self {
            Self::Count(value) | Self::Bytes(value) => value.encode(metric, kind),
            Self::Seconds(value) => value.encode(metric, kind),
        }
    }
}

fn count(value: u64) -> CounterValue {
    CounterValue::Count(value)
}

fn bytes(value: u64) -> CounterValue {
    CounterValue::Bytes(value)
}

fn seconds(value: Duration) -> CounterValue {
    CounterValue::Seconds(value.as_secs_f64())
}

/// All counters, in the order of `/status`.
#[rustfmt::skip]
pub(super) fn counters(stats: &Stats) -> [Counter; 34] {
    let Stats {
        requests, requests_refused, requests_failed, bytes_requested, bytes_sent, bytes_from_ram,
        bytes_from_flash, bytes_from_disk, bytes_reused, reads, reads_done, read_errors, bytes_read, jobs, job_bytes,
        job_bytes_wanted, jobs_merged, jobs_late, busy_time, queue_time, seek_bytes, seeks,
        prefetch_evicted_bytes, prefetch_evictions, prefetch_eviction_time, wasted_bytes,
        cache_evicted_bytes, announced, announced_read, announced_met, chains, chains_refused, chains_joined, chain_bytes,
    } = *stats;
    [
        row("requests", "requests", "Requests accepted", count(requests)),
        row("requests_refused", "requests_refused", "Requests refused: overload, offline, full table", count(requests_refused)),
        row("requests_failed", "requests_failed", "Requests that failed after they were accepted", count(requests_failed)),
        row("bytes_requested", "requested", "Bytes of the accepted requests; for open-ended ones, as they are sent", bytes(bytes_requested)),
        row("bytes_sent", "sent", "Bytes handed to replies", bytes(bytes_sent)),
        row("bytes_from_ram", "sent_from_ram", "Of those, bytes that were in memory when the reply reached them", bytes(bytes_from_ram)),
        row("bytes_from_flash", "sent_from_flash", "Of those, bytes that were read from flash for the reply", bytes(bytes_from_flash)),
        row("bytes_from_disk", "sent_from_disk", "Of those, bytes for which the reply waited for the device", bytes(bytes_from_disk)),
        row("bytes_reused", "sent_reused", "Of those, bytes of pieces that had been read before", bytes(bytes_reused)),
        row("reads", "reads", "Reads issued to the device", count(reads)),
        row("reads_done", "reads_done", "Reads that ended", count(reads_done)),
        row("read_errors", "read_errors", "Reads that failed", count(read_errors)),
        row("bytes_read", "read", "Bytes requested from the device", bytes(bytes_read)),
        row("jobs", "jobs", "Prefetch jobs completed", count(jobs)),
        row("job_bytes", "job", "Bytes of the jobs completed", bytes(job_bytes)),
        row("job_bytes_wanted", "job_wanted", "Bytes that the policy requested in those jobs", bytes(job_bytes_wanted)),
        row("jobs_merged", "jobs_merged", "Jobs that merged into the read of another", count(jobs_merged)),
        row("jobs_late", "jobs_late", "Jobs whose bytes arrived after their deadline", count(jobs_late)),
        row("busy_seconds", "busy", "Time with at least one read outstanding", seconds(busy_time)),
        row("queue_job_seconds", "queue_job", "Queued jobs integrated over time: its rate is the mean queue length", seconds(queue_time)),
        row("seek_bytes", "seek", "Distances between the end of a read and the start of the next, modulo 2^64", bytes(seek_bytes)),
        row("seeks", "seeks", "Reads that did not start where the previous one ended", count(seeks)),
        row("prefetch_evicted_bytes", "prefetch_evicted", "Bytes prefetched for a live chain and evicted unread", bytes(prefetch_evicted_bytes)),
        row("prefetch_evictions", "prefetch_evictions", "Pieces prefetched for a live chain and evicted unread", count(prefetch_evictions)),
        row("prefetch_eviction_seconds", "prefetch_eviction", "Time those pieces had been in memory", seconds(prefetch_eviction_time)),
        row("wasted_bytes", "wasted", "Bytes read from the device and dropped before any reply used them", bytes(wasted_bytes)),
        row("cache_evicted_bytes", "cache_evicted", "Bytes evicted after they had been read", bytes(cache_evicted_bytes)),
        row("announced", "announced", "Times that players announced their next request", count(announced)),
        row("announced_read", "announced_read", "Of those, times that some of it was read ahead", count(announced_read)),
        row("announced_met", "announced_met", "Of the chains begun for it, those whose request arrived", count(announced_met)),
        row("chains", "chains", "Chains begun", count(chains)),
        row("chains_refused", "chains_refused", "Chains refused because the device was overloaded", count(chains_refused)),
        row("chains_joined", "chains_joined", "Chains that were merged into another", count(chains_joined)),
        row("chain_bytes", "chain", "Bytes from the first to the last of each chain, counted as chains grow", bytes(chain_bytes)),
    ]
}

fn row(
    field: &'static str,
    metric: &'static str,
    help: &'static str,
    value: CounterValue,
) -> Counter {
    Counter {
        field,
        metric,
        help,
        value,
    }
}
