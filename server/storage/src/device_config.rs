//! Start configuration of a device.

use std::path::PathBuf;
use std::sync::Arc;

use headlong_engine::EngineConfig;
use headlong_kernel::time_scale::TimeScale;

use super::LearnedState;
use super::io::IoMode;
use crate::flash::FlashShare;

/// Default limit of files that a device keeps open.
pub const OPEN_FILES_MAX_DEFAULT: usize = 1024;

/// Start configuration of a device.
#[derive(Debug, Clone)]
pub struct DeviceConfig {
    /// Kernel name of the device, or the name of the root if there is none.
    pub name: String,
    /// Roots that lie on it.
    pub roots: Vec<PathBuf>,
    /// Whether it is treated as a rotating disk.
    pub rotational: bool,
    /// Capacity in bytes, zero if unknown.
    pub capacity_bytes: u64,
    /// Settings of its shard, including its share of memory.
    pub engine: EngineConfig,
    /// Additional memory for the sendfile cache.
    pub hot_bytes: u64,
    /// I/O interface.
    pub io: IoMode,
    /// Upper limit of open files without a read ([`OPEN_FILES_MAX_DEFAULT`]); files being read come
    /// on top.
    pub open_files_max: usize,
    /// Whether all memory is populated at start-up.
    pub memory_prefault: bool,
    /// Speed of the device's clock.
    pub time_scale: TimeScale,
    /// Its share of the flash tier.
    pub flash: FlashShare,
    /// State learned by the previous process.
    pub learned: Option<Arc<LearnedState>>,
}
