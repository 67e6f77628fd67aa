//! Reception: the daemon that reads for programs with the preloaded library (libception 3.2).
//!
//! The one idea: what the server's engine decides for viewers it decides here for programs. A
//! program says what it is about to read and passes the descriptor; a thread for each device drives
//! the engine's shard; what the shard reads goes into the kernel's page cache and is locked there
//! until it is read. The program then reads it as if nobody had helped.
//!
//! Programs that go through small files are the exception: what comes after the file that one waited
//! for is read in one sweep, by a thread of its own for each device (`headlong-walk`).
//!
//! Invariants: nothing is opened by a name that a program says (a walk goes by what folders list);
//! the passed descriptor is closed before the program is answered, because locks and leases of files
//! live as long as one is open; the thread that listens asks no file system for anything, not even to
//! close what was passed, as one may never answer;
//! memory that is mapped is never looked at, so that a file that shrinks harms nobody; memory that
//! is locked stays within the budget; whoever is full says so, and the program goes on.

// Standard error may be full, and `eprintln!` panics: `headlong_report::say`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod answering;
mod clients;
mod describe;
mod device;
mod disks;
mod engines;
mod errands;
mod file;
mod hold;
mod limits;
mod readers;
mod receive;
mod run;
mod settings;
mod status;
mod stream;
mod waiting;
mod walks;

pub use run::{RunError, run};
pub use settings::{Flags, Mode, Settings, manual};
pub use status::{StatusError, status};
