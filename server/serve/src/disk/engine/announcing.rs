//! What the log is told of a device: its health, that of its SSDs, and the prefetch sizes that were found.

use std::sync::atomic::Ordering;

use headlong_engine::DeviceState;
use headlong_flash::{SsdId, SsdState};

use super::DeviceEngine;
use crate::flash::FlashPort;

impl DeviceEngine {
    /// Says what the controller of the prefetch size does, and why.
    pub(super) fn announce_sizes(&mut self) {
        while let Some(change) = self.parts.shard.poll_size_change() {
            let device = &self.parts.identity.name;
            tracing::info!(device, reason = change.reason.name(), "{change}");
        }
    }

    /// Says that an SSD is passed over, or is not any more.
    pub(super) fn announce_ssd(&self, ssd: SsdId, before: SsdState, state: SsdState) {
        let paths = self.parts.flash.as_ref().map(FlashPort::paths);
        let path = paths.and_then(|paths| paths.into_iter().nth(usize::from(ssd.0)));
        let ssd = path.unwrap_or_default();
        let (device, ssd, before) = (&self.parts.identity.name, ssd.display(), before.name());
        match state {
            SsdState::Online => tracing::info!(device, %ssd, before, "the SSD is online again"),
            SsdState::ReadOnly => tracing::warn!(
                device, %ssd, before, "writes to the SSD fail or hang: it is only read"
            ),
            SsdState::Slow => tracing::warn!(
                device, %ssd, before, "the SSD answers too late: it is passed over"
            ),
            SsdState::Offline => tracing::error!(
                device, %ssd, before, "the SSD fails: it is passed over; look into the kernel's log (dmesg)"
            ),
        }
    }

    /// Says that the health of the device changed.
    pub(super) fn announce(&mut self, state: DeviceState) {
        let (device, before) = (&self.parts.identity.name, self.state.name());
        let errors = self.parts.shard.stats().read_errors;
        match state {
            DeviceState::Online => tracing::info!(device, before, "the device is online again"),
            DeviceState::Failing => tracing::warn!(device, before, errors, "the device is failing"),
            DeviceState::Offline => tracing::error!(
                device,
                before,
                errors,
                "the device is offline: requests that need it are refused until it answers"
            ),
        }
        self.state = state;
        self.parts
            .is_offline
            .store(state == DeviceState::Offline, Ordering::Relaxed);
    }
}
