//! State shared by all requests: library, devices, current settings.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use headlong_edge::Pulls;
use headlong_engine::{ReaderIdentity, StreamId, ViewerId};
use headlong_fleet::Steering;
use headlong_http::{CorsPolicy, Peer, RangeLimits, SessionRule, is_same_argument};
use headlong_kernel::time_scale::TimeScale;
use headlong_library::{Library, StreamFiles};
use headlong_net::{AddressLimits, AddressShare, ShareLimit};
use headlong_storage::Device;
use headlong_telemetry::{AccessLog, LimitedLog, RequestIds};
use tokio::sync::Semaphore;

use super::access_rules::AccessRules;
use super::generated_memory::GeneratedMemory;
use super::gzip;
use super::lookup::LookupThreads;
use super::shared_pace::{ReplySchedules, SharedPaces, SharedRates};
use super::site::Sites;
use super::title_indexes::TitleIndexes;
use crate::admin::{CurrentShare, RequestMetrics};
use headlong_config::{EtagTime, Gzip, Proxies, ReplyField};

/// Concurrent reads of ACME challenges; further requests get 503.
const CHALLENGES_MAX: usize = 8;
/// Concurrent look-ups of client hints; further hints are dropped.
const EXPECTING_MAX: usize = 8;

/// Settings of replies; a reload replaces them as a whole.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Sites whose scripts may read files.
    pub cors: CorsPolicy,
    /// How viewers are identified.
    pub session: SessionRule,
    /// Proxies whose client headers are trusted.
    pub proxies: Proxies,
    /// Limits of ranges in a request.
    pub ranges: RangeLimits,
    /// The time in entity tags.
    pub etag: EtagTime,
    /// `Cache-Control` of every file, if set.
    pub cache_control: Option<String>,
    /// Hosts with files of their own.
    pub sites: Sites,
    /// Access rules and cache fields of paths.
    pub access: AccessRules,
    /// Request fields in the access log, in lower case.
    pub logged_headers: Vec<Arc<str>>,
    /// Optional fields of replies.
    pub reply_fields: Vec<ReplyField>,
    /// How texts are compressed.
    pub gzip: Vec<Gzip>,
    /// Rate limits shared by an address and a session.
    pub shared_rates: SharedRates,
    /// Requests in progress of an address on one device.
    pub requests_per_address_max: usize,
    /// How players of packaged titles are steered to other servers, if they are.
    pub steering: Option<Arc<Steering>>,
    /// Length of segments that are made from a file.
    pub package_segment: headlong_units::Duration,
    /// Memory for indexes of titles.
    pub package_memory: u64,
    /// Whether O_DIRECT may be used.
    pub direct: bool,
    /// Folder of an ACME client.
    pub acme_folder: Option<PathBuf>,
    /// Timeout of a look-up: that of a read.
    pub lookup_timeout: Duration,
    /// Replies for which the server takes longer are logged with their stages.
    pub slow_after: Option<headlong_units::Duration>,
    /// Scale of the clock that replies are timed by.
    pub time_scale: TimeScale,
}

impl HttpSettings {
    /// Whether replies carry this optional field.
    pub(super) fn has(&self, field: ReplyField) -> bool {
        self.reply_fields.contains(&field)
    }

    /// Whether a query argument, as written, identifies the viewer, not the content.
    pub(super) fn is_of_viewer(&self, argument: &str) -> bool {
        let session = self.session.query.as_deref();
        is_same_argument(argument, "CMCD")
            || session.is_some_and(|name| is_same_argument(argument, name))
            || self.access.is_of_token(argument)
    }
}

/// State shared by all requests.
#[derive(Debug)]
pub struct MediaState {
    /// The files.
    pub library: Library,
    /// Look-up threads.
    pub lookups: LookupThreads,
    /// Devices, by the library's index.
    pub devices: Vec<Device>,
    /// Caches of origins.
    pub pulls: Arc<Pulls>,
    /// Access log.
    pub log: Arc<AccessLog>,
    /// Request metrics.
    pub metrics: Arc<RequestMetrics>,
    /// The share of its load that this server can bear, if it is sampled.
    pub share: Arc<CurrentShare>,
    /// Per device, the requests in progress of each address.
    by_address: Vec<Arc<AddressLimits>>,
    pub(super) gzip_turns: gzip::GzipSlots,
    pub(super) generated: GeneratedMemory,
    pub(super) titles: TitleIndexes,
    shared_paces: SharedPaces,
    pub(super) request_ids: RequestIds,
    started: Instant,
    /// Slots for look-ups of [`super::client_hint`].
    pub(super) expecting: Arc<Semaphore>,
    /// Slots for reads of [`super::acme`].
    pub(super) challenges: Arc<Semaphore>,
    settings: ArcSwap<HttpSettings>,
    /// Rate-limited log lines that clients can cause.
    pub(super) limited_log: LimitedLog,
    /// Requested streams, to show their names to the operator.
    streams: Mutex<HashMap<StreamId, Weak<StreamFiles>>>,
}

impl MediaState {
    /// Creates the state with the initial settings.
    pub fn new(
        library: Library,
        lookups: LookupThreads,
        devices: Vec<Device>,
        log: Arc<AccessLog>,
        settings: HttpSettings,
        pulls: Arc<Pulls>,
    ) -> Self {
        let settings = ArcSwap::from_pointee(settings);
        let titles = TitleIndexes::new(devices.len());
        let by_address = devices.iter().map(|_| Arc::default()).collect();
        Self {
            library,
            lookups,
            devices,
            pulls,
            log,
            metrics: Arc::new(RequestMetrics::default()),
            share: Arc::default(),
            by_address,
            gzip_turns: gzip::GzipSlots::default(),
            generated: GeneratedMemory::default(),
            titles,
            shared_paces: SharedPaces::default(),
            request_ids: RequestIds::default(),
            started: Instant::now(),
            expecting: Arc::new(Semaphore::new(EXPECTING_MAX)),
            challenges: Arc::new(Semaphore::new(CHALLENGES_MAX)),
            settings,
            limited_log: LimitedLog::default(),
            streams: Mutex::new(HashMap::new()),
        }
    }

    /// Keeps the headers of fragmented files in the state folder from now on.
    pub fn keep_fragments_in(&self, folder: &Path) {
        self.titles.keep_in(folder);
    }

    /// The current settings; a request keeps those it began with.
    pub fn settings(&self) -> Arc<HttpSettings> {
        self.settings.load_full()
    }

    /// Like `settings`, for short use, without a shared reference count that all threads would
    /// contend for.
    pub(super) fn settings_now(&self) -> Guard<Arc<HttpSettings>> {
        self.settings.load()
    }

    /// Replaces the settings.
    pub fn reconfigure(&self, settings: HttpSettings) {
        self.settings.store(Arc::new(settings));
    }

    /// Counts one more request in progress of a client on a device; `None` if its address is at its
    /// limit. Proxies are exempt.
    pub(super) fn hold(
        &self,
        settings: &HttpSettings,
        device: usize,
        client: Peer,
    ) -> Option<Option<AddressShare>> {
        let (Some(held), Some(address)) = (self.by_address.get(device), client.ip()) else {
            return Some(None);
        };
        if settings.proxies.trust(address) {
            return Some(None);
        }
        let of_address = settings.requests_per_address_max as u64;
        let max = ShareLimit {
            of_address,
            of_site: 2 * of_address,
        };
        held.hold(address, 1, max).map(Some)
    }

    /// Whose share of a device's memory a reply counts against; `None` for a proxy.
    pub(super) fn holder(&self, settings: &HttpSettings, client: Peer) -> Option<ViewerId> {
        let address = client.ip()?;
        (!settings.proxies.trust(address)).then(|| headlong_net::holder(address))
    }

    /// Model time since the start.
    pub(super) fn now(&self, scale: TimeScale) -> headlong_units::Instant {
        headlong_units::Instant::ZERO + scale.model(self.started.elapsed())
    }

    /// The rate limits that a reply shares with others of its address and session. A proxy's
    /// address is exempt.
    pub(super) fn shared(
        &self,
        settings: &HttpSettings,
        client: Peer,
        viewer: ReaderIdentity,
    ) -> ReplySchedules {
        if settings.shared_rates == SharedRates::default() {
            return ReplySchedules::default();
        }
        let session = match viewer {
            ReaderIdentity::Named(viewer) | ReaderIdentity::Unnamed { origin: viewer, .. } => {
                viewer
            }
        };
        let address = client.ip();
        let of = (
            address.filter(|address| !settings.proxies.trust(*address)),
            session,
        );
        let now = self.now(settings.time_scale);
        self.shared_paces.of(now, settings.shared_rates, of)
    }

    /// Registers a requested stream. Dropped streams are removed when the table doubles.
    pub(super) fn note_stream(&self, files: &Arc<StreamFiles>) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if streams.len() == streams.capacity() {
            streams.retain(|_, files| files.strong_count() > 0);
        }
        streams
            .entry(StreamId(files.id))
            .or_insert_with(|| Arc::downgrade(files));
    }

    /// The files of a requested stream, unless it has been dropped since.
    pub fn stream(&self, id: StreamId) -> Option<Arc<StreamFiles>> {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.get(&id)?.upgrade()
    }
}
