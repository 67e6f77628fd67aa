//! Chains, phases and survival: what request logs say about reading in sequence (thesis ch. 5).
//!
//! The one idea: a viewer's requests for one file that touch byte to byte, each received within
//! 40 s of the one before, are one sequential reading, a [`Chain`], whatever connections they came
//! on. Everything that a disk could gain by reading ahead is in the lengths of chains.
//!
//! Invariants: pure; all times are integer milliseconds and all positions bytes; same requests,
//! same rules, same chains, in the same order.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod grouping;
mod join;
mod lengths;
mod links;
mod parallel;
mod phases;
mod request;
mod rules;
mod survival;

pub use join::{Joiner, NO_CHAIN, chains};
pub use lengths::Lengths;
pub use parallel::most_at_once;
pub use phases::{Phase, PhaseKind, PhaseRules, SessionPhases, phases};
pub use request::{Chain, FileInfo, Kind, Request, UNPLACED};
pub use rules::{Gap, Link, Rules};
pub use survival::{Fit, FitPoints, GRID_POINTS, PowerLaw, SEGMENT_STARTS, Survival};
