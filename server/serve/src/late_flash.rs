//! The flash tier of a server that began without it, because the process before still had it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use crate::config::Config;
use crate::devices;
use crate::flash::{Tier, Trouble};
use crate::http::MediaState;
use crate::start;
use crate::tasks;

/// Between two looks whether the tier is free.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// So many looks after which the wait is told.
const LOOKS_PER_WARNING: u32 = 300;

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

/// Takes the tier as soon as it is free, and gives the devices their parts.
pub(crate) async fn take_when_free(config: Config, state: Arc<MediaState>, holder: TierHolder) {
    for look in 1_u32.. {
        let (config, disks) = (config.clone(), state.devices.len());
        let opened = tokio::task::spawn_blocking(move || start::tier(&config, disks)).await;
        match opened {
            Ok(Ok(Some(tier))) => {
                let parts = tier.deal(&devices::owners(&state.library.devices()));
                holder.swap(Some(tier));
                for (device, part) in state.devices.iter().zip(parts) {
                    device.take_flash(part);
                }
                return;
            }
            Ok(Ok(None)) => return,
            Ok(Err(error)) if matches!(error.trouble, Trouble::InUse) => {
                if look.is_multiple_of(LOOKS_PER_WARNING) {
                    tracing::warn!(%error, "served without flash, until it is free");
                }
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "served without flash");
                return;
            }
            // It panicked, which was told.
            Err(_) => return,
        }
        sleep(LOOK_INTERVAL).await;
    }
}
