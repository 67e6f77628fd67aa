//! The state folder: learned state of each device, kept across restarts.
//!
//! There is one file per device in the folder `state`, replaced atomically, and used only if it has
//! this version and describes the same device. A file that cannot be read is logged and ignored;
//! starting without it costs some minutes of learning.
//!
//! Invariants: without a folder nothing is read or written; a device is identified by its roots, or
//! by its mount points below one, and its capacity, because kernel names change between boots;
//! without a kernel name, by those paths alone; the length of the input is bounded, and the shard
//! bounds its values.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use headlong_engine::{Control, EngineConfig};
use headlong_kernel::time_scale::TimeScale;
use headlong_library::{DeviceInfo, RecordKind};
use headlong_storage::LearnedState;
use headlong_telemetry::degraded_parts::{DegradedPartKind, DegradedParts, cannot_write};
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedMutexGuard;

use crate::record_file::RecordFile;
use crate::state_record::StateRecord;
use crate::whole_file::write_whole;

/// Version of the file format; other versions are not read.
const VERSION: u32 = 1;
/// Upper limit of a file: 16,384 chains of less than 300 bytes each.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Content of a device's file.
#[derive(Debug, Serialize, Deserialize)]
struct DeviceStateFile {
    version: u32,
    written_unix_ms: u64,
    roots: Vec<PathBuf>,
    capacity_bytes: u64,
    /// A prefetch size is valid only for this policy.
    policy: String,
    reference_bit_rate_bps: u64,
    learned: StateRecord,
}

/// Identity of a device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceIdentity<'a> {
    pub(crate) name: &'a str,
    pub(crate) paths: &'a [PathBuf],
    pub(crate) capacity_bytes: u64,
}

impl<'a> DeviceIdentity<'a> {
    pub(crate) fn of(info: &'a DeviceInfo) -> Self {
        Self {
            name: &info.name,
            paths: info.lasting_paths(),
            // The capacity of a file system may change with every write (ZFS).
            capacity_bytes: match info.has_kernel_name {
                true => info.capacity_bytes,
                false => 0,
            },
        }
    }
}

/// The folder, with a write lock per device.
#[derive(Debug, Clone)]
pub(crate) struct StateFolder {
    folder: Option<PathBuf>,
    turns: DeviceWriteLocks,
    records: Arc<[RecordFile]>,
    degraded: Arc<DegradedParts>,
}

/// Write locks by device name.
type DeviceWriteLocks = Arc<Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>>;

/// Guard of the write lock of a device.
pub(crate) type DeviceWriteGuard = OwnedMutexGuard<()>;

impl StateFolder {
    pub(crate) fn new(folder: Option<PathBuf>, degraded: Arc<DegradedParts>) -> Self {
        let files = |folder| RecordKind::ALL.map(|kind| RecordFile::new(folder, kind));
        let records = folder.as_deref().map(files).into_iter().flatten().collect();
        Self {
            folder,
            turns: DeviceWriteLocks::default(),
            records,
            degraded,
        }
    }

    /// Whether a state folder is configured.
    pub(crate) fn is_set(&self) -> bool {
        self.folder.is_some()
    }

    /// The records about media files; none without a folder.
    pub(crate) fn records(&self) -> &Arc<[RecordFile]> {
        &self.records
    }

    /// Waits until no write for this device is in progress, so that at most one write per device
    /// hangs in an unresponsive folder.
    pub(crate) async fn turn(&self, device: &str) -> DeviceWriteGuard {
        let turn = {
            // Each change under the lock is a single call.
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(device.to_owned()).or_default())
        };
        turn.lock_owned().await
    }

    /// Loads the learned state of a device that is about to start with these settings.
    pub(crate) fn read(
        &self,
        who: DeviceIdentity<'_>,
        engine: &EngineConfig,
        time_scale: TimeScale,
    ) -> Option<LearnedState> {
        let path = self.path(who)?;
        let found = read(&path).and_then(|found| match found {
            Some(found) => found.judged(who, engine, time_scale).map(Some),
            None => Ok(None),
        });
        found.unwrap_or_else(|error| {
            let (device, path) = (who.name, path.display());
            tracing::warn!(
                device,
                "{path}: {error}; starting the device without learned state"
            );
            None
        })
    }

    /// Saves the learned state of a device; an error is logged. Blocks.
    pub(crate) fn write(
        &self,
        who: DeviceIdentity<'_>,
        engine: &EngineConfig,
        learned: &LearnedState,
    ) {
        let Some(path) = self.path(who) else {
            return;
        };
        let mut learned = learned.clone();
        if engine.control.mode == Control::Off {
            learned.learned.reference_bytes = None;
        }
        let found = DeviceStateFile {
            version: VERSION,
            written_unix_ms: now_unix_ms(),
            roots: who.paths.to_vec(),
            capacity_bytes: who.capacity_bytes,
            policy: engine.sizing.policy.name().to_owned(),
            reference_bit_rate_bps: engine.sizing.reference_bit_rate.0,
            learned: StateRecord::of(&learned),
        };
        let folder = path.parent().unwrap_or(&path);
        let written = serde_json::to_vec(&found).map_err(std::io::Error::from);
        match written.and_then(|text| write_whole(&path, &text)) {
            Ok(()) => self
                .degraded
                .recover(DegradedPartKind::State, folder.display()),
            Err(error) => {
                let reason = cannot_write(folder, &error, "remove state");
                self.degraded
                    .lose(DegradedPartKind::State, folder.display(), reason);
            }
        }
    }

    /// Path of the device's file. Its name is a 64-bit hash (FNV-1a) of paths and capacity; the
    /// content of the file is authoritative.
    fn path(&self, who: DeviceIdentity<'_>) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let capacity = who.capacity_bytes.to_le_bytes();
        let paths = who
            .paths
            .iter()
            .map(|path| path.as_os_str().as_encoded_bytes());
        for text in paths.chain([&capacity[..]]) {
            for byte in text.iter().chain(b"\0") {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        Some(folder.join(format!("device-{hash:016x}.json")))
    }
}

impl DeviceStateFile {
    /// The part of the content that applies to this device and these settings.
    fn judged(
        self,
        who: DeviceIdentity<'_>,
        engine: &EngineConfig,
        time_scale: TimeScale,
    ) -> std::io::Result<LearnedState> {
        if self.roots != who.paths || self.capacity_bytes != who.capacity_bytes {
            return Err(std::io::Error::other("it describes another device"));
        }
        // If the clock was set back, the age is zero.
        let age_ms = now_unix_ms().saturating_sub(self.written_unix_ms);
        let age = time_scale.model(std::time::Duration::from_millis(age_ms));
        let mut learned = self.learned.learned(age);
        let is_same_rule = self.policy == engine.sizing.policy.name()
            && self.reference_bit_rate_bps == engine.sizing.reference_bit_rate.0;
        if !is_same_rule {
            learned.learned.reference_bytes = None;
        }
        Ok(learned)
    }
}

fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

fn read(path: &Path) -> std::io::Result<Option<DeviceStateFile>> {
    /// The only field read from a file of any version.
    #[derive(Deserialize)]
    struct VersionField {
        version: u32,
    }
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    let VersionField { version } = serde_json::from_slice(&text)?;
    if version != VERSION {
        let text = format!("it has version {version}, but this headlong reads version {VERSION}");
        return Err(std::io::Error::other(text));
    }
    Ok(Some(serde_json::from_slice(&text)?))
}

#[cfg(test)]
#[path = "state_folder_tests.rs"]
mod tests;
