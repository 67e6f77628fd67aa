//! The server's decisions under random faults: in one thread, in virtual time, every step judged.
//!
//! The one idea (FoundationDB, TigerBeetle): what decides in the server runs here as it is, around it
//! is a world that a seed makes, and a model that knows what must hold. A day of trouble takes
//! milliseconds, and a seed that fails fails again.
//!
//! Real: shards of the engine, the flash room and its format, recovery, the planning of replies.
//! Imitated, as closely as possible: what the shell does between these and disks, SSDs and sockets.
//!
//! Invariants: a plan and a planted bug give the same trace on any machine; every byte that a viewer
//! gets is compared.
#![forbid(unsafe_code)]

mod around;
mod campaign;
mod check;
mod checkpoints;
mod content;
mod device;
mod disk;
mod draw;
mod drive;
mod exchange;
mod fault;
mod files;
mod front;
mod judge;
mod kinds;
mod ledger;
mod library;
mod machine;
mod medium;
mod oracle;
mod plan;
mod plant;
mod planted;
mod pool;
mod port;
mod queue;
mod recover;
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
pub use judge::{How, run};
pub use plan::Plan;
pub use plant::Plant;
pub use shrink::{Shrunk, shrink};
pub use theme::Theme;
pub use world::{Counts, Outcome};
