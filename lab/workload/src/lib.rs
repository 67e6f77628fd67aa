//! Workloads of a video server: all requests with their viewers and times, as a specification and
//! as a trace.
//!
//! A specification and a seed determine a workload. Generating it draws every decision once
//! (the title, the length and the network of each session) and stores it as a [`Trace`];
//! replaying the trace, over sockets or in a simulation, needs no further decisions.
//!
//! Invariants: same specification and seed, same bytes; a written trace parses to the same trace; a
//! title's bytes follow from its number and the offset alone ([`content`]), and its path contains
//! the number ([`locate`]); no input makes a parser panic.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod catalogue;
pub mod content;
mod curves;
mod generate;
mod ideal_server;
mod keys;
mod network;
pub mod phased;
mod player_keys;
pub mod preset;
pub mod specification;
pub mod summary;
mod title_form;
pub mod trace;

pub use catalogue::{Catalogue, CatalogueFile, Title, locate};
pub use curves::Curve;
pub use generate::{SessionStream, Workload, generate, generate_in_steps};
pub use network::{NetworkClass, ViewerIdentity};
pub use specification::{ArrivalRate, Mistakes, Specification};
pub use title_form::TitleForm;
pub use trace::{Ramp, Session, Trace, TraceErrors, TraceMetadata, WarmupRange};
