//! Access log, session log and the daemon's own log.
//!
//! The one idea: a request never waits for a log. The handler makes a [`RequestRecord`] and hands
//! it over; a thread of its own formats and writes. When that thread cannot keep up (a full disk,
//! a pipe nobody reads) records are dropped and counted, never queued without bound.
//!
//! Invariants: one record is one line, whatever a client puts into its headers; a line is either
//! written whole or not at all as far as the file system allows.

mod access;
mod combined;
mod daemon;
mod format;
mod json;
mod limited;
mod lossy;
mod record;
mod request_id;
mod server_timing;
mod session;
mod sink;
mod slow;
mod stages;

pub use access::{AccessLog, LogConfig, LogCounts};
pub use daemon::{DaemonLog, DaemonLogError, init_daemon_log};
pub use format::LogFormat;
pub use limited::{LimitedKind, LimitedLog};
pub use record::{RequestRecord, SessionKey, SessionSource};
pub use request_id::{REQUEST_ID, RequestId, RequestIds};
pub use server_timing::ServerTiming;
pub use session::{SessionEnd, SessionLimits, SessionLog, SessionSummary};
pub use sink::{LogTarget, SinkError};
pub use stages::{Moment, Stage, Stages, Tier, Trace, Waited};
