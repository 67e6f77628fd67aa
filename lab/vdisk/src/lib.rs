//! Emulated disks: block devices of this machine with the timing of a modelled drive.
//!
//! A FUSE file system with a single file answers reads and writes at the times of a drive model; a
//! loop device with direct I/O lies on top of that file. Users of the block device (a file system,
//! any server) get a real kernel queue and a drive that seeks.
//!
//! - [`VirtualDisk`] is the complete disk: file, loop device, file system, mount, control socket.
//! - [`DiskFile`] is the file alone; [`store`] is its content, stored in little space.
//! - [`control`] is the protocol to control a running disk.
//! - [`scratch`] cleans up, however the process ends.
//!
//! Counters and traces are in model time; the time scale is model time per wall time.

// Standard error may be full, and `eprintln!` panics: use `headlong_report::say`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod actuator;
mod answer_time;
mod cleanup;
mod clock;
pub mod control;
mod counters;
mod device;
mod disk_components;
mod disk_file;
mod error;
mod fault;
mod file_system;
mod fuse;
mod lateness;
mod loop_device;
mod model_target;
pub mod mount;
mod priority;
mod queue;
mod round_trip;
pub mod scratch;
pub mod store;
mod trace;

pub use counters::{Counters, DirectionCounters, ServiceTimeCounters, service};
pub use device::{ControlSocket, DiskOptions, VirtualDisk};
pub use disk_components::DiskInfo;
pub use disk_file::{DiskFile, FileOptions, StoreOptions};
pub use error::Error;
pub use fault::Fault;
pub use file_system::FileSystem;
pub use lateness::Lateness;
pub use loop_device::QueueSettings;
pub use model_target::ModelTarget;
pub use scratch::Scratch;
pub use trace::{HEADER as TRACE_HEADER, TraceRecord};
