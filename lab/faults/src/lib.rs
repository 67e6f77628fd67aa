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
mod check;
mod client;
mod content;
mod device;
mod disk;
mod drive;
mod event_queue;
mod exchange;
mod fault;
mod fault_mix;
mod files;
mod host;
mod library;
mod machine;
mod persistent_pages;
mod plan;
mod profile;
mod random_source;
mod recover;
mod request_path;
mod resources;
mod run;
mod session;
mod settings;
mod ssd;
mod trace;
mod world;

pub use check::{Check, Violation};
pub use headlong_mutants::Mutant;
pub use plan::Plan;
pub use profile::Profile;
pub use run::{Campaign, CampaignReport, RunOptions, ShrinkResult, run, shrink};
pub use world::{RunCounts, RunOutcome};
