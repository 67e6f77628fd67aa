//! State of a device that connections read without its lock.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The state of a device that its thread publishes.
#[derive(Debug, Default)]
pub(crate) struct DeviceFlags {
    is_offline: AtomicBool,
    is_held_by_clients: AtomicBool,
}

impl DeviceFlags {
    /// Whether the device is out of service.
    pub(crate) fn is_offline(&self) -> bool {
        self.is_offline.load(Relaxed)
    }

    pub(crate) fn set_offline(&self, is_offline: bool) {
        self.is_offline.store(is_offline, Relaxed);
    }

    /// Whether replies that are being sent hold most of the device's memory.
    pub(crate) fn is_held_by_clients(&self) -> bool {
        self.is_held_by_clients.load(Relaxed)
    }

    pub(crate) fn set_held_by_clients(&self, is_held: bool) {
        // Stored only when it changes, since all connections read it.
        if is_held != self.is_held_by_clients() {
            self.is_held_by_clients.store(is_held, Relaxed);
        }
    }
}
