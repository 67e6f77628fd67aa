//! Snapshots of a device.

use headlong_engine::Stats;

use super::{DeviceEngine, DeviceProperties};
use crate::DeviceSnapshot;
use crate::flash::SsdQueue;
use crate::io::IoMode;

/// Upper limit of queue positions in a snapshot.
const QUEUE_POSITIONS_MAX: usize = 64;

/// Upper limit of chains in a snapshot.
const CHAINS_MAX: usize = 200;

impl DeviceEngine {
    /// Counters of the shard, plus the requests served from the sendfile cache without it.
    fn stats(&self) -> Stats {
        let (requests, bytes) = self.host.pool.unseen();
        let mut stats = self.core.shard().stats();
        stats.requests += requests;
        stats.bytes_requested += bytes;
        stats.bytes_sent += bytes;
        stats.bytes_from_ram += bytes;
        stats.bytes_reused += bytes;
        stats
    }

    /// Takes a snapshot.
    pub(super) fn snapshot(&self) -> DeviceSnapshot {
        let DeviceProperties {
            name,
            roots,
            rotational,
            capacity_bytes,
        } = self.identity.clone();
        let control = self.core.shard().control_view();
        let mut config = self.config;
        config.sizing.reference_bytes = control.bytes;
        DeviceSnapshot {
            name,
            roots,
            rotational,
            io: io_name(self.io_mode, self.core.is_direct()),
            capacity_bytes,
            state: self.core.shard().device_state(),
            is_overloaded: self.core.shard().is_overloaded(),
            config,
            control: Some(control),
            stats: self.stats(),
            stats_by_policy: self.core.shard().stats_by_policy(),
            memory: self.core.shard().memory_use(),
            sendfile_cache: self.host.pool.sendfile_cache_use(),
            queue: self.core.shard().queue_use(),
            queue_positions: self.core.shard().queue_positions(QUEUE_POSITIONS_MAX),
            chain_count: self.core.shard().chain_count(),
            chains: self.core.shard().chain_views(CHAINS_MAX),
            saved_state_age: self.core.restored_chains().age(),
            flash: self.core.shard().flash_view(),
            ssd_paths: self
                .host
                .flash
                .as_ref()
                .map_or_else(Vec::new, SsdQueue::paths),
        }
    }
}

/// Name of the I/O interface for the operator.
fn io_name(mode: IoMode, direct: bool) -> &'static str {
    match (mode, direct) {
        (IoMode::Pread, true) => "pread, O_DIRECT",
        (IoMode::Pread, false) => "pread, buffered",
        (_, true) => "io_uring, O_DIRECT",
        (_, false) => "io_uring, buffered",
    }
}
