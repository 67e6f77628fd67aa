//! Fault simulator: the server's decisions under random faults, in one thread and virtual time,
//! with checks after every step.
//!
//! The production code that decides runs unchanged in a world generated from a seed, next to a
//! model of what must hold (as in FoundationDB and TigerBeetle). A day of faults takes
//! milliseconds, and a failing seed fails again when replayed.
//!
//! Real: device cores with their shards, files, reads, replies and flash tier, its format and
//! recovery, and the planning of replies. Imitated: memory, file systems, disks and SSDs below
//! them, look-ups (`library.rs`), and the request path from requests to replies
//! (`request_path.rs`).
//!
//! Invariants: a plan and a mutant give the same trace on any machine; every byte delivered to a
//! viewer is verified.
#![forbid(unsafe_code)]

mod around;
mod block_model;
mod campaign;
mod check;
mod checker;
mod client;
mod content;
mod device;
mod disk;
mod draw;
mod drive;
mod exchange;
mod fault;
mod files;
mod host;
mod judge;
mod kinds;
mod library;
mod machine;
mod medium;
mod plan;
mod pool;
mod queue;
mod recover;
mod request_path;
mod resources;
mod session;
mod settings;
mod shrink;
mod ssd;
mod step;
mod theme;
mod trace;
mod trouble;
mod world;

pub use campaign::{Campaign, CampaignReport};
pub use check::{Check, Violation};
pub use headlong_mutants::Mutant;
pub use judge::{RunOptions, run};
pub use plan::Plan;
pub use shrink::{ShrinkResult, shrink};
pub use theme::Profile;
pub use world::{RunCounts, RunOutcome};
