//! What the operator's listener is told by the rest of the server.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use headlong_engine::StreamId;
use headlong_units::BitRate;

use super::metrics::RequestMetrics;
use crate::degraded::DegradedParts;
use crate::disk::DeviceSnapshot;
use crate::log::AccessLog;
use crate::net::{ConnectionCounters, Shutdown};
use crate::pull::Pulls;
use crate::unscanned::Unscanned;

/// A future that can be asked for through a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The devices being served.
pub trait Devices: Send + Sync + 'static {
    /// One snapshot of each, in a fixed order, with distinct names.
    fn snapshots(&self) -> BoxFuture<'_, Vec<DeviceSnapshot>>;
}

/// The titles on them.
pub trait Library: Send + Sync + 'static {
    /// The document `{"titles":[...]}`.
    fn json(&self) -> Bytes;
}

/// Finds what a stream is called outside the engine.
pub trait StreamNames: Send + Sync + 'static {
    /// `None` when the stream is no longer known.
    fn describe(&self, stream: StreamId) -> Option<StreamName>;
}

/// A stream, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamName {
    /// Path of its URL, as `/library.json` has it.
    pub path: String,
    /// Its average bit rate, if known.
    pub bit_rate: Option<BitRate>,
}

/// Everything that can be shown.
pub struct AdminState {
    /// Of this program.
    pub version: &'static str,
    /// When it started, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The same by a clock that nobody sets.
    pub started: std::time::Instant,
    /// Where viewers connect, as URLs without a path.
    pub media_addresses: Vec<String>,
    /// Names, besides `localhost` and addresses, under which the operator reaches this listener.
    pub host_names: Vec<String>,
    /// The devices.
    pub devices: Arc<dyn Devices>,
    /// The titles.
    pub library: Arc<dyn Library>,
    /// The names of streams.
    pub streams: Arc<dyn StreamNames>,
    /// Counts of requests of viewers.
    pub requests: Arc<RequestMetrics>,
    /// What is filled from origins.
    pub pulls: Arc<Pulls>,
    /// Counts of connections of viewers.
    pub connections: Arc<ConnectionCounters>,
    /// The access log, for its losses.
    pub log: Arc<AccessLog>,
    /// Whether viewers are being drained. This is not the signal that ends the operator's listener,
    /// which should outlive the drain it reports.
    pub draining: Shutdown,
    /// Whether the roots have been scanned, or time enough was given to that.
    pub is_ready: Arc<AtomicBool>,
    /// Roots that have not been scanned yet.
    pub unscanned: Arc<Unscanned>,
    /// Parts that are out of service.
    pub degraded: Arc<DegradedParts>,
}

impl std::fmt::Debug for AdminState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminState")
            .field("version", &self.version)
            .field("media_addresses", &self.media_addresses)
            .finish_non_exhaustive()
    }
}
