//! Devices and their SSDs: one engine and one thread per device. The engine's commands become
//! reads, its events become replies.
//!
//! A request takes one path: [`Device`] passes it through `link` to `engine`, which is a device
//! core (`headlong_device`) with the `host` of this crate. The core delivers [`Piece`]s to the
//! [`Reply`] directly. `opener` opens files. The device `thread` starts reads, on `io_uring` or on
//! other threads; their data goes into the pool and their completions go to the engine.
//!
//! Invariants: nothing under the engine's lock blocks, and only the device thread waits for the
//! lock; the thread sleeps in one place and blocks nowhere else; every read has exactly one
//! completion, and its memory is released before that; every delivered piece is returned to the
//! shard exactly once; data counts only if the file had the same version before and after the read.

mod build;
mod completion;
mod copier;
#[cfg(test)]
mod copies_tests;
mod delegation_lock;
mod device;
mod device_config;
mod device_flags;
#[cfg(test)]
mod device_tests;
mod disk_read;
mod engine;
pub mod flash;
#[cfg(test)]
mod flash_tests;
mod host;
mod io;
mod learned_state;
mod link;
mod mailbox;
pub mod memory_transfer;
mod message;
mod opener;
mod piece_transfer;
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
mod uring;

pub use device::Device;
pub use device_config::{DeviceConfig, OPEN_FILES_MAX_DEFAULT};
pub use headlong_kernel::raw::SendfileCacheUse;
pub use io::IoMode;
pub use learned_state::LearnedState;
pub(crate) use piece_transfer::{IncomingPiece, OutgoingPiece};
pub use reply::{Piece, PieceInfo, Reply};
pub(crate) use resources::DiskResources;
pub use snapshot::DeviceSnapshot;
pub use source::StreamSource;
pub use start_error::StartError;
