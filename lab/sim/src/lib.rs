//! The virtual world: the server's own engine, players, drives and SSDs on one queue of events.
//!
//! The one idea: the cores that run a real server, real viewers and an emulated drive decide
//! everything here too, and time jumps from one thing that happens to the next; so a quarter of an
//! hour with a thousand viewers takes seconds, and an engine can be tuned by trying.
//!
//! The server is its device core (`headlong_device`) on a simulated machine; [`IMITATED`] names what is
//! imitated. What is left out: processor time, slow starts of connections, other traffic.
//!
//! Invariants: same setup, same figures, byte for byte; engine, player and drive meet only here and
//! know nothing of one another; no byte of payload exists.
#![forbid(unsafe_code)]

mod asking;
mod bare;
mod bound;
mod dealing;
mod device;
mod disk;
mod disk_server;
mod disk_use;
mod event_queue;
mod experiment;
mod figures;
mod flash;
mod flash_kept;
mod flash_place;
mod flash_use;
mod histogram;
mod host;
mod layout;
mod link;
mod measure;
mod origin;
mod record;
mod record_devices;
mod record_flash;
mod record_series;
mod record_viewing;
mod reply;
mod resources;
mod restart;
mod series;
mod server;
pub mod settings;
mod setup;
mod slab;
mod ssd;
mod ssd_use;
mod tier;
mod vanilla;
mod world;

pub use bare::{BareCalls, BareRun};
pub use bound::Bound;
pub use device::{DriveUse, Pattern};
pub use disk::ColdOpen;
pub use disk_use::DiskUse;
pub use experiment::{Experiment, files_of};
pub use figures::Spread;
pub use flash::{FlashSetup, WarmContent};
pub use flash_place::TierPlaces;
pub use flash_use::{FlashCounts, FlashUse};
pub use histogram::Histogram;
pub use host::IMITATED;
pub use layout::{File, Placement};
pub use measure::{Calls, Measure, RampUp, Seen, Viewing, Window};
pub use origin::CacheUse;
pub use record::{Record, SCHEMA};
pub use record_devices::{DiskFigures, SsdFigures};
pub use record_flash::FlashFigures;
pub use record_series::{MemoryShares, Sample};
pub use record_viewing::Viewed;
pub use restart::Restart;
pub use series::Look;
pub use setup::{ServerKind, Setup, SetupError};
pub use ssd_use::{Level, SsdUse};
pub use vanilla::{Access, CacheKind, Scheduler, VanillaSetup};
pub use world::World;
