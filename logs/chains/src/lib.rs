//! Chains, phases and survival of sequential reads in request logs (thesis ch. 5).
//!
//! A [`Chain`] is one sequential read: requests of one viewer for one file that touch byte to byte,
//! each received within 40 s of the one before, on any connection. The lengths of chains bound what
//! a disk can gain from readahead.
//!
//! Invariants: pure; times are integer milliseconds and positions are bytes; the same requests and
//! rules give the same chains in the same order.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod join;
mod lengths;
mod links;
mod parallel;
mod phases;
mod request;
mod rules;
mod sorted_indexes;
mod survival;

pub use join::{Joiner, NO_CHAIN, chains};
pub use lengths::LengthCounts;
pub use parallel::most_at_once;
pub use phases::{Phase, PhaseKind, PhaseRules, SessionPhases, phases};
pub use request::{Chain, ContentKind, FileInfo, Request, UNPLACED};
pub use rules::{ChainRules, GapRule, LinkRule};
pub use survival::{FitPoints, GRID_POINTS, PowerLaw, PowerLawFit, SEGMENT_STARTS, Survival};
