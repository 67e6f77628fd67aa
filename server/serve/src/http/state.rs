//! What every request needs: the library, the devices, and the settings of the moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use headlong_engine::{Identity, StreamId, ViewerId};
use headlong_http::{CorsPolicy, Peer, RangeLimits, SessionRule, is_same_argument};
use headlong_library::{Library, StreamFiles};
use tokio::sync::Semaphore;

use super::access::AccessRules;
use super::gzip;
use super::lookup::Lookups;
use super::shared_pace::{Shared, SharedPaces, SharedRates};
use crate::admin::RequestMetrics;
use crate::config::{Proxies, ServerTiming};
use crate::disk::Device;
use crate::log::{AccessLog, LimitedLog, RequestIds};
use crate::net::{ByAddress, Held, Subscriber};
use crate::pull::Pulls;
use crate::time_scale::TimeScale;

/// Hints of next requests that are being looked up at a time, of all viewers. Any more are dropped.
const EXPECTING_MAX: usize = 8;

/// Settings of replies; a reload replaces them as a whole.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Whose pages may read.
    pub cors: CorsPolicy,
    /// How viewers are told apart.
    pub session: SessionRule,
    /// Who is believed about whom it speaks for.
    pub proxies: Proxies,
    /// How many ranges are answered.
    pub ranges: RangeLimits,
    /// Sent with every file, if there is one.
    pub cache_control: Option<String>,
    /// Who may have what, and what caches are told of it.
    pub access: AccessRules,
    /// Whether replies say what their request is called.
    pub request_id: bool,
    /// Texts up to so many bytes are sent by gzip to who takes it.
    pub gzip_max: u64,
    /// Whether texts are sent from files by gzip that lie beside them.
    pub gzip_static: bool,
    /// When replies say where their time went.
    pub server_timing: ServerTiming,
    /// Whether replies say by Cache-Status where they come from.
    pub cache_status: bool,
    /// Whether replies tell players what is known of them, by CMSD.
    pub cmsd: bool,
    /// Bytes a second that an address and a session get in all.
    pub shared_rates: SharedRates,
    /// Requests in progress that an address may have on one device.
    pub requests_per_address_max: usize,
    /// Whether files may be read past the page cache.
    pub direct: bool,
    /// How long looking a file up may take: as long as a read.
    pub lookup_timeout: Duration,
    /// A reply that took the server longer is logged with its stages.
    pub slow_after: Option<headlong_units::Duration>,
    /// How fast the clock goes that replies are timed by.
    pub time_scale: TimeScale,
}

impl HttpSettings {
    /// Whether an argument of a query, as it is written, is of the viewer and not of what it asks for.
    pub(super) fn is_of_viewer(&self, argument: &str) -> bool {
        let session = self.session.query.as_deref();
        is_same_argument(argument, "CMCD")
            || session.is_some_and(|name| is_same_argument(argument, name))
            || self.access.is_of_token(argument)
    }
}

/// Everything a request may touch.
#[derive(Debug)]
pub struct MediaState {
    /// The files.
    pub library: Library,
    /// Where they are looked up.
    pub lookups: Lookups,
    /// Their devices, by the library's index.
    pub devices: Vec<Device>,
    /// What is filled from origins.
    pub pulls: Arc<Pulls>,
    /// One line for each request.
    pub log: Arc<AccessLog>,
    /// Counts for the metrics.
    pub metrics: Arc<RequestMetrics>,
    /// For each device, the requests in progress of each address.
    by_address: Vec<Arc<ByAddress>>,
    pub(super) gzip_turns: gzip::Turns,
    shared_paces: SharedPaces,
    pub(super) request_ids: RequestIds,
    started: Instant,
    /// Turns of [`super::expecting`].
    pub(super) expecting: Arc<Semaphore>,
    settings: ArcSwap<HttpSettings>,
    /// Lines that clients can bring about.
    pub(super) limited_log: LimitedLog,
    /// Streams that were asked for, to be named to the operator.
    streams: Mutex<HashMap<StreamId, Weak<StreamFiles>>>,
}

impl MediaState {
    /// With the settings of the start.
    pub fn new(
        library: Library,
        lookups: Lookups,
        devices: Vec<Device>,
        log: Arc<AccessLog>,
        settings: HttpSettings,
        pulls: Arc<Pulls>,
    ) -> Self {
        let settings = ArcSwap::from_pointee(settings);
        let by_address = devices.iter().map(|_| Arc::default()).collect();
        Self {
            library,
            lookups,
            devices,
            pulls,
            log,
            metrics: Arc::new(RequestMetrics::default()),
            by_address,
            gzip_turns: gzip::Turns::default(),
            shared_paces: SharedPaces::default(),
            request_ids: RequestIds::default(),
            started: Instant::now(),
            expecting: Arc::new(Semaphore::new(EXPECTING_MAX)),
            settings,
            limited_log: LimitedLog::default(),
            streams: Mutex::new(HashMap::new()),
        }
    }

    /// The settings in force; a request keeps those it began with.
    pub fn settings(&self) -> Arc<HttpSettings> {
        self.settings.load_full()
    }

    /// The same for a moment, without counting who has them, which all threads would do at one place.
    pub(super) fn settings_now(&self) -> Guard<Arc<HttpSettings>> {
        self.settings.load()
    }

    /// Takes new settings into force.
    pub fn reconfigure(&self, settings: HttpSettings) {
        self.settings.store(Arc::new(settings));
    }

    /// One more request in progress on a device from where it comes from; `None` if that has as many
    /// as it may. A proxy's own address is nobody's, and holds nothing.
    pub(super) fn hold(
        &self,
        settings: &HttpSettings,
        device: usize,
        client: Peer,
    ) -> Option<Option<Held>> {
        let (Some(held), Some(address)) = (self.by_address.get(device), client.ip()) else {
            return Some(None);
        };
        if settings.proxies.trust(address) {
            return Some(None);
        }
        let count_max = settings.requests_per_address_max;
        held.hold(address, 1, count_max as u64).map(Some)
    }

    /// Whose share of a device's memory a reply takes. A proxy's own address is nobody's.
    pub(super) fn holder(&self, settings: &HttpSettings, client: Peer) -> Option<ViewerId> {
        let address = client.ip()?;
        (!settings.proxies.trust(address)).then(|| Subscriber::of(address).holder())
    }

    /// Model time since the start.
    pub(super) fn now(&self, scale: TimeScale) -> headlong_units::Instant {
        headlong_units::Instant::ZERO + scale.model(self.started.elapsed())
    }

    /// The schedules that a reply shares with others of its address and session. A proxy's own address
    /// is nobody's.
    pub(super) fn shared(&self, settings: &HttpSettings, client: Peer, viewer: Identity) -> Shared {
        if settings.shared_rates == SharedRates::default() {
            return Shared::default();
        }
        let session = match viewer {
            Identity::Named(viewer) | Identity::Unnamed { origin: viewer, .. } => viewer,
        };
        let address = client.ip();
        let of = (
            address.filter(|address| !settings.proxies.trust(*address)),
            session,
        );
        let now = self.now(settings.time_scale);
        self.shared_paces.of(now, settings.shared_rates, of)
    }

    /// A stream is asked for. Those that are no longer are forgotten as the table doubles.
    pub(super) fn note_stream(&self, files: &Arc<StreamFiles>) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if streams.len() == streams.capacity() {
            streams.retain(|_, files| files.strong_count() > 0);
        }
        streams
            .entry(StreamId(files.id))
            .or_insert_with(|| Arc::downgrade(files));
    }

    /// The files of a stream that was asked for, if they are still what its paths lead to.
    pub fn stream(&self, id: StreamId) -> Option<Arc<StreamFiles>> {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.get(&id)?.upgrade()
    }
}
