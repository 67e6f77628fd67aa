//! Plays viewers over sockets against any HTTP server, and refuses its own result if it lagged.
//!
//! The one idea: an open loop. Who asks for what, and when, is in the trace; the server's slowness
//! changes nothing about it but what each viewer does next. One thread plays them all, so that there
//! is one schedule and one place to be late at; how late it was is part of the result, and too late
//! makes it invalid.
//!
//! Invariants: every latency is taken from the intended moment; nothing is sent before the trace was
//! read to its end and checked; a session counts if it arrived in the steady state (thesis 3.6.1),
//! whatever became of it; memory does not grow with the length of a run, but for a few numbers per
//! five seconds.

mod chunked;
mod clock;
mod connection;
mod limits;
mod line;
mod live;
mod malformed;
mod play;
mod play_error;
mod recording;
mod reply;
mod report;
mod schedule;
mod self_check;
mod settings;
mod target;
mod threshold;
mod timers;
mod times;
mod viewer;
mod world;

pub use clock::TimeScale;
pub use live::Live;
pub use play::{Glance, Watch, play};
pub use play_error::PlayError;
pub use recording::{Calls, ClassTally, FailureTold, Interval, RECORDING_SCHEMA, Recording};
pub use report::{
    ClassTold, REPORT_SCHEMA, Report, SeriesPoint, SessionsTold, StallsTold, WindowTold,
};
pub use self_check::CPU_SHARE_MAX;
pub use settings::{Settings, Sources, parse_ramp};
pub use target::{Target, TargetError};
pub use threshold::{Missed, Threshold};
pub use times::{Sparse, Spread, Times};
