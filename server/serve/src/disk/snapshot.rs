//! What a device looks like at one moment, for `/status`, the metrics and the dashboard.

use std::path::PathBuf;

use headlong_engine::{
    ChainView, ControlView, DeviceState, EngineConfig, MemoryUse, Policy, QueueUse, Stats,
};
use headlong_flash::FlashView;
use headlong_units::Duration;

use crate::raw::CopiesUse;

/// Everything an operator may see of one device. Taken by the device's thread, so that all of it
/// belongs to the same moment.
#[derive(Debug, Clone)]
pub struct DeviceSnapshot {
    /// Kernel name of the device (`sda`, `loop0`), or the root's name where there is none.
    pub name: String,
    /// Roots that lie on it.
    pub roots: Vec<PathBuf>,
    /// Whether it is treated as rotating.
    pub rotational: bool,
    /// How it is read: `io_uring` or `pread`, then `O_DIRECT` or `buffered`; `stopped` if its thread
    /// ended.
    pub io: &'static str,
    /// Capacity in bytes, zero if unknown.
    pub capacity_bytes: u64,
    /// Health.
    pub state: DeviceState,
    /// Whether new viewers are refused, or would be by another setting.
    pub is_overloaded: bool,
    /// Settings in force; with a controller, the reference size is the one in use.
    pub config: EngineConfig,
    /// The controller of the reference size.
    pub control: Option<ControlView>,
    /// Counters since the start.
    pub stats: Stats,
    /// The same by the policy in force when they were counted.
    pub stats_by_policy: Vec<(Policy, Stats)>,
    /// Memory by class.
    pub memory: MemoryUse,
    /// What copies for sockets take beside it, if there may be any.
    pub copies: Option<CopiesUse>,
    /// The queue.
    pub queue: QueueUse,
    /// Physical positions of queued jobs, ascending, at most 64.
    pub queue_positions: Vec<u64>,
    /// Live chains in all.
    pub chain_count: usize,
    /// The chains closest to running dry, at most 200.
    pub chains: Vec<ChainView>,
    /// How old what was learned by the process before was when it was taken over; `None` if nothing
    /// was.
    pub learned_age: Option<Duration>,
    /// Its part of the flash tier, if it has one and it has been looked at.
    pub flash: Option<FlashView>,
    /// Where the tier's SSDs are, by their numbers.
    pub ssd_paths: Vec<PathBuf>,
}
