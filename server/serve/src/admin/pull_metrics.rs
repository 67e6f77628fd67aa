//! Metrics of paths that are filled from an origin; none without one.

use std::fmt;

use headlong_edge::PullCounts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::encode::{
    MetricRow, count, count_bytes, encode_each, encode_family, gauge, gauge_bytes,
};

#[rustfmt::skip]
const ROWS: [MetricRow<PullCounts>; 12] = [
    gauge_bytes("used", "Disk usage of an origin's titles, with their folders", |of| of.used_bytes),
    gauge("titles", "Titles of an origin that are known", |of| of.titles),
    gauge("fetches_running", "Slices being fetched", |of| of.in_flight),
    gauge("fills_running", "Titles being filled ahead of viewers", |of| of.fills_running),
    count_bytes("fetched", "Bytes fetched from the origin", |of| of.fetched_bytes),
    count_bytes("peer", "Bytes fetched from other boxes of the fleet", |of| of.peer_bytes),
    count("hits", "Slices that were present when a reply needed them", |of| of.hits),
    count("misses", "Slices that a reply had to wait for", |of| of.misses),
    count_bytes("evicted", "Bytes evicted for lack of space", |of| of.evicted_bytes),
    count_bytes("filled", "Of the bytes fetched from the origin, those fetched by fills", |of| of.filled_bytes),
    count_bytes("unstored", "Bytes sent on without being stored, because the disk was full or failed", |of| of.unstored_bytes),
    count("stale_replies", "Replies from titles that the origin could not confirm", |of| of.stale),
];

/// Counters of each path.
#[derive(Debug)]
pub(super) struct PullCollector(pub(super) Vec<PullCounts>);

impl Collector for PullCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let paths = self.0.iter().map(|of| (of.path.as_str(), of));
        encode_each(&mut encoder, "pull", "path", &ROWS, paths.clone())?;
        let help = "Failures of an origin, or of the disk that stores its titles, by kind";
        let faults = paths.flat_map(|(path, of)| {
            let faults = of.faults.iter();
            faults.map(move |(kind, count)| ([("path", path), ("kind", kind)], *count))
        });
        let family = ("pull_faults", help, None, MetricType::Counter);
        encode_family(&mut encoder, family, faults)
    }
}
