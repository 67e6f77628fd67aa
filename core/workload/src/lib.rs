//! Workloads: what is asked of a video server, by whom and when, as a specification and as a trace.
//!
//! The one idea: a specification and a seed are a workload. Generating it draws every decision once
//! (titles, who watches what, for how long, over which network) and writes it down as a [`Trace`];
//! whoever plays the trace, over sockets or in a simulation, decides nothing more.
//!
//! Invariants: same specification and seed, same bytes; a trace that is written reads back as it
//! was; a title's bytes follow from its number and the offset alone ([`content`]).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod content;
mod trace;

pub use trace::{NetworkClass, Session, Trace};
