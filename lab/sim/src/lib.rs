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

mod device;
mod disk;
mod disk_server;
mod event_queue;
mod experiment;
mod extents;
mod fleet;
mod histogram;
mod host;
mod layout;
mod link;
mod loss_bound;
mod measure;
mod next_times;
mod origin;
mod page_cache_server;
mod request;
mod run_figures;
mod server;
pub mod settings;
mod setup;
mod slab;
mod ssd;
mod tier;
mod usage;
mod warm_flash;
mod world;

pub use device::{AccessPattern, DriveUse};
pub use experiment::{VirtualExperiment, files_of};
pub use fleet::{
    BoxFailure, BoxFigures, BoxUse, FLEET_IMITATED, FLEET_SCHEMA, FleetExperiment, FleetFigures,
    FleetSetup, FleetSources, FleetUse, OriginLink, PlannedDiskFigures,
};
pub use histogram::{DistributionSummary, Histogram};
pub use host::IMITATED;
pub use layout::{LayoutFile, Placement};
pub use loss_bound::LossBound;
pub use measure::{
    CallCounts, MeasuredWindow, RampUp, RunMeasurements, Snapshot, StateSums, ViewingQuality,
};
pub use origin::CacheUse;
pub use page_cache_server::{AccessMethod, CacheKind, PageCacheServerSetup, Scheduler};
pub use run_figures::{
    DiskFigures, FlashFigures, MemoryShares, RunFigures, SCHEMA, SeriesSample, SsdFigures,
    ViewingRecord,
};
pub use setup::{FlashSetup, Restart, ServerModel, SetupError, WarmContent, WorldSetup};
pub use ssd::TierLayout;
pub use usage::{DiskUse, FlashCounts, FlashUse, SsdUse, TimeWeightedLevel};
pub use world::World;
