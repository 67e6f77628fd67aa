//! The server's decisions under random faults: in one thread, in virtual time, every step judged.
//!
//! The one idea (FoundationDB, TigerBeetle): what decides in the server runs here as it is, around it
//! is a world that a seed makes, and a model that knows what must hold. A day of trouble takes
//! milliseconds, and a seed that fails fails again.
//!
//! Real: device cores with their shards, files, reads, replies and flash tier, its format and
//! recovery, and the planning of replies. Imitated: memory, file systems, disks and SSDs below them,
//! look-ups (`library.rs`), and the front that turns requests into replies (`front.rs`).
//!
//! Invariants: a plan and a mutation give the same trace on any machine; every byte that a viewer
//! gets is compared.
#![forbid(unsafe_code)]

mod around;
mod campaign;
mod check;
mod content;
mod device;
mod disk;
mod draw;
mod drive;
mod exchange;
mod fault;
mod files;
mod front;
mod host;
mod judge;
mod kinds;
mod ledger;
mod library;
mod machine;
mod medium;
mod oracle;
mod plan;
mod pool;
mod queue;
mod recover;
mod resources;
mod session;
mod settings;
mod shrink;
mod ssd;
mod step;
mod taking;
mod theme;
mod trace;
mod trouble;
mod world;

pub use campaign::{Campaign, Report};
pub use check::{Check, Violation};
pub use headlong_mutants::Mutant;
pub use judge::{How, run};
pub use plan::Plan;
pub use shrink::{Shrunk, shrink};
pub use theme::Theme;
pub use world::{Counts, Outcome};
