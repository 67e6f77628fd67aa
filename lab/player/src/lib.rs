//! Player model: the requests of one viewer, their times, and when it leaves.
//!
//! A viewer is a state machine without clock and sockets. In: a [`SessionPlan`], received bytes,
//! the time. Out: requests, records of their results, and the time of the next step.
//!
//! Invariants: nothing here is random (the plan holds every decision); time is an argument; the
//! same calls give the same results; every call that is sent ends in exactly one [`CallRecord`]; a
//! session ends exactly once; a session's memory does not grow with its length.
//!
//! ```
//! use headlong_player::{
//!     CallEnd, Command, ObjectId, Player, Script, ScriptCall, SessionPlan, TransportEnd,
//! };
//! use headlong_units::{Duration, Instant};
//!
//! let call = ScriptCall {
//!     object: ObjectId(0),
//!     range: None,
//!     expected_bytes: Some(500_000),
//!     timeout: Some(Duration::from_secs(10)),
//!     pace: None,
//!     think: None,
//!     with_previous: false,
//! };
//! let plan = SessionPlan::Script(Script::new(vec![call]));
//! let mut player = Player::new(&plan, Instant::ZERO);
//! player.handle_start(Instant::ZERO);
//! let Some(Command::Send { call, .. }) = player.poll_command() else { panic!() };
//! assert_eq!(player.poll_timeout(), Some(Instant(10_000_000_000)));
//!
//! let now = Instant(2_000_000_000);
//! player.handle_head(now, call, 200, Some(500_000));
//! player.handle_bytes(now, call, 500_000);
//! player.handle_end(now, call, TransportEnd::Whole);
//! assert_eq!(player.poll_command(), Some(Command::Close));
//! assert_eq!(player.poll_record().map(|record| record.end), Some(CallEnd::Whole));
//! assert!(player.end().is_some());
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod adaptive;
mod call;
mod call_table;
mod object;
mod phased_plan;
mod phases;
mod player;
mod playout;
mod record;
mod script;

pub use adaptive::{
    AdaptivePlan, ObjectRange, PlanError, PlayerConfig, RateRule, Rendition, RequestExtent,
    SegmentTable, Title, ViewerAction,
};
pub use call::{PlaybackSpec, Script, ScriptCall, SessionPlan};
pub use object::ObjectId;
pub use phased_plan::{
    BufferRoom, PartialRead, PhasedCall, PhasedPlan, PhasedPlanError, SOCKET_BYTES,
};
pub use player::Player;
pub use record::{CallEnd, CallId, CallRecord, Command, ExportedCall, SessionEnd, TransportEnd};
