//! Attaches the flash tier at run time: when the old process releases it, and again when a failed
//! SSD becomes usable.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headlong_storage::Device;
use headlong_storage::flash::{self, FlashErrorKind, FlashTier};
use headlong_telemetry::degraded_parts::DegradedParts;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::devices;
use crate::http::MediaState;
use crate::start;
use crate::tasks;
use headlong_config::Config;

/// Interval between checks whether the tier is free.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Number of checks after which the wait is logged.
const LOOKS_PER_WARNING: u32 = 300;
/// Interval between checks of unusable SSDs; doubled each time the tier is reopened.
const ILL_INTERVAL: Duration = Duration::from_secs(5);
const ILL_INTERVAL_MAX: Duration = Duration::from_secs(640);

/// The current tier, if any; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct TierHolder(Arc<Mutex<Option<Arc<FlashTier>>>>);

impl TierHolder {
    pub(crate) fn new(tier: Option<Arc<FlashTier>>) -> Self {
        Self(Arc::new(Mutex::new(tier)))
    }

    /// Saves the checkpoints and releases the tier. Devices must have detached it before.
    pub(crate) async fn finish(&self) {
        let tier = self.swap(None);
        if let Some(tier) = tier {
            tasks::finish(move || tier.finish()).await;
        }
    }

    fn swap(&self, tier: Option<Arc<FlashTier>>) -> Option<Arc<FlashTier>> {
        // Each change under the lock is a single assignment.
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, tier)
    }
}

/// Keeps the tier attached to the devices. `is_taken`: the tier was opened at start-up; otherwise
/// the old process still holds it.
pub(crate) async fn keep_attached(
    config: Config,
    state: Arc<MediaState>,
    holder: TierHolder,
    degraded: Arc<DegradedParts>,
    is_taken: bool,
) {
    if config.flash.is_empty() {
        return;
    }
    let (mut is_taken, mut interval) = (is_taken, ILL_INTERVAL);
    loop {
        if !is_taken && !take(&config, &state, &holder, &degraded).await {
            return;
        }
        let ill: Vec<PathBuf> = degraded_ssds(&config, &degraded);
        if ill.is_empty() {
            return;
        }
        until_one_is_well(&config, state.devices.len(), ill, interval).await;
        interval = ILL_INTERVAL_MAX.min(2 * interval);
        // Reattach all SSDs, because the tier is one unit.
        state.devices.iter().for_each(Device::leave_flash);
        holder.finish().await;
        is_taken = false;
    }
}

fn degraded_ssds(config: &Config, degraded: &DegradedParts) -> Vec<PathBuf> {
    let ill = degraded.list();
    let is_ill = |path: &&PathBuf| {
        let name = path.display().to_string();
        ill.iter()
            .any(|part| part.kind == "flash" && part.name == name)
    };
    config.flash.iter().filter(is_ill).cloned().collect()
}

/// Waits until one of the SSDs passes its checks.
async fn until_one_is_well(config: &Config, disks: usize, ill: Vec<PathBuf>, interval: Duration) {
    loop {
        sleep(interval).await;
        let (all, ill) = (config.flash.clone(), ill.clone());
        let piece_bytes = config.engine.piece_bytes;
        let look = move || {
            let wrong = flash::check_ssds(&all, piece_bytes, disks);
            let is_well = |path: &PathBuf| wrong.iter().all(|error| error.path != *path);
            ill.iter().any(is_well)
        };
        if let Ok(true) = spawn_blocking(look).await {
            return;
        }
    }
}

/// Opens the tier as soon as it is free and attaches it to the devices. Returns whether that
/// succeeded.
async fn take(
    config: &Config,
    state: &Arc<MediaState>,
    holder: &TierHolder,
    degraded: &Arc<DegradedParts>,
) -> bool {
    for look in 1_u32.. {
        let (config, disks) = (config.clone(), state.devices.len());
        let degraded = Arc::clone(degraded);
        let opened = spawn_blocking(move || start::tier(&config, disks, &degraded)).await;
        match opened {
            Ok(Ok(tier)) => {
                if let Some(tier) = tier {
                    let parts = tier.deal(&devices::owners(&state.library.devices()));
                    holder.swap(Some(tier));
                    for (device, part) in state.devices.iter().zip(parts) {
                        device.take_flash(part);
                    }
                }
                return true;
            }
            Ok(Err(error)) if matches!(error.trouble, FlashErrorKind::InUse) => {
                if look.is_multiple_of(LOOKS_PER_WARNING) {
                    tracing::warn!(%error, "flash tier in use; serving without it meanwhile");
                }
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "cannot open the flash tier; serving without it");
                return false;
            }
            // It panicked, which was logged.
            Err(_) => return false,
        }
        sleep(LOOK_INTERVAL).await;
    }
    false
}
