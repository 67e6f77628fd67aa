//! Device core: all decisions between a [`Shard`](headlong_engine::Shard) and the machine.
//!
//! [`DeviceCore`] registers streams, opens files, starts reads, checks their results, delivers
//! pieces to replies and runs the device's share of the flash tier. A [`Host`] executes its
//! requests: the server with real disks, the simulators in virtual time. [`ReadJob`] and the jobs
//! of [`flash`] run on other threads and contain the decisions made there.
//!
//! Invariants: no call blocks or reads a clock; after each call the shard has no pending command or
//! event; every read completes exactly once, after its memory was released; every delivered piece
//! is returned to the shard exactly once; data counts only if the file had the same version before
//! and after the read.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

/// Whether a mutation is active; always false in a released build.
#[cfg(feature = "mutants")]
macro_rules! mutated {
    ($name:ident) => {
        headlong_mutants::is_active(headlong_mutants::Mutant::$name)
    };
}
/// Whether a mutation is active; always false in a released build.
#[cfg(not(feature = "mutants"))]
macro_rules! mutated {
    ($name:ident) => {
        false
    };
}

mod device_core;
mod files;
pub mod flash;
mod host;
mod io_failure;
mod locations;
mod open_job;
mod read;
mod read_job;
mod reads;
mod replies;
mod reply;
mod resources;
mod restored_chains;
mod streams;

pub use device_core::DeviceCore;
pub use files::OPENS_MAX;
pub use host::{Host, LookupProgress, Notice, OpenProgress, ReadyPiece, SlotBusy};
pub use io_failure::IoFailure;
pub use locations::LOOKUPS_MAX;
pub use open_job::{LookupJob, OpenJob, OpenedFile, PartId};
pub use read::{FileRead, ReadCompletion};
pub use read_job::{BLOCK_BYTES, FileState, NextCall, ReadEnd, ReadJob, Span};
pub use resources::Resources;
pub use restored_chains::{RestoredChains, SavedChains};
