//! Access log, session log, slow log, the daemon's own log, and the list of parts out of service
//! ([`degraded_parts`]).
//!
//! A request never waits for a log. The handler queues a [`RequestRecord`]; a writer thread formats
//! and writes it. When the writer cannot keep up (a full disk, an unread pipe), records are dropped
//! and counted, never queued without bound.
//!
//! Invariants: one record is one line, whatever a client sends in its headers; as far as the file
//! system allows, a line is written completely or not at all.

mod access;
mod combined;
mod daemon;
pub mod degraded_parts;
mod format;
mod json;
mod limited_log;
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
pub use limited_log::{LimitedKind, LimitedLog};
pub use record::{LoggedHeader, RequestRecord, SessionKey, SessionSource};
pub use request_id::{CDN_LOOP, REQUEST_ID, RequestId, RequestIds, TRACEPARENT};
pub use server_timing::ServerTiming;
pub use session::{SessionEnd, SessionLimits, SessionLog, SessionSummary};
pub use sink::{LogTarget, SinkError};
pub use stages::{PieceTier, PieceWaits, RequestMoment, Stage, StageTrace, Stages};
