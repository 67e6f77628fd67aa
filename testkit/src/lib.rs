//! Support for tests of the whole server; a dev-dependency only, never part of the server.
//!
//! - [`slow_disk`]: the emulated disk, with the timing of a drive, injected faults, and a trace of
//!   every request; [`block_device`] makes a block device of it, with or without a file system.
//! - [`pattern`]: content that can be verified at any byte without a copy.
//! - [`server`]: the real binary as a child process. [`client`]: viewers and raw requests for it.
//! - [`ProgramRun`]: any program, run to its end.
//! - [`schema`]: whether JSON conforms to a documented schema.
//! - [`skip`]: marks a test that cannot run on this machine as skipped.
//!
//! Everything that a test creates outside its process (mounts, loop devices, directories) belongs
//! to a guard that removes it, in order, also when the test panics. If the test process is killed,
//! a guardian process does the same; what remains if that is killed too is removed by
//! [`scratch::sweep`], with which every later test begins.

pub mod block_device;
pub mod client;
pub mod leftovers;
pub mod pattern;
mod program_run;
mod replacements;
pub mod schema;
pub mod seed;
pub mod server;
mod skip;
pub mod slow_disk;

pub use block_device::{BlockDevice, FileExtent, RawDevice};
pub use headlong_vdisk::scratch::{self, Scratch};
pub use program_run::ProgramRun;
pub use replacements::is_alive;
pub use seed::Seed;
pub use server::Server;
pub use skip::skip;
pub use slow_disk::SlowDisk;
