//! A log divided by session, so that several machines can characterise it.
//!
//! A split reads the logs once and writes shards: each has some sessions in final numbers, and the
//! constants of the whole log (files, titles, devices, time span). The sums of a shard are small,
//! are stored in a file, and are merged to the report of the whole log.
//!
//! Invariants: any number of shards, merged in any order, gives the report of one run, byte for
//! byte; every file has a format, the version of the tables and a checksum; a shard that is missing
//! or repeated, or belongs to another split, is an error that names it.

mod constants;
mod error;
mod framing;
mod partial;
mod session_sums;
mod shard;

pub use constants::characterise_bytes_max;
pub use error::ShardError;
pub use partial::PartialSums;
pub use shard::{SHARDS_MAX, Shard, SplitSettings, split};

pub(crate) use constants::{LogConstants, sessions_by_device};
pub(crate) use framing::{StoredKind, stored};
pub(crate) use session_sums::sum_sessions;
pub(crate) use shard::SplitIdentity;

#[cfg(test)]
#[path = "shards_tests.rs"]
pub(crate) mod tests;
