//! State of a device at one moment, for `/status`, the metrics and the dashboard.

use std::path::PathBuf;

use headlong_engine::{
    ChainView, ControlView, DeviceState, EngineConfig, MemoryUse, Policy, QueueUse, Stats,
};
use headlong_flash::FlashView;
use headlong_units::Duration;

use headlong_kernel::raw::SendfileCacheUse;

/// Everything an operator may see of one device. Taken under the engine's lock, so that all values
/// belong to the same moment.
#[derive(Debug, Clone)]
pub struct DeviceSnapshot {
    /// Kernel name of the device (`sda`, `loop0`), or the name of the root if there is none.
    pub name: String,
    /// Roots that lie on it.
    pub roots: Vec<PathBuf>,
    /// Whether it is treated as a rotating disk.
    pub rotational: bool,
    /// I/O interface: `io_uring` or `pread`, followed by `O_DIRECT` or `buffered`; `stopped` if the
    /// thread has ended.
    pub io: &'static str,
    /// Capacity in bytes, zero if unknown.
    pub capacity_bytes: u64,
    /// Health.
    pub state: DeviceState,
    /// Whether new viewers are refused, or would be with admission control on.
    pub is_overloaded: bool,
    /// Settings in force; with a controller, the reference size in use.
    pub config: EngineConfig,
    /// The controller of the reference size.
    pub control: Option<ControlView>,
    /// Counters since the start.
    pub stats: Stats,
    /// Counters by the policy in force when they were counted.
    pub stats_by_policy: Vec<(Policy, Stats)>,
    /// Memory by class.
    pub memory: MemoryUse,
    /// Memory used by the sendfile cache, if there is one.
    pub sendfile_cache: Option<SendfileCacheUse>,
    /// The queue.
    pub queue: QueueUse,
    /// Physical positions of queued jobs, ascending, at most 64.
    pub queue_positions: Vec<u64>,
    /// Number of live chains.
    pub chain_count: usize,
    /// The chains with the least slack, at most 200.
    pub chains: Vec<ChainView>,
    /// Age of the state learned by the previous process when it was loaded; `None` if there was
    /// none.
    pub saved_state_age: Option<Duration>,
    /// Its share of the flash tier, once attached.
    pub flash: Option<FlashView>,
    /// Paths of the tier's SSDs, ordered by SSD number.
    pub ssd_paths: Vec<PathBuf>,
}
