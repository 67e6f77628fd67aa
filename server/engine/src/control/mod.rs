//! Who chooses the reference size: a person, or a controller that watches the device.
//!
//! The one idea: a controller is a pure state machine of its own. Every five seconds it is told
//! what was counted (`Seen`); now and then it answers with a size and a reason
//! (`Verdict`). The sizes in use follow slowly (`ramp`), and the rule of [`crate::sizing`]
//! scales them for each bit rate (automated-prefetching section 5), so that no controller knows
//! of bit rates but by their mean.
//!
//! Invariants: the size in use is between one piece (or step) and half of memory (or
//! [`ControlConfig::bytes_max`]); nothing changes without a reason that can be told.

mod auto;
mod controller;
mod drive;
mod paper;
mod past;
mod ramp;
mod terms;

pub(crate) use controller::Controller;
pub use controller::{ControlView, SizeChange};
pub use drive::DriveTimes;
pub use past::Ended;
pub use terms::Reason;
pub(crate) use terms::Seen;
