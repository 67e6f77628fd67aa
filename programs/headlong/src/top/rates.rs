//! Two answers of a server become one sample: what happened between them, for each second.
//!
//! Time is the server's own, so that a slow answer does not make a rate wrong, by its clock that
//! nobody sets. Where a counter
//! fell, or the server was started between the two, there is no rate rather than a wrong one.

use serde::Serialize;

use super::status::{Chain, Counters, Device, Memory, Status};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Sample {
    pub(super) version: String,
    pub(super) state: String,
    pub(super) up_seconds: u64,
    pub(super) connections_open: u64,
    pub(super) requests_active: u64,
    pub(super) disks: Vec<Disk>,
}

/// What one disk did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Disk {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) chains_live: u64,
    pub(super) queue_jobs: u64,
    pub(super) queue_jobs_overdue: u64,
    pub(super) outstanding_reads: u64,
    pub(super) prefetch_reference_bytes: u64,
    pub(super) memory: Memory,
    pub(super) requests_refused: u64,
    pub(super) read_errors: u64,
    pub(super) rates: Option<Rates>,
    pub(super) chains: Vec<Chain>,
}

/// For each second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Rates {
    pub(super) busy_share: f64,
    pub(super) reads: f64,
    pub(super) read_bytes: f64,
    pub(super) sent_bytes: f64,
    pub(super) sent_from_ram_bytes: f64,
    pub(super) sent_from_flash_bytes: f64,
    pub(super) sent_from_disk_bytes: f64,
}

impl Sample {
    pub(super) fn between(before: &Status, now: &Status) -> Self {
        let is_same = before.started_unix_ms == now.started_unix_ms;
        let elapsed_ms = now.uptime_ms.saturating_sub(before.uptime_ms);
        let disk = |device: &Device| {
            let mut earlier = before.devices.iter();
            let earlier = earlier.find(|earlier| is_same && earlier.name == device.name);
            let earlier = earlier.filter(|_| elapsed_ms > 0);
            Disk::new(device, earlier.map(|earlier| &earlier.counters), elapsed_ms)
        };
        Self {
            version: now.version.clone(),
            state: now.state.clone(),
            up_seconds: now.uptime_ms / 1000,
            connections_open: now.connections.open,
            requests_active: now.connections.requests_active,
            disks: now.devices.iter().map(disk).collect(),
        }
    }

    /// Of all disks together.
    pub(super) fn sum(&self, of: impl Fn(&Rates) -> f64) -> f64 {
        let rates = self.disks.iter().filter_map(|disk| disk.rates.as_ref());
        rates.map(of).sum()
    }
}

impl Disk {
    fn new(device: &Device, before: Option<&Counters>, elapsed_ms: u64) -> Self {
        Self {
            name: device.name.clone(),
            state: device.state.clone(),
            chains_live: device.chains.live,
            queue_jobs: device.queue.jobs,
            queue_jobs_overdue: device.queue.jobs_overdue,
            outstanding_reads: device.queue.outstanding_reads,
            prefetch_reference_bytes: device.policy.reference_bytes,
            memory: device.memory.clone(),
            requests_refused: device.counters.requests_refused,
            read_errors: device.counters.read_errors,
            rates: before.and_then(|before| rates(before, &device.counters, elapsed_ms)),
            chains: device.chains.shown.clone(),
        }
    }
}

fn rates(before: &Counters, now: &Counters, elapsed_ms: u64) -> Option<Rates> {
    let seconds = elapsed_ms as f64 / 1e3;
    let rate = |before: u64, now: u64| Some(now.checked_sub(before)? as f64 / seconds);
    let from_ram = rate(before.bytes_from_ram, now.bytes_from_ram)?;
    let from_flash = rate(before.bytes_from_flash, now.bytes_from_flash)?;
    let from_disk = rate(before.bytes_from_disk, now.bytes_from_disk)?;
    let busy = (now.busy_seconds - before.busy_seconds) / seconds;
    Some(Rates {
        // The two clocks are not read at one moment.
        busy_share: busy.clamp(0.0, 1.0),
        reads: rate(before.reads, now.reads)?,
        read_bytes: rate(before.bytes_read, now.bytes_read)?,
        sent_bytes: from_ram + from_flash + from_disk,
        sent_from_ram_bytes: from_ram,
        sent_from_flash_bytes: from_flash,
        sent_from_disk_bytes: from_disk,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The document that the server's own test holds to be right, at another time and with other
    /// counters.
    pub(crate) fn status(uptime_ms: u64, changed: &[(&str, f64)]) -> Status {
        let golden = include_str!("../../../../server/serve/src/admin/status_golden.json");
        let mut document: serde_json::Value = serde_json::from_str(golden).expect("JSON");
        document["uptime_ms"] = uptime_ms.into();
        for (name, value) in changed {
            let counter = &mut document["devices"][0]["counters"][*name];
            assert!(!counter.is_null(), "no counter {name}");
            *counter = match *name {
                "busy_seconds" => (*value).into(),
                _ => (*value as u64).into(),
            };
        }
        serde_json::from_value(document).expect("a status")
    }

    #[test]
    fn rates_are_what_changed_in_the_server_s_own_time() {
        let before = status(10_000, &[("busy_seconds", 1.0)]);
        let now = status(
            12_000,
            &[
                ("busy_seconds", 2.5),
                ("reads", 60.0),
                ("bytes_read", 8_388_608.0 + 200.0),
                ("bytes_from_ram", 30.0),
                ("bytes_from_flash", 50.0),
                ("bytes_from_disk", 70.0),
            ],
        );
        let sample = Sample::between(&before, &now);
        let expected = Rates {
            busy_share: 0.75,
            reads: 30.0,
            read_bytes: 100.0,
            sent_bytes: 75.0,
            sent_from_ram_bytes: 15.0,
            sent_from_flash_bytes: 25.0,
            sent_from_disk_bytes: 35.0,
        };
        assert_eq!(sample.disks[0].rates, Some(expected));
        assert_eq!(sample.up_seconds, 12);
        assert_eq!(sample.disks[0].chains_live, 41);
    }

    #[test]
    fn without_two_answers_of_one_server_there_is_no_rate() {
        let before = status(10_000, &[("reads", 5.0)]);
        let restarted = Status {
            started_unix_ms: 11_000,
            ..status(12_000, &[("reads", 9.0)])
        };
        let mut other = status(12_000, &[("reads", 9.0)]);
        other.devices[0].name = "sdb".to_owned();
        for now in [
            restarted,
            other,
            status(12_000, &[("reads", 4.0)]),
            status(10_000, &[("reads", 9.0)]),
            status(9_000, &[("reads", 9.0)]),
        ] {
            assert_eq!(
                Sample::between(&before, &now).disks[0].rates,
                None,
                "{now:?}"
            );
        }
    }
}
