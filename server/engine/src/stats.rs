//! Counters of a shard: thesis 4.1 and Table 4.1, measured in the server.
//!
//! Counters only grow, so that the difference of two snapshots is a measurement. The ratios of
//! Table 4.1 are ratios of these: disk / requested is `bytes_read / bytes_requested`, cached /
//! requested is `bytes_reused / bytes_requested`, and so on.
//! requested is `bytes_reused / bytes_requested`, and so on.

use core::ops::{Add, Sub};

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headlong_units::Duration;

use crate::config::Policy;

/// Counters of one shard since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Requests accepted.
    pub requests: u64,
    /// Requests refused because the device was overloaded, offline, or a table was full.
    pub requests_refused: u64,
    /// Requests that failed after they were accepted.
    pub requests_failed: u64,
    /// Bytes of accepted requests (open-ended ones count as they are sent).
    pub bytes_requested: u64,
    /// Bytes handed to replies.
    pub bytes_sent: u64,
    /// Of those, bytes that were in RAM when the reply reached them.
    pub bytes_from_ram: u64,
    /// Of those, bytes whose reply had to wait for the device.
    pub bytes_from_disk: u64,
    /// Of those, bytes that were read from flash for the reply.
    pub bytes_from_flash: u64,
    /// Of those, bytes of pieces that had been sent before: the savings of the cache, whereas
    /// `bytes_from_ram` includes prefetched bytes that arrived in time.
    pub bytes_reused: u64,
    /// Reads issued to the device.
    pub reads: u64,
    /// Reads that ended.
    pub reads_done: u64,
    /// Of those, reads that failed.
    pub read_errors: u64,
    /// Bytes requested from the device.
    pub bytes_read: u64,
    /// Prefetch jobs completed: one job is one or more reads, one for each file that it spans.
    pub jobs: u64,
    /// Bytes of completed jobs.
    pub job_bytes: u64,
    /// Bytes that the policy wanted in those jobs, before memory, end of file or present pieces
    /// limited them.
    pub job_bytes_wanted: u64,
    /// Jobs that merged into another job's read.
    pub jobs_merged: u64,
    /// Jobs whose bytes arrived after their deadline.
    pub jobs_late: u64,
    /// Time during which at least one read was outstanding.
    pub busy_time: Duration,
    /// Queued jobs, integrated over time (job-nanoseconds): its rate is the mean queue length.
    pub queue_time: Duration,
    /// Sum of the distances between the end of one read and the start of the next, bytes. On a
    /// large disk it wraps around every day or two.
    pub seek_bytes: u64,
    /// Reads that did not start at the end of the previous one.
    pub seeks: u64,
    /// Bytes of pieces that were prefetched for a live chain and evicted before it read them.
    pub prefetch_evicted_bytes: u64,
    /// Number of those pieces.
    pub prefetch_evictions: u64,
    /// Time they had been in memory, summed (thesis 4.2.1: prefetch eviction time).
    pub prefetch_eviction_time: Duration,
    /// Bytes read from the device and dropped without having been sent.
    pub wasted_bytes: u64,
    /// Bytes evicted after they had been sent at least once.
    pub cache_evicted_bytes: u64,
    /// Announced requests (CMCD `nor`) that were considered.
    pub announced: u64,
    /// Of those, requests for which a job was queued.
    pub announced_read: u64,
    /// Chains begun for announced requests whose request arrived.
    pub announced_met: u64,
    /// Chains begun.
    pub chains: u64,
    /// Chains refused because the device was overloaded.
    pub chains_refused: u64,
    /// Chains that were joined to another, after a request between the two had arrived.
    pub chains_joined: u64,
    /// Bytes from each chain's first to its last, counted as chains grow: divided by `chains` minus
    /// `chains_joined` it is the mean length of a chain (thesis 5.3).
    pub chain_bytes: u64,
}

/// The same operation on every counter; omitting one does not compile.
macro_rules! each_counter {
    ($left:ident $operation:ident $right:ident: $($counter:ident),+ $(,)?) => {
        Stats { $($counter: $left.$counter.$operation($right.$counter)),+ }
    };
}

macro_rules! counters {
    ($left:ident $operation:ident $right:ident) => {
        each_counter!(
            $left $operation $right:
            requests, requests_refused, requests_failed, bytes_requested, bytes_sent,
            bytes_from_ram, bytes_from_disk, bytes_from_flash, bytes_reused, reads, reads_done,
            read_errors, bytes_read, jobs, job_bytes, job_bytes_wanted, jobs_merged,
            jobs_late, busy_time, queue_time, seek_bytes, seeks, prefetch_evicted_bytes,
            prefetch_evictions, prefetch_eviction_time, wasted_bytes,
            cache_evicted_bytes, announced, announced_read, announced_met, chains, chains_refused, chains_joined, chain_bytes
        )
    };
}

impl Add for Stats {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        counters!(self add other)
    }
}

impl Sub for Stats {
    type Output = Self;
    /// Difference of two snapshots of one shard, `other` being the earlier.
    fn sub(self, other: Self) -> Self {
        counters!(self sub other)
    }
}

/// The same counters, by the policy in force when they were counted.
///
/// Invariant: they add up to the counters of the shard.
#[derive(Debug, Default)]
pub(crate) struct StatsByPolicy {
    /// Counters under each policy until the present one came into force.
    before: BTreeMap<Policy, Stats>,
    /// The counters at that moment.
    at_change: Stats,
}

impl StatsByPolicy {
    /// Closes the account of `policy`, which was in force until now.
    pub(crate) fn close(&mut self, policy: Policy, now: Stats) {
        self.before = self.until_now(policy, now).into_iter().collect();
        self.at_change = now;
    }

    /// Each policy with its counters.
    pub(crate) fn until_now(&self, policy: Policy, now: Stats) -> Vec<(Policy, Stats)> {
        let mut stats = self.before.clone();
        let present = stats.entry(policy).or_default();
        *present = *present + (now - self.at_change);
        stats.into_iter().collect()
    }
}

/// Division of a shard's memory at one moment, in bytes; the five add up to the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// Empty.
    pub free_bytes: u64,
    /// Being read into.
    pub filling_bytes: u64,
    /// Handed to at least one reply and not yet taken by its socket.
    pub sending_bytes: u64,
    /// Prefetched for a chain that has not read it yet.
    pub unread_bytes: u64,
    /// Sent before and retained, or left over by a chain that ended.
    pub read_bytes: u64,
}

/// The queue of one device at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueUse {
    /// Jobs waiting.
    pub jobs: usize,
    /// Of those, jobs that a reply waits for.
    pub jobs_demanded: usize,
    /// Of those, jobs past their deadline.
    pub jobs_overdue: usize,
    /// Reads outstanding at the device.
    pub outstanding_reads: usize,
    /// Where the device last read, bytes from its start.
    pub head_physical: u64,
}
