//! Workloads of players that adapt: sessions, phases, chains, requests (thesis 5.5).
//!
//! The one idea: a session is a person (which title, from where, until when, with which skips and
//! pauses) and a device (how it asks). The person's doings and the network cut the session into
//! phases: *transient* ones, in which the device tries several bit rates, *stable* ones, in which it
//! reads one file at the pace of watching, and *inactive* ones. Phases are made of chains, chains
//! of requests. Chains of the right lengths are not drawn: they come of what people and devices do.
//!
//! Invariants: same specification and seed, same bytes; a session's requests depend on its number
//! and the seed alone; memory grows with the sessions under way, not with the length of the log;
//! requests come in the order of their completion, as in a log.

mod arrivals;
mod asking;
mod catalogue;
mod correcting;
mod fit;
mod keys;
mod log;
mod measure;
mod play;
mod session;
mod specification;
mod visit;

pub use headlong_chains::Kind;

pub use asking::{Request, SOCKET_BYTES};
pub use catalogue::{Catalogue, PhasedFile, PhasedTitle};
pub use fit::fit;
pub use keys::MODEL;
pub use log::{Entry, FILES_HEADER, LOG_HEADER, Log, Sessions};
pub use measure::{Measure, characterise, observe};
pub use play::{PIECE_S, trace};
pub use session::Session;
pub use specification::{
    Device, Form, Network, Rendition, SESSIONS_FULL, Specification, Titles, Viewing, Visits,
};

#[cfg(test)]
mod tests;
