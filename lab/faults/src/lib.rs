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

mod block_model;
mod campaign;
mod check;
mod checker;
mod client;
mod content;
mod device;
mod device_env;
mod disk;
mod drive;
mod event_queue;
mod exchange;
mod fault;
mod fault_mix;
mod fault_schedule;
mod files;
mod host;
mod library;
mod machine;
mod persistent_pages;
mod plan;
mod pool;
mod profile;
mod random_source;
mod recover;
mod request_path;
mod resources;
mod run_plan;
mod session;
mod settings;
mod shrink;
mod ssd;
mod step;
mod trace;
mod world;

pub use campaign::{Campaign, CampaignReport};
pub use check::{Check, Violation};
pub use headlong_mutants::Mutant;
pub use plan::Plan;
pub use profile::Profile;
pub use run_plan::{RunOptions, run};
pub use shrink::{ShrinkResult, shrink};
pub use world::{RunCounts, RunOutcome};
