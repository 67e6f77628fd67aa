//! Reception: the read-ahead daemon for programs with the preload library (libception 3.2).
//!
//! The server's engine decides for programs what it decides for viewers in the server. A program
//! reports what it is about to read and passes the descriptor; a thread for each device drives the
//! engine's shard; the data goes into the kernel's page cache and is locked there until the program
//! reads it by its own call.
//!
//! Programs that walk through small files are handled separately: the files after the one that a
//! program waited for are read in one sweep, by another thread for each device (`headlong-walk`).
//!
//! Invariants: no file is opened by a name from a program (a walk follows directory listings); the
//! passed descriptor is closed before the answer, because locks and leases of files live as long as
//! a descriptor is open; the listening thread never queries a file system, not even to close a
//! passed descriptor, since it may never respond; mapped memory is never accessed, so a truncated
//! file is harmless; locked memory stays within the budget; under overload the daemon answers at
//! once, and the program continues.

// Standard error may be full, and `eprintln!` panics: `headlong_report::say`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod clients;
mod device;
mod disks;
mod engines;
mod file;
mod held_pages;
mod inspection;
mod job_queues;
mod limits;
mod pending_answer;
mod readers;
mod receive;
mod run;
mod settings;
mod status;
mod stream;
mod waiting_requests;
mod walks;

pub use run::{RunError, run};
pub use settings::{Flags, Mode, Settings, manual};
pub use status::{StatusError, status};
