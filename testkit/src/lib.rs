//! What tests of the whole server stand on; a dev-dependency only, never part of the server.
//!
//! - [`slow_disk`]: the emulated disk that takes as long as a drive would, fails when told, and remembers
//!   every request; [`block_device`] makes a block device of it, with or without a file system.
//! - [`pattern`]: content that can be checked at any byte without keeping a copy.
//! - [`server`]: the real binary as a child process. [`client`]: viewers and raw requests for it.
//! - [`skip`]: what a test calls that cannot run on this machine.
//!
//! Everything that a test leaves outside its process (mounts, loop devices, directories) belongs to
//! a guard that removes it, in order, also when the test panics. If the test process is killed, a
//! guardian beside it does the same; what is left if that is killed too is removed by
//! [`scratch::sweep`], which every later test begins with.

pub mod block_device;
pub mod client;
mod heirs;
pub mod leftovers;
pub mod pattern;
pub mod seed;
pub mod server;
mod skip;
pub mod slow_disk;

pub use block_device::{BlockDevice, RawDevice};
pub use headlong_vdisk::scratch::{self, Scratch};
pub use heirs::is_alive;
pub use seed::Seed;
pub use server::Server;
pub use skip::skip;
pub use slow_disk::SlowDisk;
