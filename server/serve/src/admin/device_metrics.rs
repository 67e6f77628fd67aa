//! Metrics of each device, from its snapshot.

use std::fmt;

use headlong_engine::{Control, DeviceState, SizeReason};
use headlong_storage::DeviceSnapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::counters::counters;
use super::encode::{MetricRow, encode_each, encode_family, gauge, gauge_bytes};
use super::flash_metrics;
use super::status::state_name;

const STATES: [DeviceState; 3] = [
    DeviceState::Online,
    DeviceState::Failing,
    DeviceState::Offline,
];

/// Metrics whose only label is the device.
#[rustfmt::skip]
const ROWS: [MetricRow<DeviceSnapshot>; 12] = [
    gauge_bytes("capacity", "Size of the device, zero if unknown", |d| d.capacity_bytes),
    gauge_bytes("memory_budget", "Memory for its pieces", |d| d.config.memory_bytes),
    gauge_bytes("prefetch_reference", "Reference size of its prefetch policy, in use", |d| d.config.sizing.reference_bytes),
    gauge_bytes("prefetch_target", "Reference size that its controller approaches; the one in use without a controller",
        |d| d.control.map_or(d.config.sizing.reference_bytes, |c| c.target_bytes)),
    gauge("queue_jobs", "Jobs waiting", |d| d.queue.jobs as u64),
    gauge("queue_jobs_demanded", "Of those, jobs that a reply waits for", |d| d.queue.jobs_demanded as u64),
    gauge("queue_jobs_overdue", "Of those, jobs past their deadline", |d| d.queue.jobs_overdue as u64),
    gauge("outstanding_reads", "Reads outstanding", |d| d.queue.outstanding_reads as u64),
    gauge("outstanding_reads_max", "Reads that may be outstanding", |d| u64::from(d.config.outstanding_reads_max)),
    gauge_bytes("head_position", "Position of its last read, from the start of the device", |d| d.queue.head_physical),
    gauge("chains_live", "Chains being followed", |d| d.chain_count as u64),
    gauge("rotational", "1 if it is treated as rotational", |d| u64::from(d.rotational)),
];

/// Snapshots of all devices.
#[derive(Debug)]
pub(super) struct DeviceCollector(pub(super) Vec<DeviceSnapshot>);

impl Collector for DeviceCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        self.encode_info(&mut encoder)?;
        self.encode_state(&mut encoder)?;
        self.encode_control(&mut encoder)?;
        self.encode_learned(&mut encoder)?;
        self.encode_memory(&mut encoder)?;
        self.encode_sendfile_cache(&mut encoder)?;
        flash_metrics::encode(&self.0, &mut encoder)?;
        let named = self.0.iter().map(|device| (device.name.as_str(), device));
        encode_each(&mut encoder, "device", "device", &ROWS, named)?;
        self.encode_counters(&mut encoder)
    }
}

impl DeviceCollector {
    fn encode_info(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "How the device is read; the value is always 1";
        let mut family = encoder.encode_descriptor("device", help, None, MetricType::Info)?;
        for device in &self.0 {
            let config = &device.config;
            family.encode_info(&[
                ("device", device.name.as_str()),
                ("policy", config.sizing.policy.name()),
                ("prefetch", config.control.mode.name()),
                ("order", config.order.name()),
                ("retention", config.retention.name()),
                ("admission", config.admission.name()),
                ("io", device.io),
            ])?;
        }
        Ok(())
    }

    fn encode_state(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "1 for the state the device is in, 0 for the others";
        let series = self.0.iter().flat_map(|device| {
            let name = device.name.as_str();
            let labels = move |state| [("device", name), ("state", state_name(state))];
            STATES.map(|state| (labels(state), u64::from(device.state == state)))
        });
        let family = ("device_state", help, None, MetricType::Gauge);
        encode_family(encoder, family, series)
    }

    /// Only for devices that took over statistics at the start.
    fn encode_learned(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut known = self.0.iter().filter_map(|device| {
            let age = device.saved_state_age?.as_secs_f64();
            Some(([("device", device.name.as_str())], age))
        });
        if known.clone().next().is_none() {
            return Ok(());
        }
        let help = "Age of the statistics of the previous process when they were taken over";
        let unit = Some(Unit::Seconds);
        let family = ("device_saved_state_age", help, unit, MetricType::Gauge);
        encode_family(encoder, family, &mut known)
    }

    /// Only for devices with a controller of the prefetch size.
    fn encode_control(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let controlled = self.0.iter().filter_map(|device| {
            let control = device.control.filter(|of| of.mode != Control::Off)?;
            Some((device.name.as_str(), control))
        });
        if controlled.clone().next().is_none() {
            return Ok(());
        }
        let help = "Disk time for each MiB sent, when the prefetch size was last evaluated";
        let scores = controlled.clone().filter_map(|(device, control)| {
            Some(([("device", device)], control.score?.as_secs_f64()))
        });
        let unit = Some(Unit::Seconds);
        let family = ("device_prefetch_score", help, unit, MetricType::Gauge);
        encode_family(encoder, family, scores)?;
        let help = "1 for the reason of the current prefetch size, 0 for the other reasons";
        let reasons = controlled.flat_map(|(device, control)| {
            let is_it = move |reason| u64::from(control.reason == Some(reason));
            let reasons = SizeReason::ALL.iter();
            reasons.map(move |of| ([("device", device), ("reason", of.name())], is_it(*of)))
        });
        let family = ("device_prefetch_reason", help, None, MetricType::Gauge);
        encode_family(encoder, family, reasons)
    }

    fn encode_memory(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Memory by class of its content; the classes add up to the pool";
        let series = self.0.iter().flat_map(|device| {
            let memory = &device.memory;
            let classes = [
                ("free", memory.free_bytes),
                ("filling", memory.filling_bytes),
                ("sending", memory.sending_bytes),
                ("unread", memory.unread_bytes),
                ("read", memory.read_bytes),
            ];
            by_class(device, classes)
        });
        let unit = Some(Unit::Bytes);
        encode_family(
            encoder,
            ("device_memory", help, unit, MetricType::Gauge),
            series,
        )
    }

    fn encode_sendfile_cache(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Memory of copies for sockets by class: copies, slots that wait to be emptied \
                    with their block, emptied blocks that sockets may still refer to";
        let with_cache = self
            .0
            .iter()
            .filter_map(|of| Some((of, of.sendfile_cache.as_ref()?)));
        let series = with_cache.flat_map(|(device, cache)| {
            let unused = cache.filled_bytes.saturating_sub(cache.live_bytes);
            let (live, held) = (cache.live_bytes, cache.held_bytes);
            by_class(device, [("live", live), ("unused", unused), ("held", held)])
        });
        let unit = Some(Unit::Bytes);
        encode_family(
            encoder,
            ("device_sendfile_cache", help, unit, MetricType::Gauge),
            series,
        )
    }

    fn encode_counters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let table = |device: &DeviceSnapshot| counters(&device.stats);
        let tables: Vec<_> = self.0.iter().map(table).collect();
        for (row, shape) in tables.first().into_iter().flatten().enumerate() {
            let values = self.0.iter().zip(&tables).map(|(device, table)| {
                let labels = [("device", device.name.as_str())];
                (labels, table[row].value)
            });
            let name = format!("device_{}", shape.metric);
            let unit = shape.value.unit();
            encode_family(
                encoder,
                (&name, shape.help, unit, MetricType::Counter),
                values,
            )?;
        }
        Ok(())
    }
}

fn by_class<'d, const N: usize>(
    device: &'d DeviceSnapshot,
    classes: [(&'static str, u64); N],
) -> [([(&'static str, &'d str); 2], u64); N] {
    classes.map(|(class, bytes)| ([("device", device.name.as_str()), ("class", class)], bytes))
}
