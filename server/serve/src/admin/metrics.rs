//! Requests of viewers, counted as they end.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use headlong_units::Duration;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::exemplars::Exemplars;
use crate::log::RequestId;

/// From a hit in memory on loopback to a whole film at the pace of its playing.
static SERVICE_SECONDS: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0,
    600.0,
];

/// From a hit in memory to the patience of a player.
static FIRST_BYTE_SECONDS: [f64; 13] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
];

/// The names of their families.
const DURATION: &str = "request_duration";
const FIRST_BYTE: &str = "request_first_byte";

/// Classes of status, by their first digit.
pub(super) const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// What the handler of requests counts into.
#[derive(Debug)]
pub struct RequestMetrics {
    by_class: [AtomicU64; STATUS_CLASSES.len()],
    bytes_sent: Counter,
    service_time: Histogram,
    first_byte_time: Histogram,
    exemplars: [Exemplars; 2],
}

/// Totals since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct RequestTotals {
    /// Requests ended.
    pub requests: u64,
    /// Bytes of bodies sent.
    pub bytes_sent: u64,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            by_class: Default::default(),
            bytes_sent: Counter::default(),
            service_time: Histogram::new(SERVICE_SECONDS),
            first_byte_time: Histogram::new(FIRST_BYTE_SECONDS),
            exemplars: [
                Exemplars::new(DURATION, &SERVICE_SECONDS),
                Exemplars::new(FIRST_BYTE, &FIRST_BYTE_SECONDS),
            ],
        }
    }
}

impl RequestMetrics {
    /// Bytes went out. Told as they go and not at the end of a request, which may last hours.
    pub fn add_bytes_sent(&self, bytes: u64) {
        self.bytes_sent.inc_by(bytes);
    }

    /// A request ended: the time of all of it, and that of its first byte.
    pub fn observe(&self, status: u16, service_time: Duration, first_byte_time: Option<Duration>) {
        let class = usize::from(status / 100).clamp(1, STATUS_CLASSES.len()) - 1;
        self.by_class[class].fetch_add(1, Relaxed);
        self.service_time.observe(service_time.as_secs_f64());
        if let Some(time) = first_byte_time {
            self.first_byte_time.observe(time.as_secs_f64());
        }
    }

    /// A request that ended at a time since 1970 is found in a log, under this name.
    pub fn name(
        &self,
        id: &RequestId,
        (service_time, first_byte_time): (Duration, Option<Duration>),
        end_unix_ms: u64,
    ) {
        let [durations, first_bytes] = &self.exemplars;
        durations.note(id, service_time.as_secs_f64(), end_unix_ms);
        if let Some(time) = first_byte_time {
            first_bytes.note(id, time.as_secs_f64(), end_unix_ms);
        }
    }

    /// Requests that are found in a log, to be named beside the histograms.
    pub(super) fn exemplars(&self) -> &[Exemplars] {
        &self.exemplars
    }

    /// Totals since the start.
    pub fn totals(&self) -> RequestTotals {
        RequestTotals {
            requests: self.counts_by_class().iter().sum(),
            bytes_sent: self.bytes_sent.get(),
        }
    }

    pub(super) fn counts_by_class(&self) -> [u64; STATUS_CLASSES.len()] {
        std::array::from_fn(|class| self.by_class[class].load(Relaxed))
    }

    /// Puts what knows how to print itself into a registry.
    pub(super) fn register(&self, registry: &mut Registry) {
        let mut put = |name: &str, help: &str, unit, metric: Histogram| {
            registry.register_with_unit(name, help, unit, metric);
        };
        put(
            DURATION,
            "Time from a request's head to the last byte of its reply",
            Unit::Seconds,
            self.service_time.clone(),
        );
        put(
            FIRST_BYTE,
            "Time from a request's head to the first byte of its reply",
            Unit::Seconds,
            self.first_byte_time.clone(),
        );
        registry.register_with_unit(
            "response_body",
            "Bytes of bodies sent to viewers",
            Unit::Bytes,
            self.bytes_sent.clone(),
        );
    }
}
