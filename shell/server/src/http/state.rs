//! What every request needs: the library, the devices, and the settings of the moment.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use headlong_http::{CorsPolicy, RangeLimits, SessionRule};
use headlong_library::Library;

use crate::config::ServerTiming;
use crate::disk::Device;
use crate::log::AccessLog;

/// Settings of replies; a reload replaces them as a whole.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Whose pages may read.
    pub cors: CorsPolicy,
    /// How viewers are told apart.
    pub session: SessionRule,
    /// How many ranges are answered.
    pub ranges: RangeLimits,
    /// Sent with every file, if there is one.
    pub cache_control: Option<String>,
    /// When replies say where their time went.
    pub server_timing: ServerTiming,
    /// Whether files may be read past the page cache.
    pub direct: bool,
    /// How long looking a file up may take: as long as a read.
    pub lookup_timeout: Duration,
}

/// Everything a request may touch.
#[derive(Debug)]
pub struct MediaState {
    /// The files.
    pub library: Library,
    /// Their devices, by the library's index.
    pub devices: Vec<Device>,
    /// One line for each request.
    pub log: AccessLog,
    /// Counts for the metrics.
    pub counters: RequestCounters,
    settings: RwLock<Arc<HttpSettings>>,
}

impl MediaState {
    /// With the settings of the start.
    pub fn new(
        library: Library,
        devices: Vec<Device>,
        log: AccessLog,
        settings: HttpSettings,
    ) -> Self {
        let settings = RwLock::new(Arc::new(settings));
        Self { library, devices, log, counters: RequestCounters::default(), settings }
    }

    /// The settings in force; a request keeps those it began with.
    pub fn settings(&self) -> Arc<HttpSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes new settings into force.
    pub fn reconfigure(&self, settings: HttpSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }
}

/// Requests by the first digit of their status, bytes of their bodies, and how long they took.
#[derive(Debug, Default)]
pub struct RequestCounters {
    statuses: [AtomicU64; 5],
    bytes_sent: AtomicU64,
    service: Histogram,
    first_byte: Histogram,
}

/// Upper bounds of the buckets of both histograms, milliseconds: a seek, a start, a chunk at the
/// pace of its title.
pub const BUCKETS_MS: [u64; 12] = [1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 10_000, 60_000];

#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BUCKETS_MS.len() + 1],
    sum_ns: AtomicU64,
}

/// A histogram at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistogramCounts {
    /// Values at most the bound of the same index in [`BUCKETS_MS`] and above the one before; the
    /// last are above all bounds.
    pub buckets: [u64; BUCKETS_MS.len() + 1],
    /// Sum of all values, nanoseconds.
    pub sum_ns: u64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestCounts {
    /// Replies with status 1xx, 2xx, 3xx, 4xx, 5xx.
    pub statuses: [u64; 5],
    /// Bytes of bodies handed to sockets.
    pub bytes_sent: u64,
    /// From the head of a request to the end of its reply.
    pub service: HistogramCounts,
    /// From the head of a request to the first byte of its reply.
    pub first_byte: HistogramCounts,
}

impl RequestCounters {
    /// A reply has ended.
    pub(super) fn record(
        &self,
        status: u16,
        bytes_sent: u64,
        service: Duration,
        first_byte: Option<Duration>,
    ) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.statuses[class].fetch_add(1, Relaxed);
        self.bytes_sent.fetch_add(bytes_sent, Relaxed);
        self.service.record(service);
        if let Some(first_byte) = first_byte {
            self.first_byte.record(first_byte);
        }
    }

    /// What has been counted so far.
    pub fn counts(&self) -> RequestCounts {
        RequestCounts {
            statuses: std::array::from_fn(|class| self.statuses[class].load(Relaxed)),
            bytes_sent: self.bytes_sent.load(Relaxed),
            service: self.service.counts(),
            first_byte: self.first_byte.counts(),
        }
    }
}

impl Histogram {
    fn record(&self, value: Duration) {
        let ms = u64::try_from(value.as_millis()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_MS.partition_point(|bound| *bound < ms);
        self.buckets[bucket].fetch_add(1, Relaxed);
        let ns = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(ns, Relaxed);
    }

    fn counts(&self) -> HistogramCounts {
        HistogramCounts {
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].load(Relaxed)),
            sum_ns: self.sum_ns.load(Relaxed),
        }
    }
}
