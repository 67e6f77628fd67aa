//! The series of paths that are filled from an origin; none without one.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::encode::encode_one;
use crate::pull::PullCounts;

type Reading = fn(&PullCounts) -> u64;

const GAUGES: [(&str, &str, Option<Unit>, Reading); 4] = [
    (
        "used",
        "Bytes kept of an origin's titles",
        Some(Unit::Bytes),
        |of| of.used_bytes,
    ),
    ("titles", "Titles of an origin that are known", None, |of| {
        of.titles
    }),
    ("fetches_running", "Slices being fetched", None, |of| {
        of.in_flight
    }),
    (
        "fills_running",
        "Titles being filled ahead of viewers",
        None,
        |of| of.fills_running,
    ),
];

const COUNTERS: [(&str, &str, Option<Unit>, Reading); 6] = [
    (
        "fetched",
        "Bytes that came from the origin",
        Some(Unit::Bytes),
        |of| of.fetched_bytes,
    ),
    (
        "hits",
        "Slices that were there when a reply came to them",
        None,
        |of| of.hits,
    ),
    (
        "misses",
        "Slices that a reply had to wait for",
        None,
        |of| of.misses,
    ),
    (
        "evicted",
        "Bytes that went for want of space",
        Some(Unit::Bytes),
        |of| of.evicted_bytes,
    ),
    (
        "filled",
        "Of the bytes that came from the origin, those brought by fills",
        Some(Unit::Bytes),
        |of| of.filled_bytes,
    ),
    (
        "stale_replies",
        "Replies by what the origin could not confirm",
        None,
        |of| of.stale,
    ),
];

/// What was counted of each path.
#[derive(Debug)]
pub(super) struct PullCollector(pub(super) Vec<PullCounts>);

impl Collector for PullCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        for (name, help, unit, read) in &GAUGES {
            let name = format!("pull_{name}");
            let mut family =
                encoder.encode_descriptor(&name, help, unit.as_ref(), MetricType::Gauge)?;
            for of in &self.0 {
                encode_one(
                    &mut family,
                    &[("path", of.path.as_str())],
                    &ConstGauge::new(read(of)),
                )?;
            }
        }
        for (name, help, unit, read) in &COUNTERS {
            let name = format!("pull_{name}");
            let mut family =
                encoder.encode_descriptor(&name, help, unit.as_ref(), MetricType::Counter)?;
            for of in &self.0 {
                encode_one(
                    &mut family,
                    &[("path", of.path.as_str())],
                    &ConstCounter::new(read(of)),
                )?;
            }
        }
        let help = "Times that an origin, or the disk for what it has, failed, by kind";
        let mut family =
            encoder.encode_descriptor("pull_faults", help, None, MetricType::Counter)?;
        for of in &self.0 {
            for (kind, count) in &of.faults {
                let labels = [("path", of.path.as_str()), ("kind", *kind)];
                encode_one(&mut family, &labels, &ConstCounter::new(*count))?;
            }
        }
        Ok(())
    }
}
