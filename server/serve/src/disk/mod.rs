//! One engine and one thread per device: the engine's commands become reads, its events become
//! replies.
//!
//! A request goes through in one direction: [`Device`] takes it through the `link` to the `engine`,
//! which is a device core (`headlong_device`) with this machine as its `host`. What the core has for
//! a reply comes out at once as [`Piece`]s of the [`Reply`]. Files are opened by the `opener`; reads
//! are started by the device's `thread`, on the ring or other threads, their bytes go into the pool,
//! and their ends to the engine.
//!
//! Invariants: nothing under the engine's lock waits, and nobody but the device's thread waits for
//! the lock; the thread sleeps in one place and blocks nowhere else; every read ends in exactly
//! one completion, and its memory is free before that is told; every piece handed out is returned
//! to the shard exactly once; a file's bytes count only if it was the same version before and
//! after they were read.

mod completion;
#[cfg(test)]
mod copies_tests;
mod device;
mod device_config;
mod engine;
#[cfg(test)]
mod flash_tests;
mod host;
mod io;
mod keeper;
mod learned;
mod link;
mod lock;
mod mailbox;
mod making;
mod message;
mod opener;
mod passing_on;
mod pread;
mod reply;
mod resources;
#[cfg(test)]
pub(crate) mod rig;
mod snapshot;
mod source;
mod start_error;
mod start_io;
mod supervise;
mod sync;
mod thread;
mod transfer;
mod uring;

pub use crate::raw::CopiesUse;
pub use device::Device;
pub use device_config::{DeviceConfig, OPEN_FILES_MAX_DEFAULT};
pub use io::IoMode;
pub use learned::DeviceLearned;
pub(crate) use passing_on::{Arrived, Leaving};
pub use reply::{Piece, PieceInfo, Reply};
pub(crate) use resources::DiskResources;
pub use snapshot::DeviceSnapshot;
pub use source::StreamSource;
pub use start_error::StartError;
