//! What an edge decides: how titles of an origin are cut and kept, what an origin's words are
//! worth, and what goes when space is short.
//!
//! The one idea: a title of an origin is kept as *slices*, files of one size, each of which exists
//! whole or not at all and never changes, because they belong to one *version* of the title. So a
//! reply is a list of slices that are there or have to be fetched, and everything else is a
//! question about one slice or one version.
//!
//! Invariants: nothing of an origin's reply is taken unless it says that it is the very range of the
//! very version that was asked for; a slice that is in use is never chosen to go; the first slice of
//! a version goes last; every table has a bound. No I/O, no clock, no panic whatever an origin says.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod answer;
mod fill;
mod freshness;
mod negative;
mod slices;
mod space;
mod target;

pub use answer::{AnswerHead, Fault, Validators, Version};
pub use fill::{Fill, Turn, Viewers};
pub use freshness::{Freshness, Judgement, Rules, fresh_for};
pub use negative::Negative;
pub use slices::Slices;
pub use space::{SliceKey, Space};
pub use target::{Target, TargetRules, is_public};
