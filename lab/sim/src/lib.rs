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
mod device;
mod device_figures;
mod disk;
mod disk_assignment;
mod disk_server;
mod disk_use;
mod distribution_summary;
mod engine_only;
mod event_queue;
mod experiment;
mod flash;
mod flash_figures;
mod flash_use;
mod histogram;
mod host;
mod layout;
mod link;
mod loss_bound;
mod measure;
mod origin;
mod page_cache_server;
mod reply;
mod request;
mod resources;
mod restart;
mod run_figures;
mod series;
mod series_samples;
mod server;
pub mod settings;
mod setup;
mod slab;
mod ssd;
mod ssd_use;
mod tier;
mod tier_layout;
mod viewing_figures;
mod warm_flash;
mod world;

pub use bound::Bound;
pub use device::{AccessPattern, DriveUse};
pub use device_figures::{DiskFigures, SsdFigures};
pub use disk::ColdOpen;
pub use disk_use::DiskUse;
pub use distribution_summary::DistributionSummary;
pub use engine_only::{EngineOnlyResult, PlannedCalls};
pub use experiment::{VirtualExperiment, files_of};
pub use flash::{FlashSetup, WarmContent};
pub use flash_figures::FlashFigures;
pub use flash_use::{FlashCounts, FlashUse};
pub use histogram::Histogram;
pub use host::IMITATED;
pub use layout::{LayoutFile, Placement};
pub use loss_bound::LossBound;
pub use measure::{CallCounts, MeasuredWindow, RampUp, RunMeasurements, StateSums, ViewingQuality};
pub use origin::CacheUse;
pub use page_cache_server::{AccessMethod, CacheKind, PageCacheServerSetup, Scheduler};
pub use restart::Restart;
pub use run_figures::{RunFigures, SCHEMA};
pub use series::Snapshot;
pub use series_samples::{MemoryShares, SeriesSample};
pub use setup::{ServerModel, SetupError, WorldSetup};
pub use ssd_use::{SsdUse, TimeWeightedLevel};
pub use tier_layout::TierLayout;
pub use viewing_figures::ViewingRecord;
pub use world::World;
