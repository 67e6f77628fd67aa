//! What a device is started with.

use std::path::PathBuf;
use std::sync::Arc;

use headlong_engine::EngineConfig;

use super::DeviceLearned;
use super::io::IoMode;
use crate::flash::FlashShare;
use crate::time_scale::TimeScale;

/// Files that a device keeps open unless told otherwise.
pub const OPEN_FILES_MAX_DEFAULT: usize = 1024;

/// What a device is started with.
#[derive(Debug, Clone)]
pub struct DeviceConfig {
    /// Kernel name of the device, or the root's name where there is none.
    pub name: String,
    /// Roots that lie on it.
    pub roots: Vec<PathBuf>,
    /// Whether it is treated as rotating.
    pub rotational: bool,
    /// Capacity in bytes, zero if unknown.
    pub capacity_bytes: u64,
    /// Settings of its shard, with its share of memory.
    pub engine: EngineConfig,
    /// Memory beside the shard's for copies of what is sent again and again.
    pub hot_bytes: u64,
    /// How it is read.
    pub io: IoMode,
    /// Most files kept open ([`OPEN_FILES_MAX_DEFAULT`]); those being read come on top.
    pub open_files_max: usize,
    /// Whether all memory is taken from the system at once.
    pub memory_prefault: bool,
    /// How fast the device's clock goes.
    pub time_scale: TimeScale,
    /// Its part of the flash tier.
    pub flash: FlashShare,
    /// What the process before had learned of it.
    pub learned: Option<Arc<DeviceLearned>>,
}
