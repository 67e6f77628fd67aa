//! Block devices of this machine that take as long as a modelled drive.
//!
//! The one idea: a FUSE file system with a single file, whose reads and writes are answered when a
//! drive model says, and a loop device with direct I/O over that file. Whatever uses the block device
//! (a file system, any server) meets a real kernel queue and a drive that seeks.
//!
//! - [`VirtualDisk`] is the whole: file, loop device, file system, mount, control socket.
//! - [`DiskFile`] is the file alone; [`store`] is what it holds, in next to no space.
//! - [`control`] is how a running disk is talked to.
//! - [`scratch`] is how nothing is left behind, however the process ends.
//!
//! Time is the drive model's wherever something is counted or traced; a time scale says how many of
//! its seconds pass in one of the wall's.

// Standard error may be full, and `eprintln!` panics: `headlong_report::say`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod actuator;
mod clock;
pub mod control;
mod counters;
mod device;
mod disk_file;
mod error;
mod fault;
mod file_system;
mod fuse;
mod guardian;
mod journey;
mod lateness;
mod loop_device;
mod model_target;
pub mod mount;
mod parts;
mod priority;
mod queue;
mod rehearsal;
pub mod scratch;
pub mod store;
mod trace;

pub use counters::{Counters, DirectionCounters, PartCounters, service};
pub use device::{ControlPlace, Options, VirtualDisk};
pub use disk_file::{DiskFile, FileOptions, StoreOptions};
pub use error::Error;
pub use fault::Fault;
pub use file_system::FileSystem;
pub use lateness::Lateness;
pub use loop_device::QueueSettings;
pub use model_target::ModelTarget;
pub use parts::Info;
pub use scratch::Scratch;
pub use trace::{HEADER as TRACE_HEADER, Record};
