//! Open-loop load generator: plays viewers over sockets against any HTTP server, and invalidates
//! its own result if it was late.
//!
//! The trace determines all requests and their times; a slow server affects only the viewer's own
//! later requests. One thread plays all viewers, so that there is one schedule and one source of
//! lateness, which is part of the result; too much of it invalidates the result.
//!
//! Invariants: every latency counts from the intended time; nothing is sent before the whole trace
//! has been read and checked; a session counts if it arrived in the steady state (thesis 3.6.1),
//! whatever its outcome; memory does not grow with the length of a run, except for a few numbers
//! per five seconds.

mod clock;
mod connection;
mod line;
mod play;
mod progress;
mod reply;
mod report;
mod schedule;
mod self_check;
mod settings;
mod shared_state;
mod target;
mod time_distribution;
mod viewer;

pub use clock::TimeScale;
pub use play::{LoadProgress, RunObserver, play};
pub use progress::ProgressOutput;
pub use report::{
    CallCounts, ClassReport, ClassTally, FailureReport, LoadReport, REPORT_SCHEMA, Recording,
    SeriesPoint, SessionsReport, StallsReport, WindowReport,
};
pub use self_check::CPU_SHARE_MAX;
pub use settings::{LoadSettings, PlayError, SourceAddresses, parse_ramp};
pub use target::{Target, TargetError};
pub use time_distribution::{DistributionSummary, TimeDistribution};
