//! Control of the reference size: set by an operator, or by a controller that observes the device.
//!
//! A controller is a pure state machine. Every five seconds it receives the counters (`ControllerInput`); from
//! time to time it returns a size and a reason (`SizeDecision`). The sizes in use follow slowly
//! (`ramp`), and the rule of [`crate::sizing`] scales them for each bit rate (automated-prefetching
//! section 5), so that a controller only uses the mean bit rate.
//!
//! Invariants: the size in use is between one piece (or step) and half of memory (or
//! [`ControlConfig::bytes_max`]); every change has a reason.

mod auto;
mod controller;
mod drive;
mod ended_chains;
mod interface;
mod paper;
mod ramp;
mod steady;

pub(crate) use controller::Controller;
pub use controller::{ControlView, SizeChange};
pub use drive::DriveTimes;
pub use ended_chains::EndedChain;
pub(crate) use interface::ControllerInput;
pub use interface::SizeReason;
pub use steady::{SteadyLoad, SteadyState};
