//! The series of each device, made from its snapshot.

use std::fmt;

use headlong_engine::{Control, DeviceState, Reason};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::counters::{CounterValue, counters};
use super::encode::encode_one;
use super::flash_metrics;
use super::status::state_name;
use crate::disk::DeviceSnapshot;

const STATES: [DeviceState; 3] = [
    DeviceState::Online,
    DeviceState::Failing,
    DeviceState::Offline,
];

type Reading = fn(&DeviceSnapshot) -> u64;

/// Name, help, unit and value of each gauge that has only the device as its label.
const GAUGES: [(&str, &str, Option<Unit>, Reading); 12] = [
    (
        "capacity",
        "Size of the device, zero if unknown",
        Some(Unit::Bytes),
        |d| d.capacity_bytes,
    ),
    (
        "memory_budget",
        "Memory for its pieces",
        Some(Unit::Bytes),
        |d| d.config.memory_bytes,
    ),
    (
        "prefetch_reference",
        "Reference size of its prefetch policy, in use",
        Some(Unit::Bytes),
        |d| d.config.sizing.reference_bytes,
    ),
    (
        "prefetch_target",
        "Reference size that its controller is going to; the one in use without a controller",
        Some(Unit::Bytes),
        |d| {
            d.control
                .map_or(d.config.sizing.reference_bytes, |c| c.target_bytes)
        },
    ),
    ("queue_jobs", "Jobs waiting", None, |d| d.queue.jobs as u64),
    (
        "queue_jobs_demanded",
        "Of those, jobs somebody waits for",
        None,
        |d| d.queue.jobs_demanded as u64,
    ),
    (
        "queue_jobs_overdue",
        "Of those, jobs past their deadline",
        None,
        |d| d.queue.jobs_overdue as u64,
    ),
    ("outstanding_reads", "Reads outstanding", None, |d| {
        d.queue.outstanding_reads as u64
    }),
    (
        "outstanding_reads_max",
        "Reads that may be outstanding",
        None,
        |d| u64::from(d.config.outstanding_reads_max),
    ),
    (
        "head_position",
        "Where it last read, from its start",
        Some(Unit::Bytes),
        |d| d.queue.head_physical,
    ),
    ("chains_live", "Chains being followed", None, |d| {
        d.chain_count as u64
    }),
    ("rotational", "1 if it is treated as rotating", None, |d| {
        u64::from(d.rotational)
    }),
];

/// All devices at one moment.
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
        self.encode_copies(&mut encoder)?;
        flash_metrics::encode(&self.0, &mut encoder)?;
        for (name, help, unit, reading) in &GAUGES {
            let name = format!("device_{name}");
            let mut family =
                encoder.encode_descriptor(&name, help, unit.as_ref(), MetricType::Gauge)?;
            for device in &self.0 {
                let labels = [("device", device.name.as_str())];
                encode_one(&mut family, &labels, &ConstGauge::new(reading(device)))?;
            }
        }
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
        let mut family =
            encoder.encode_descriptor("device_state", help, None, MetricType::Gauge)?;
        for device in &self.0 {
            for state in STATES {
                let labels = [
                    ("device", device.name.as_str()),
                    ("state", state_name(state)),
                ];
                let value = ConstGauge::new(u64::from(device.state == state));
                encode_one(&mut family, &labels, &value)?;
            }
        }
        Ok(())
    }

    /// Only for devices of which something was known at the start.
    fn encode_learned(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let known = || {
            let devices = self.0.iter();
            devices.filter_map(|device| Some((device.name.clone(), device.learned_age?)))
        };
        if known().next().is_none() {
            return Ok(());
        }
        let help = "How old what was learned by the process before was when it was taken over";
        let name = "device_learned_age";
        let mut family =
            encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for (device, age) in known() {
            let labels = [("device", device)];
            encode_one(&mut family, &labels, &ConstGauge::new(age.as_secs_f64()))?;
        }
        Ok(())
    }

    /// Only for devices whose size a controller finds.
    fn encode_control(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let controlled = || {
            let device = |device: &'_ DeviceSnapshot| {
                let control = device
                    .control
                    .filter(|control| control.mode != Control::Off)?;
                Some((device.name.clone(), control))
            };
            self.0.iter().filter_map(device)
        };
        if controlled().next().is_none() {
            return Ok(());
        }
        let help = "Disk time for each MiB sent, when the prefetch size was last judged";
        let unit = Unit::Seconds;
        let kind = MetricType::Gauge;
        let name = "device_prefetch_score";
        let mut family = encoder.encode_descriptor(name, help, Some(&unit), kind)?;
        for (device, control) in controlled() {
            if let Some(score) = control.score {
                let labels = [("device", device.as_str())];
                encode_one(&mut family, &labels, &ConstGauge::new(score.as_secs_f64()))?;
            }
        }
        let help = "1 for why the prefetch size is what it is, 0 for the other reasons";
        let name = "device_prefetch_reason";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (device, control) in controlled() {
            for reason in Reason::ALL {
                let labels = [("device", device.as_str()), ("reason", reason.name())];
                let value = u64::from(control.reason == Some(*reason));
                encode_one(&mut family, &labels, &ConstGauge::new(value))?;
            }
        }
        Ok(())
    }

    fn encode_memory(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Memory by what it holds; the classes add up to the pool";
        let kind = MetricType::Gauge;
        let unit = Unit::Bytes;
        let mut family = encoder.encode_descriptor("device_memory", help, Some(&unit), kind)?;
        for device in &self.0 {
            let memory = &device.memory;
            for (class, bytes) in [
                ("free", memory.free_bytes),
                ("filling", memory.filling_bytes),
                ("sending", memory.sending_bytes),
                ("unread", memory.unread_bytes),
                ("read", memory.read_bytes),
            ] {
                let labels = [("device", device.name.as_str()), ("class", class)];
                encode_one(&mut family, &labels, &ConstGauge::new(bytes))?;
            }
        }
        Ok(())
    }

    fn encode_copies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Memory of copies for sockets by what it holds: copies, places that wait to be \
                    emptied with their block, emptied blocks that sockets may still hold";
        let kind = MetricType::Gauge;
        let unit = Unit::Bytes;
        let mut family = encoder.encode_descriptor("device_copies", help, Some(&unit), kind)?;
        for device in &self.0 {
            let Some(copies) = &device.copies else {
                continue;
            };
            for (class, bytes) in [
                ("live", copies.live_bytes),
                (
                    "unused",
                    copies.filled_bytes.saturating_sub(copies.live_bytes),
                ),
                ("held", copies.held_bytes),
            ] {
                let labels = [("device", device.name.as_str()), ("class", class)];
                encode_one(&mut family, &labels, &ConstGauge::new(bytes))?;
            }
        }
        Ok(())
    }

    fn encode_counters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let tables: Vec<_> = self
            .0
            .iter()
            .map(|device| counters(&device.stats))
            .collect();
        let rows = tables.first().map_or(0, |table| table.len());
        for row in 0..rows {
            let shape = &tables[0][row];
            let name = format!("device_{}", shape.metric);
            let unit = match shape.value {
                CounterValue::Count(_) => None,
                CounterValue::Bytes(_) => Some(Unit::Bytes),
                CounterValue::Seconds(_) => Some(Unit::Seconds),
            };
            let kind = MetricType::Counter;
            let mut family = encoder.encode_descriptor(&name, shape.help, unit.as_ref(), kind)?;
            for (device, table) in self.0.iter().zip(&tables) {
                let labels = [("device", device.name.as_str())];
                match table[row].value {
                    CounterValue::Count(value) | CounterValue::Bytes(value) => {
                        encode_one(&mut family, &labels, &ConstCounter::new(value))?;
                    }
                    CounterValue::Seconds(value) => {
                        encode_one(&mut family, &labels, &ConstCounter::new(value))?;
                    }
                }
            }
        }
        Ok(())
    }
}
