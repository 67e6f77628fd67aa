//! Workloads: what is asked of a video server, by whom and when, as a specification and as a trace.
//!
//! The one idea: a specification and a seed are a workload. Generating it draws every decision once
//! (titles, who watches what, for how long, over which network) and writes it down as a [`Trace`];
//! whoever plays the trace, over sockets or in a simulation, decides nothing more.
//!
//! Invariants: same specification and seed, same bytes; a trace that is written reads back as it
//! was; a title's bytes follow from its number and the offset alone ([`content`]), and a path says
//! the number ([`locate`]); no text makes a reader panic.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod catalogue;
pub mod content;
mod curves;
mod form;
mod generate;
mod ideal;
mod identity;
mod make;
mod network;
pub mod phased;
pub mod preset;
pub mod specification;
pub mod summary;
pub mod trace;

pub use catalogue::{Catalogue, CatalogueFile, Title, locate};
pub use curves::Curve;
pub use form::Form;
pub use generate::{SessionStream, Workload, generate};
pub use identity::Identity;
pub use network::NetworkClass;
pub use specification::{Mistakes, Rate, Specification};
pub use trace::{About, Dialect, Ramp, Session, Trace, TraceErrors, Warming};
