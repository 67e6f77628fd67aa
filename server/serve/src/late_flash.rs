//! The flash tier while the server runs: taken as soon as the process before lets it go, and taken anew
//! when an SSD that could not be used can be.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::config::Config;
use crate::degraded::DegradedParts;
use crate::devices;
use crate::disk::Device;
use crate::flash::{self, Tier, Trouble};
use crate::http::MediaState;
use crate::start;
use crate::tasks;

/// Between two looks whether the tier is free.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// So many looks after which the wait is told.
const LOOKS_PER_WARNING: u32 = 300;
/// Between two looks at SSDs that cannot be used; longer each time that one which looked well could not
/// be used.
const ILL_INTERVAL: Duration = Duration::from_secs(5);
const ILL_INTERVAL_MAX: Duration = Duration::from_secs(640);

/// The tier, if there is one by now; clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct TierHolder(Arc<Mutex<Option<Arc<Tier>>>>);

impl TierHolder {
    pub(crate) fn new(tier: Option<Arc<Tier>>) -> Self {
        Self(Arc::new(Mutex::new(tier)))
    }

    /// Writes down what the next process wants to know, and lets the tier go. Devices must have let it
    /// go before.
    pub(crate) async fn finish(&self) {
        let tier = self.swap(None);
        if let Some(tier) = tier {
            tasks::finish(move || tier.finish()).await;
        }
    }

    fn swap(&self, tier: Option<Arc<Tier>>) -> Option<Arc<Tier>> {
        // Every change under the lock is one assignment.
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, tier)
    }
}

/// Keeps the devices supplied with the tier. `is_taken`: the start took what could be used; else the
/// process before has it.
pub(crate) async fn keep(
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
        // What each device has of the others is found again: all SSDs are one tier.
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

/// Waits until an SSD shows nothing wrong any more.
async fn until_one_is_well(config: &Config, disks: usize, ill: Vec<PathBuf>, interval: Duration) {
    loop {
        sleep(interval).await;
        let (all, ill) = (config.flash.clone(), ill.clone());
        let piece_bytes = config.engine.piece_bytes;
        let look = move || {
            let wrong = flash::look(&all, piece_bytes, disks);
            let is_well = |path: &PathBuf| wrong.iter().all(|error| error.path != *path);
            ill.iter().any(is_well)
        };
        if let Ok(true) = spawn_blocking(look).await {
            return;
        }
    }
}

/// Takes the tier as soon as it is free, and gives the devices their parts; whether it could be.
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
            Ok(Err(error)) if matches!(error.trouble, Trouble::InUse) => {
                if look.is_multiple_of(LOOKS_PER_WARNING) {
                    tracing::warn!(%error, "served without flash, until it is free");
                }
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "served without flash");
                return false;
            }
            // It panicked, which was told.
            Err(_) => return false,
        }
        sleep(LOOK_INTERVAL).await;
    }
    false
}
