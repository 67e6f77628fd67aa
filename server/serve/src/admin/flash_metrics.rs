//! The series of the flash tier, by the device whose part they are of; none without a tier.

use std::fmt;

use headlong_flash::{FlashView, SsdState};
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::encode::encode_one;
use crate::disk::DeviceSnapshot;

type Reading = fn(&FlashView) -> u64;

/// Name, help, unit and value of what has only the device as its label.
const GAUGES: [(&str, &str, Option<Unit>, Reading); 5] = [
    ("capacity", "Size of its blocks", Some(Unit::Bytes), |v| {
        v.capacity_bytes
    }),
    (
        "filled",
        "Bytes of records that can be read",
        Some(Unit::Bytes),
        |v| v.filled_bytes,
    ),
    ("records", "Records that can be read", None, |v| v.records),
    (
        "budget",
        "Most bytes written in any day",
        Some(Unit::Bytes),
        |v| v.budget_bytes,
    ),
    (
        "budget_left",
        "Of those, bytes that may still be written now",
        Some(Unit::Bytes),
        |v| v.budget_left_bytes,
    ),
];

const COUNTERS: [(&str, &str, Option<Unit>, Reading); 7] = [
    ("reads", "Records read and right", None, |v| v.reads),
    ("read", "Bytes of those", Some(Unit::Bytes), |v| {
        v.read_bytes
    }),
    (
        "reads_wrong",
        "Records that were damaged or something else, and were read from the disk",
        None,
        |v| v.reads_wrong,
    ),
    (
        "reads_failed",
        "Records that an SSD did not give, or not in time",
        None,
        |v| v.reads_failed,
    ),
    (
        "admitted",
        "Bytes of records taken",
        Some(Unit::Bytes),
        |v| v.admitted_bytes,
    ),
    (
        "written",
        "Bytes written, with headers and summaries",
        Some(Unit::Bytes),
        |v| v.written_bytes,
    ),
    ("blocks_dropped", "Blocks that went for others", None, |v| {
        v.blocks_dropped
    }),
];

/// All of them.
pub(super) fn encode(
    devices: &[DeviceSnapshot],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let views = || {
        let devices = devices.iter();
        devices.filter_map(|device| Some((device.name.as_str(), device.flash.as_ref()?)))
    };
    if views().next().is_none() {
        return Ok(());
    }
    for (rows, kind) in [
        (&GAUGES[..], MetricType::Gauge),
        (&COUNTERS[..], MetricType::Counter),
    ] {
        for (name, help, unit, reading) in rows {
            let name = format!("flash_{name}");
            let mut family = encoder.encode_descriptor(&name, help, unit.as_ref(), kind)?;
            for (device, view) in views() {
                let labels = [("device", device)];
                match kind {
                    MetricType::Counter => {
                        encode_one(&mut family, &labels, &ConstCounter::new(reading(view)))?;
                    }
                    _ => encode_one(&mut family, &labels, &ConstGauge::new(reading(view)))?,
                }
            }
        }
    }
    let help = "Bytes offered and not taken, by the reason";
    let unit = Unit::Bytes;
    let kind = MetricType::Counter;
    let mut family = encoder.encode_descriptor("flash_refused", help, Some(&unit), kind)?;
    for (device, view) in views() {
        for (reason, bytes) in view.refused.by_reason() {
            let labels = [("device", device), ("reason", reason)];
            encode_one(&mut family, &labels, &ConstCounter::new(bytes))?;
        }
    }
    let help =
        "1 for the state that the SSD, counted from 0 in the order of `flash`, is in, else 0";
    let kind = MetricType::Gauge;
    let mut family = encoder.encode_descriptor("flash_ssd_state", help, None, kind)?;
    for (device, view) in views() {
        for ssd in &view.ssds {
            let number = ssd.ssd.0.to_string();
            for state in SsdState::ALL {
                let labels = [
                    ("device", device),
                    ("ssd", &number),
                    ("state", state.name()),
                ];
                let value = ConstGauge::new(u64::from(ssd.state == *state));
                encode_one(&mut family, &labels, &value)?;
            }
        }
    }
    Ok(())
}
