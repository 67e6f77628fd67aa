//! Paths that are filled on demand from an origin.
//!
//! The one idea: what was fetched is kept as slices, files that exist whole or not at all, and the
//! slices of one version of a title are the parts of one stream of the engine. So a slice that is
//! there is served as any file is; one that is not is fetched first, once for all who wait for it.
//! What is decided is decided by `headlong-pull`; this module asks the origin and the disk.
//!
//! Invariants: a slice has its name only when all its bytes are on the disk; bytes count only if the
//! origin said that they are of the version and the range that was asked for; no more is in memory
//! than a slice for each fetch that runs; the disk is touched on threads of this path only.

mod answers;
mod connect;
mod counters;
mod fetch;
mod filling;
mod fills;
mod origin;
mod pinned;
mod pulls;
mod s3;
mod state;
mod store;
mod title;
mod titles;
mod trouble;
mod version;

pub use counters::{PullCounts, Purged};
pub use fills::{FillState, FillView};
pub use pinned::Pinned;
pub use pulls::Pulls;
pub(crate) use s3::check as check_s3;
pub use titles::{Found, Pull};
pub use version::{SliceSource, Version};
