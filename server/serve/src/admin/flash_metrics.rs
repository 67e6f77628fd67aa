//! Metrics of the flash tier by device; none without a tier.

use std::fmt;

use headlong_flash::{FlashView, SsdState};
use headlong_storage::DeviceSnapshot;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::encode::{
    MetricRow, count, count_bytes, encode_each, encode_family, gauge, gauge_bytes,
};

/// Metrics whose only label is the device.
#[rustfmt::skip]
const ROWS: [MetricRow<FlashView>; 12] = [
    gauge_bytes("capacity", "Size of its blocks", |v| v.capacity_bytes),
    gauge_bytes("filled", "Bytes of records that can be read", |v| v.filled_bytes),
    gauge("records", "Records that can be read", |v| v.records),
    gauge_bytes("budget", "Most bytes written in any day", |v| v.budget_bytes),
    gauge_bytes("budget_left", "Of those, bytes that may still be written now", |v| v.budget_left_bytes),
    count("reads", "Records read and valid", |v| v.reads),
    count_bytes("read", "Bytes of those records", |v| v.read_bytes),
    count("reads_wrong", "Records that were damaged or not the expected ones, and were read from the disk instead", |v| v.reads_wrong),
    count("reads_failed", "Records that an SSD did not deliver, or not in time", |v| v.reads_failed),
    count_bytes("admitted", "Bytes of records admitted", |v| v.admitted_bytes),
    count_bytes("written", "Bytes written, with headers and summaries", |v| v.written_bytes),
    count("blocks_dropped", "Blocks dropped to make room for others", |v| v.blocks_dropped),
];

/// Encodes all metrics of the flash tier.
pub(super) fn encode(
    devices: &[DeviceSnapshot],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let views = devices.iter();
    let views = views.filter_map(|device| Some((device.name.as_str(), device.flash.as_ref()?)));
    if views.clone().next().is_none() {
        return Ok(());
    }
    encode_each(encoder, "flash", "device", &ROWS, views.clone())?;
    let help = "Bytes offered and not admitted, by reason";
    let unit = Some(Unit::Bytes);
    let refused = views.clone().flat_map(|(device, view)| {
        let reasons = view.refused.by_reason().into_iter();
        reasons.map(move |(reason, bytes)| ([("device", device), ("reason", reason)], bytes))
    });
    let family = ("flash_refused", help, unit, MetricType::Counter);
    encode_family(encoder, family, refused)?;
    let help =
        "1 for the state of the SSD, numbered from 0 in the order of `flash`; 0 for the others";
    let ssds = views.flat_map(|(device, view)| view.ssds.iter().map(move |ssd| (device, ssd)));
    let states = ssds.flat_map(|(device, ssd)| {
        let labels = move |state: &SsdState| {
            let (number, state) = (ssd.ssd.0.to_string(), state.name().to_owned());
            [
                ("device", device.to_owned()),
                ("ssd", number),
                ("state", state),
            ]
        };
        let is_in = move |state: &SsdState| u64::from(ssd.state == *state);
        SsdState::ALL
            .iter()
            .map(move |state| (labels(state), is_in(state)))
    });
    let family = ("flash_ssd_state", help, None, MetricType::Gauge);
    encode_family(encoder, family, states)
}
