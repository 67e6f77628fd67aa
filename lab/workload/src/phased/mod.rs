//! Workloads of adaptive players with sessions, phases, chains and requests (thesis 5.5).
//!
//! A session consists of a person (which title, from where, until when, with which skips and
//! pauses) and a device (how it requests). The person's acts and the network divide the session
//! into phases: *transient* ones, in which the device tries several bit rates, *stable* ones, in
//! which it reads one file at the playing rate, and *inactive* ones. Phases consist of chains,
//! chains of requests. Chain lengths are not drawn from a distribution: they result from the
//! behaviour of people and devices.
//!
//! Invariants: same specification and seed, same bytes; a session's requests depend only on its
//! number and the seed; memory grows with the number of active sessions, not with the length of the
//! log; requests are in order of completion, as in a log.

mod calibration;
mod catalogue;
mod fit;
pub(crate) mod keys;
pub(crate) mod log;
pub(crate) mod plan;
mod requests;
pub(crate) mod session;
mod session_statistics;
mod specification;
mod visit;

pub use headlong_chains::ContentKind;

pub use catalogue::{PhasedCatalogue, PhasedFile, PhasedTitle};
pub use fit::fit;
pub use keys::MODEL;
pub use log::{FILES_HEADER, LOG_HEADER, LogEntry, PhasedSessions, RequestLog};
pub use requests::PhasedRequest;
pub use session::PhasedSession;
pub use session_statistics::{SessionStatistics, characterise, observe};
pub use specification::{
    BytesKnown, DeviceType, NetworkSettings, PhasedRendition, PhasedSpecification, PhasedViewing,
    RequestForm, SESSIONS_FULL, SessionSettings, TitleSettings,
};

#[cfg(test)]
mod tests;
