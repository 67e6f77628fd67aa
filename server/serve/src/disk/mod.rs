//! One thread per device: the engine's commands become reads, its events become replies.
//!
//! A request goes through in one direction: [`Device`] posts it to the device's thread, which asks
//! the shard; the shard's reads go to the ring or the threads, their bytes into the pool; its events
//! come out as [`Piece`]s of the [`Reply`].
//!
//! Invariants: the thread sleeps in one place and blocks nowhere else; every read ends in exactly
//! one completion, and its memory is free before that is told; every piece handed out is returned
//! to the shard exactly once; a file's bytes count only if it was the same version before and
//! after they were read.

mod device;
mod files;
mod io;
mod learned;
mod mailbox;
mod message;
mod pread;
mod reply;
#[cfg(test)]
mod rig;
mod snapshot;
mod source;
mod start_error;
mod start_io;
mod supervise;
mod thread;
mod transfer;
mod uring;

pub use device::{Device, DeviceConfig, OPEN_FILES_MAX_DEFAULT};
pub use io::IoMode;
pub use learned::DeviceLearned;
pub use reply::{Piece, PieceInfo, Reply};
pub use snapshot::DeviceSnapshot;
pub use source::StreamSource;
pub use start_error::StartError;
