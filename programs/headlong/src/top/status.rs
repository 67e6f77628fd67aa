//! What is read of `/status`; all else in it is passed over.

use serde::Deserialize;

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Status {
    pub(super) version: String,
    pub(super) started_unix_ms: u64,
    pub(super) uptime_ms: u64,
    pub(super) state: String,
    pub(super) connections: Connections,
    pub(super) devices: Vec<Device>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Connections {
    pub(super) open: u64,
    pub(super) requests_active: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) policy: Policy,
    pub(super) memory: Memory,
    pub(super) queue: Queue,
    pub(super) counters: Counters,
    pub(super) chains: Chains,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Policy {
    pub(super) reference_bytes: u64,
}

/// Memory by class. The classes add up to the pool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
pub(super) struct Memory {
    pub(super) budget_bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) filling_bytes: u64,
    pub(super) sending_bytes: u64,
    pub(super) unread_bytes: u64,
    pub(super) read_bytes: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Queue {
    pub(super) jobs: u64,
    pub(super) jobs_overdue: u64,
    pub(super) outstanding_reads: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Counters {
    pub(super) busy_seconds: f64,
    pub(super) reads: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_from_ram: u64,
    pub(super) bytes_from_flash: u64,
    pub(super) bytes_from_disk: u64,
    pub(super) requests_refused: u64,
    pub(super) read_errors: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Chains {
    pub(super) live: u64,
    pub(super) shown: Vec<Chain>,
}

/// A viewer who reads a title.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
pub(super) struct Chain {
    pub(super) path: String,
    pub(super) pace_bps: u64,
    pub(super) unread_bytes: u64,
    pub(super) prefetch_bytes: u64,
    pub(super) slack_ms: u64,
}
