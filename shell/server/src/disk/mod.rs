//! One thread per device: the engine's commands become reads, its events become replies.

mod snapshot;

pub use snapshot::DeviceSnapshot;
