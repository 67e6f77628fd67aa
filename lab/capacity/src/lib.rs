//! How many viewers a server bears without a failure, from its request log.
//!
//! The sessions of the log are played against the server's own decisions in virtual time
//! (`headlong_sim`), at any rate: copies of logged sessions arrive independently, each with its own
//! requests at their own distances. The highest rate without a failed request is searched for as in
//! every other experiment ([`headlong_bench::LimitSearch`]), several times, each with another sample
//! of sessions; their spread gives the interval.
//!
//! Invariants: the same log and the same options give the same answer, for any order of lines and
//! any number of threads; a log of few sessions gives none ([`SESSIONS_MIN`]); no request is played
//! that the log does not have.
#![forbid(unsafe_code)]

mod answer;
mod draw;
mod limit;
mod machine;
mod page;
mod sample;
mod text;

pub use answer::{
    AnswerError, CapacityAnswer, CapacityFigure, CapacityOptions, Change, CurvePoint, LimitState,
    LogFacts, OtherServer, capacity,
};
pub use draw::Draw;
pub use limit::{LimitError, RunLengths, SampledLimit, SearchStart, Server};
pub use machine::{FlashDrives, Machine};
pub use page::page;
pub use sample::{LoggedSession, LoggedVisit, ViewerSample};
pub use text::text;

/// Fewest sessions for an answer: with fewer, single viewers decide.
pub const SESSIONS_MIN: u64 = 200;
/// Fewest sessions for an answer without a remark.
pub const SESSIONS_NARROW: u64 = 2_000;
