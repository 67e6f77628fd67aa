//! Decisions of an edge: division of titles into slices, validation of an origin's responses,
//! eviction.
//!
//! A title of an origin is kept as *slices*, files of one size, each of which is complete or absent
//! and never changes, because it belongs to one *version* of the title. A reply is therefore a list
//! of slices, present or to be fetched, and every other question concerns one slice or one version.
//!
//! Invariants: a response counts only if it is exactly the requested range of the requested
//! version; a slice in use is never evicted; the first slice of a version is evicted last; every
//! table is bounded. No I/O, no clock, no panic whatever an origin sends.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod backoff;
mod eviction;
mod fill;
mod freshness;
mod negative;
mod response;
mod slices;
mod target;

pub use backoff::OriginBackoff;
pub use eviction::{FOLDER_BYTES, SliceCache, SliceKey, file_bytes};
pub use fill::{FillSchedule, FillStep, ViewerState};
pub use freshness::{CacheDecision, Freshness, FreshnessRules, ToldFreshness, fresh_for};
pub use negative::NegativeCache;
pub use response::{OriginVersion, ResponseFault, ResponseHead, Validators};
pub use slices::Slices;
pub use target::{Target, TargetRules, is_public};
