//! Metrics of viewers' requests, in counters sharded by thread.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use headlong_kernel::sharded_counters::Sharded;
use headlong_telemetry::RequestId;
use headlong_units::Duration;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::encode::{MetricRow, count_bytes, encode_rows};
use super::exemplars::Exemplars;

/// From a hit in memory over loopback to a whole film at its playback rate.
static SERVICE_SECONDS: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0,
    600.0,
];

/// From a hit in memory to the patience of a player.
static FIRST_BYTE_SECONDS: [f64; 13] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
];

/// Names of the families.
const DURATION: &str = "request_duration";
const FIRST_BYTE: &str = "request_first_byte";

/// Status classes, by their first digit.
pub(super) const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Counters of requests.
#[derive(Debug)]
pub struct RequestMetrics {
    counts: Sharded<ThreadCounters>,
    exemplars: [Exemplars; 2],
}

/// Counters of a thread.
#[derive(Debug, Default)]
struct ThreadCounters {
    by_class: [AtomicU64; STATUS_CLASSES.len()],
    bytes_sent: AtomicU64,
    packaged_bytes: AtomicU64,
    service_time: TimeHistogram<{ SERVICE_SECONDS.len() + 1 }>,
    first_byte_time: TimeHistogram<{ FIRST_BYTE_SECONDS.len() + 1 }>,
}

/// A histogram: one bucket up to and including each bound, and one above.
#[derive(Debug)]
struct TimeHistogram<const BUCKETS: usize> {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl<const BUCKETS: usize> Default for TimeHistogram<BUCKETS> {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_ns: AtomicU64::new(0),
        }
    }
}

impl<const BUCKETS: usize> TimeHistogram<BUCKETS> {
    fn note(&self, bounds: &[f64], time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = bounds.partition_point(|bound| *bound < seconds);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(time.0, Relaxed);
    }
}

/// Totals since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct RequestTotals {
    /// Completed requests.
    pub requests: u64,
    /// Bytes of bodies sent.
    pub bytes_sent: u64,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            counts: Sharded::default(),
            exemplars: [
                Exemplars::new(DURATION, &SERVICE_SECONDS),
                Exemplars::new(FIRST_BYTE, &FIRST_BYTE_SECONDS),
            ],
        }
    }
}

impl RequestMetrics {
    /// Adds sent bytes, and whether they are of something that was made from MP4 files. Called while
    /// they are sent, because a request may last hours.
    pub fn add_bytes_sent(&self, bytes: u64, are_packaged: bool) {
        let counts = self.counts.mine();
        counts.bytes_sent.fetch_add(bytes, Relaxed);
        if are_packaged {
            counts.packaged_bytes.fetch_add(bytes, Relaxed);
        }
    }

    /// A request ended; with its service time and the time to its first byte.
    pub fn observe(&self, status: u16, service_time: Duration, first_byte_time: Option<Duration>) {
        let class = usize::from(status / 100).clamp(1, STATUS_CLASSES.len()) - 1;
        let counts = self.counts.mine();
        counts.by_class[class].fetch_add(1, Relaxed);
        counts.service_time.note(&SERVICE_SECONDS, service_time);
        if let Some(time) = first_byte_time {
            counts.first_byte_time.note(&FIRST_BYTE_SECONDS, time);
        }
    }

    /// Offers a request that is in a log as an exemplar.
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

    /// Exemplars of the histograms.
    pub(super) fn exemplars(&self) -> &[Exemplars] {
        &self.exemplars
    }

    /// Totals since the start.
    pub fn totals(&self) -> RequestTotals {
        RequestTotals {
            requests: self.counts_by_class().iter().sum(),
            bytes_sent: self.bytes_sent(),
        }
    }

    fn bytes_sent(&self) -> u64 {
        self.counts.sum(|part| part.bytes_sent.load(Relaxed))
    }

    pub(super) fn counts_by_class(&self) -> [u64; STATUS_CLASSES.len()] {
        let of = |class: usize| move |part: &ThreadCounters| part.by_class[class].load(Relaxed);
        std::array::from_fn(|class| self.counts.sum(of(class)))
    }

    /// Collector for `/metrics`.
    pub(super) fn collector(&self) -> impl Collector {
        RequestCollector {
            service_time: self.histogram(&SERVICE_SECONDS, |part| &part.service_time),
            first_byte_time: self.histogram(&FIRST_BYTE_SECONDS, |part| &part.first_byte_time),
            bytes_sent: self.bytes_sent(),
            packaged_bytes: self.counts.sum(|part| part.packaged_bytes.load(Relaxed)),
        }
    }

    fn histogram<const BUCKETS: usize>(
        &self,
        bounds: &[f64],
        of: impl Fn(&ThreadCounters) -> &TimeHistogram<BUCKETS>,
    ) -> Histogram {
        let count = |bucket: usize| {
            let of = |part: &ThreadCounters| of(part).buckets[bucket].load(Relaxed);
            self.counts.sum(of)
        };
        let bounds = bounds.iter().copied().chain([f64::INFINITY]);
        let sum = Duration(self.counts.sum(|part| of(part).sum_ns.load(Relaxed)));
        Histogram {
            buckets: (bounds.enumerate())
                .map(|(at, bound)| (bound, count(at)))
                .collect(),
            sum_s: sum.as_secs_f64(),
        }
    }
}

/// A histogram as it is exported.
#[derive(Debug)]
struct Histogram {
    /// Upper bound in seconds and number of requests of each bucket.
    buckets: Vec<(f64, u64)>,
    sum_s: f64,
}

#[derive(Debug)]
struct RequestCollector {
    service_time: Histogram,
    first_byte_time: Histogram,
    bytes_sent: u64,
    packaged_bytes: u64,
}

const ROWS: [MetricRow<RequestCollector>; 2] = [
    count_bytes("response_body", "Bytes of bodies sent to viewers", |of| {
        of.bytes_sent
    }),
    count_bytes(
        "packaged_body",
        "Bytes of bodies sent to viewers that were made from MP4 files",
        |of| of.packaged_bytes,
    ),
];

impl Collector for RequestCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let whole = "Time from a request's head to the last byte of its reply";
        let first = "Time from a request's head to the first byte of its reply";
        for (name, help, times) in [
            (DURATION, whole, &self.service_time),
            (FIRST_BYTE, first, &self.first_byte_time),
        ] {
            let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
            let mut metric = encoder.encode_descriptor(name, help, unit, kind)?;
            let count = times.buckets.iter().map(|(_, count)| count).sum();
            metric.encode_histogram::<NoLabelSet>(times.sum_s, count, &times.buckets, None)?;
        }
        encode_rows(&mut encoder, &ROWS, self)
    }
}
