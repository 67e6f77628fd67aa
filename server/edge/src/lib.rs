//! Edge mode: paths that are filled on demand from an origin.
//!
//! Fetched data is kept as slices, files that are complete or absent. The slices of one version of
//! a title are the parts of one engine stream, so a present slice is served like any file. A
//! missing slice is fetched once for all replies that need it; they receive its bytes as the origin
//! sends them, and the rest from the disk if the slice was stored before they had all. The decisions
//! are in `headlong-pull`; this crate performs the I/O with the origin and the disk.
//!
//! Invariants: a slice gets its name only after all its bytes are on disk; fetched bytes count only
//! if the origin confirmed the requested version and range; memory holds at most one slice per
//! running fetch, and as many that could not be stored; the disk is accessed only on this path's own
//! threads.

mod connect;
mod counters;
mod fetch;
mod fill_task;
mod fills;
mod incoming_slice;
mod origin;
mod origin_health;
mod peers;
mod pull_rule;
mod pulls;
mod response_head;
mod s3;
mod slice_pin;
mod state;
mod store;
mod store_health;
mod store_task;
mod title;
mod titles;
mod version;

pub use counters::{PullCounts, PurgeResult};
pub use fetch::{SliceContent, SliceRequest};
pub use fills::{FillState, FillView};
pub use origin::{FRESH_FOR, own_cdn_id};
pub use pull_rule::{PullRule, read_fleet, target_of};
pub use pulls::Pulls;
pub use s3::check as check_s3;
pub use slice_pin::SlicePin;
pub use store::folder_of as store_folder;
pub use titles::{EdgeServer, Pull, ServableVersion};
pub use version::{SliceSource, Version};
