//! The prefetch sizes that controllers found, remembered across restarts.
//!
//! The one idea: one small file for each device in the folder `state`, written whole or not at all
//! (a new file takes the old one's name), and believed only if it is about the same device. What
//! cannot be read is said once and forgotten; a wrong start costs some minutes, not a viewer.
//!
//! Invariants: without a folder nothing is read or written; a device is known by its roots and its
//! capacity, because kernel names change from one boot to the next.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use headlong_engine::{Control, EngineConfig};
use serde::{Deserialize, Serialize};

use crate::disk::DeviceSnapshot;

/// What is written of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Remembered {
    roots: Vec<PathBuf>,
    capacity_bytes: u64,
    /// A size means nothing under another rule.
    policy: String,
    reference_bit_rate_bps: u64,
    reference_bytes: u64,
}

/// What makes a device the same device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who<'a> {
    pub(crate) name: &'a str,
    pub(crate) roots: &'a [PathBuf],
    pub(crate) capacity_bytes: u64,
}

/// The folder.
#[derive(Debug, Clone)]
pub(crate) struct Sizes(Option<PathBuf>);

impl Sizes {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self(folder)
    }

    /// The settings of a device that is about to start, with the size to begin with if one is
    /// remembered.
    pub(crate) fn begin(&self, who: Who<'_>, engine: EngineConfig) -> EngineConfig {
        let mut engine = engine;
        if engine.control.mode == Control::Off {
            return engine;
        }
        if let Some(path) = self.path(who) {
            engine.control.start_bytes = match read(&path) {
                Ok(None) => None,
                Ok(Some(remembered)) => remembered.fits(who, &engine),
                Err(error) => {
                    let (device, path) = (who.name, path.display());
                    tracing::warn!(device, "{path}: {error}; the prefetch size is found anew");
                    None
                }
            };
        }
        engine
    }

    /// Remembers the sizes that controllers are going to; an error is said, and changes nothing.
    /// Blocks.
    pub(crate) fn remember(&self, devices: &[DeviceSnapshot]) {
        for device in devices {
            let who = Who {
                name: &device.name,
                roots: &device.roots,
                capacity_bytes: device.capacity_bytes,
            };
            let control = device
                .control
                .filter(|control| control.mode != Control::Off);
            let (Some(control), Some(path)) = (control, self.path(who)) else {
                continue;
            };
            // What nothing was found out about is no finding.
            if control.reason.is_none() {
                continue;
            }
            let found = Remembered {
                roots: device.roots.clone(),
                capacity_bytes: device.capacity_bytes,
                policy: device.config.sizing.policy.name().to_owned(),
                reference_bit_rate_bps: device.config.sizing.reference_bit_rate.0,
                reference_bytes: control.target_bytes,
            };
            if read(&path).ok().flatten().as_ref() == Some(&found) {
                continue;
            }
            if let Err(error) = write(&path, &found) {
                let (device, path) = (who.name, path.display());
                tracing::warn!(
                    device,
                    "cannot remember the prefetch size in {path}: {error}"
                );
            }
        }
    }

    /// The device's file: its name says its roots and capacity in 64 bits (FNV-1a), and what is in
    /// the file decides.
    fn path(&self, who: Who<'_>) -> Option<PathBuf> {
        let folder = self.0.as_ref()?;
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let capacity = who.capacity_bytes.to_le_bytes();
        let roots = who
            .roots
            .iter()
            .map(|root| root.as_os_str().as_encoded_bytes());
        for text in roots.chain([&capacity[..]]) {
            for byte in text.iter().chain(b"\0") {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        Some(folder.join(format!("prefetch-{hash:016x}.json")))
    }
}

impl Remembered {
    fn fits(&self, who: Who<'_>, engine: &EngineConfig) -> Option<u64> {
        let is_same = self.roots == who.roots
            && self.capacity_bytes == who.capacity_bytes
            && self.policy == engine.sizing.policy.name()
            && self.reference_bit_rate_bps == engine.sizing.reference_bit_rate.0;
        is_same.then_some(self.reference_bytes)
    }
}

fn read(path: &Path) -> std::io::Result<Option<Remembered>> {
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    serde_json::from_slice(&text).map(Some).map_err(Into::into)
}

/// A new file takes the old one's name once all of it is on the disk.
fn write(path: &Path, found: &Remembered) -> std::io::Result<()> {
    let new = path.with_extension("json.new");
    let mut file = std::fs::File::create(&new)?;
    file.write_all(&serde_json::to_vec(found)?)?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
#[path = "sizes_tests.rs"]
mod tests;
