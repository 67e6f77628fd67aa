//! Virtual-time simulator: the server's own engine, players, drives and SSDs on one event queue.
//!
//! The cores of the real server, the real viewers and the emulated drive make all decisions, and
//! time jumps from one event to the next. A quarter of an hour with a thousand viewers takes
//! seconds, fast enough to tune the engine by experiment.
//!
//! The server is its device core (`headlong_device`) on a simulated host; [`IMITATED`] names the
//! imitated parts. Left out: processor time, TCP slow start, other traffic.
//!
//! Invariants: the same setup gives the same figures, byte for byte; engine, player and drive are
//! connected only here and do not depend on each other; no payload bytes exist.
#![forbid(unsafe_code)]

mod bound;
mod call_times;
mod dealing;
mod device;
mod disk;
mod disk_server;
mod disk_use;
mod engine_only;
mod event_queue;
mod experiment;
mod figures;
mod flash;
mod flash_use;
mod histogram;
mod host;
mod layout;
mod link;
mod loss_bound;
mod measure;
mod origin;
mod record;
mod record_devices;
mod record_flash;
mod record_series;
mod record_viewing;
mod reply;
mod request;
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
mod tier_layout;
mod vanilla;
mod warm_flash;
mod world;

pub use bound::Bound;
pub use device::{AccessPattern, DriveUse};
pub use disk::ColdOpen;
pub use disk_use::DiskUse;
pub use engine_only::{EngineOnlyResult, PlannedCalls};
pub use experiment::{Experiment, files_of};
pub use figures::DistributionSummary;
pub use flash::{FlashSetup, WarmContent};
pub use flash_use::{FlashCounts, FlashUse};
pub use histogram::Histogram;
pub use host::IMITATED;
pub use layout::{LayoutFile, Placement};
pub use loss_bound::LossBound;
pub use measure::{CallCounts, MeasuredWindow, RampUp, RunMeasurements, StateSums, ViewingQuality};
pub use origin::CacheUse;
pub use record::{RunFigures, SCHEMA};
pub use record_devices::{DiskFigures, SsdFigures};
pub use record_flash::FlashFigures;
pub use record_series::{MemoryShares, SeriesSample};
pub use record_viewing::ViewingRecord;
pub use restart::Restart;
pub use series::Snapshot;
pub use setup::{ServerKind, SetupError, WorldSetup};
pub use ssd_use::{SsdUse, TimeWeightedLevel};
pub use tier_layout::TierLayout;
pub use vanilla::{AccessMethod, CacheKind, PageCacheServerSetup, Scheduler};
pub use world::World;
