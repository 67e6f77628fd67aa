//! What one viewer does: which bytes it asks for and when, how long it waits, when it leaves.
//!
//! The one idea: a viewer is a state machine between a clock and a connection, and knows neither.
//! In: a [`Plan`], bytes as they arrive, the time. Out: requests, records of what became of them,
//! and the time of the next step.
//!
//! Invariants: nothing here draws at random (the plan holds every decision); time is an argument;
//! same calls, same answers; every call that is sent ends in exactly one [`CallRecord`]; a session
//! ends exactly once.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod adaptive;
mod call;
mod calls;
mod player;
mod playout;
mod record;
mod script;

pub use adaptive::{
    Act, AdaptivePlan, Estimate, Make, Place, PlanError, Probing, Rendition, Rule, Segments, Shape,
    Title,
};
pub use call::{Call, ObjectId, Plan, Playback, Script};
pub use player::Player;
pub use record::{CallEnd, CallId, CallRecord, Command, SessionEnd, TransportEnd};
