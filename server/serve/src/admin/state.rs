//! State that the operator's listener shows.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use headlong_edge::Pulls;
use headlong_engine::StreamId;
use headlong_net::{ConnectionCounters, ReloadingCertificates, Shutdown};
use headlong_storage::DeviceSnapshot;
use headlong_telemetry::AccessLog;
use headlong_telemetry::degraded_parts::DegradedParts;
use headlong_units::BitRate;

use super::current_share::CurrentShare;
use super::library_document::LibraryDocument;
use super::metrics::RequestMetrics;
use crate::pending_scans::PendingScans;
use crate::root_attachment::RootAttachments;

/// A future for use through a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The served devices.
pub trait Devices: Send + Sync + 'static {
    /// A snapshot of each device, in a fixed order, with distinct names.
    fn snapshots(&self) -> BoxFuture<'_, Vec<DeviceSnapshot>>;
}

/// Resolves stream ids to names.
pub trait StreamNames: Send + Sync + 'static {
    /// `None` if the stream no longer exists.
    fn describe(&self, stream: StreamId) -> Option<StreamName>;
}

/// Display name of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamName {
    /// Path of its URL, as in `/library.json`.
    pub path: String,
    /// Its average bit rate, if known.
    pub bit_rate: Option<BitRate>,
}

/// Everything that can be shown.
pub struct AdminState {
    /// Version of the program.
    pub version: &'static str,
    /// Start time, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Start time by the monotonic clock.
    pub started: std::time::Instant,
    /// Addresses of the media listeners, as URLs without a path.
    pub media_addresses: Vec<String>,
    /// Names of this listener, besides `localhost` and addresses.
    pub host_names: Vec<String>,
    /// The devices.
    pub devices: Arc<dyn Devices>,
    /// The titles.
    pub library: LibraryDocument,
    /// Names of streams.
    pub streams: Arc<dyn StreamNames>,
    /// Metrics of viewers' requests.
    pub requests: Arc<RequestMetrics>,
    /// Caches of origins.
    pub pulls: Arc<Pulls>,
    /// Counters of viewers' connections.
    pub connections: Arc<ConnectionCounters>,
    /// The access log, for its lost records.
    pub log: Arc<AccessLog>,
    /// Whether viewers are being drained. The operator's listener has its own shutdown signal,
    /// because it outlives the drain that it reports.
    pub draining: Shutdown,
    /// Whether the roots have been scanned, or the time limit for that has passed.
    pub is_ready: Arc<AtomicBool>,
    /// Roots that have not been scanned yet.
    pub unscanned: Arc<PendingScans>,
    /// Parts that are out of service.
    pub degraded: Arc<DegradedParts>,
    /// The certificates in use, if there are any.
    pub certificates: Option<Arc<ReloadingCertificates>>,
    /// The share of its load that this server can bear.
    pub share: Arc<CurrentShare>,
    /// Roots that may be taken out of service.
    pub roots: Arc<RootAttachments>,
}

impl std::fmt::Debug for AdminState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminState")
            .field("version", &self.version)
            .field("media_addresses", &self.media_addresses)
            .finish_non_exhaustive()
    }
}
