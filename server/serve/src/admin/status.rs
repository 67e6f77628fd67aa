//! `/status`: a JSON document that the dashboard reads.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use headlong_edge::PullCounts;
use headlong_engine::{ChainView, Control as Mode, ControlView, DeviceState, SizeReason, Stats};
use headlong_flash::{FlashView, SsdView};
use headlong_storage::{DeviceSnapshot, SendfileCacheUse};
use headlong_telemetry::degraded_parts::DegradedPart;
use headlong_units::Duration;
use serde::ser::{Serialize, Serializer};

use super::counters::counters;
use super::metrics::RequestTotals;
use super::state::{AdminState, StreamNames};

/// Name of a state in metrics and status.
pub(super) const fn state_name(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Online => "online",
        DeviceState::Failing => "failing",
        DeviceState::Offline => "offline",
    }
}

#[derive(serde::Serialize)]
struct StatusPage<'a> {
    version: &'a str,
    started_unix_ms: u64,
    now_unix_ms: u64,
    uptime_ms: u64,
    state: &'a str,
    media_addresses: &'a [String],
    connections: ConnectionStatus,
    totals: RequestTotals,
    devices: Vec<DeviceStatus<'a>>,
    /// Parts that are out of service.
    degraded: Vec<DegradedPart>,
    /// Caches of origins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pull: Vec<PullCounts>,
}

#[derive(serde::Serialize)]
struct ConnectionStatus {
    open: u64,
    requests_active: u64,
}

#[derive(serde::Serialize)]
struct DeviceStatus<'a> {
    name: &'a str,
    roots: Vec<String>,
    state: &'a str,
    rotational: bool,
    io: &'a str,
    capacity_bytes: u64,
    policy: PolicyStatus<'a>,
    order: &'a str,
    retention: &'a str,
    memory: MemoryStatus,
    sendfile_cache: Option<SendfileCacheUse>,
    queue: QueueStatus<'a>,
    counters: EngineCounters<'a>,
    counters_by_policy: BTreeMap<&'static str, EngineCounters<'a>>,
    chains: ChainListing,
    /// Age of the previous process's statistics when they were taken over.
    saved_state_age_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flash: Option<FlashStatus<'a>>,
}

/// The device's part of the flash tier.
#[derive(serde::Serialize)]
struct FlashStatus<'a> {
    is_recovering: bool,
    capacity_bytes: u64,
    filled_bytes: u64,
    records: u64,
    reads: u64,
    read_bytes: u64,
    reads_wrong: u64,
    reads_failed: u64,
    admitted_bytes: u64,
    written_bytes: u64,
    blocks_dropped: u64,
    budget_bytes: u64,
    budget_left_bytes: u64,
    refused_bytes: BTreeMap<&'static str, u64>,
    ssds: Vec<SsdStatus<'a>>,
}

/// An SSD of the tier.
#[derive(serde::Serialize)]
struct SsdStatus<'a> {
    path: Cow<'a, str>,
    state: &'static str,
    read_ms: f64,
}

#[derive(serde::Serialize)]
struct PolicyStatus<'a> {
    name: &'a str,
    reference_bytes: u64,
    reference_bit_rate_bps: u64,
    control: Option<ControllerStatus>,
}

/// The controller of the prefetch size and its last result, if there is one.
#[derive(serde::Serialize)]
struct ControllerStatus {
    name: &'static str,
    target_bytes: u64,
    score_ms_per_mib: Option<f64>,
    reason: Option<&'static str>,
    reason_text: Option<&'static str>,
    reposition_ms: Option<f64>,
    transfer_ms_per_mib: Option<f64>,
}

#[derive(serde::Serialize)]
struct MemoryStatus {
    budget_bytes: u64,
    free_bytes: u64,
    filling_bytes: u64,
    sending_bytes: u64,
    unread_bytes: u64,
    read_bytes: u64,
}

#[derive(serde::Serialize)]
struct QueueStatus<'a> {
    jobs: usize,
    jobs_demanded: usize,
    jobs_overdue: usize,
    outstanding_reads: usize,
    head_physical_bytes: u64,
    positions_bytes: &'a [u64],
}

struct EngineCounters<'a>(&'a Stats);

impl Serialize for EngineCounters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let table = counters(self.0).into_iter();
        serializer.collect_map(table.map(|counter| (counter.field, counter.value)))
    }
}

#[derive(serde::Serialize)]
struct ChainListing {
    live: usize,
    shown: Vec<ChainStatus>,
}

#[derive(serde::Serialize)]
struct ChainStatus {
    viewer: String,
    path: String,
    bit_rate_bps: Option<u64>,
    pace_bps: u64,
    length_bytes: u64,
    unread_bytes: u64,
    prefetch_bytes: u64,
    slack_ms: u64,
}

/// Renders the document. `uptime_ms` is monotonic; `now_unix_ms` may jump.
pub(super) fn render(
    state: &AdminState,
    devices: &[DeviceSnapshot],
    now_unix_ms: u64,
    uptime_ms: u64,
) -> serde_json::Result<Vec<u8>> {
    let counts = state.connections.counts();
    let is_draining = state.draining.is_draining();
    serde_json::to_vec(&StatusPage {
        version: state.version,
        started_unix_ms: state.started_unix_ms,
        now_unix_ms,
        uptime_ms,
        state: if is_draining { "draining" } else { "serving" },
        media_addresses: &state.media_addresses,
        connections: ConnectionStatus {
            open: counts.open,
            requests_active: counts.requests_active,
        },
        totals: state.requests.totals(),
        devices: devices
            .iter()
            .map(|snapshot| device(snapshot, state.streams.as_ref()))
            .collect(),
        degraded: state.degraded.list(),
        pull: state.pulls.counts(),
    })
}

/// The part of the document about one device, as JSON.
///
/// # Errors
/// None known: the document only contains texts and numbers.
pub fn device_status(
    snapshot: &DeviceSnapshot,
    names: &dyn StreamNames,
) -> serde_json::Result<serde_json::Value> {
    serde_json::to_value(device(snapshot, names))
}

fn device<'a>(snapshot: &'a DeviceSnapshot, names: &dyn StreamNames) -> DeviceStatus<'a> {
    let (config, memory, queue) = (&snapshot.config, &snapshot.memory, &snapshot.queue);
    DeviceStatus {
        name: &snapshot.name,
        roots: snapshot
            .roots
            .iter()
            .map(|root| root.display().to_string())
            .collect(),
        state: state_name(snapshot.state),
        rotational: snapshot.rotational,
        io: snapshot.io,
        capacity_bytes: snapshot.capacity_bytes,
        policy: PolicyStatus {
            name: config.sizing.policy.name(),
            reference_bytes: config.sizing.reference_bytes,
            reference_bit_rate_bps: config.sizing.reference_bit_rate.0,
            control: snapshot.control.as_ref().and_then(control),
        },
        order: config.order.name(),
        retention: config.retention.name(),
        memory: MemoryStatus {
            budget_bytes: config.memory_bytes,
            free_bytes: memory.free_bytes,
            filling_bytes: memory.filling_bytes,
            sending_bytes: memory.sending_bytes,
            unread_bytes: memory.unread_bytes,
            read_bytes: memory.read_bytes,
        },
        sendfile_cache: snapshot.sendfile_cache,
        queue: QueueStatus {
            jobs: queue.jobs,
            jobs_demanded: queue.jobs_demanded,
            jobs_overdue: queue.jobs_overdue,
            outstanding_reads: queue.outstanding_reads,
            head_physical_bytes: queue.head_physical,
            positions_bytes: &snapshot.queue_positions,
        },
        counters: EngineCounters(&snapshot.stats),
        counters_by_policy: snapshot
            .stats_by_policy
            .iter()
            .map(|(policy, stats)| (policy.name(), EngineCounters(stats)))
            .collect(),
        chains: ChainListing {
            live: snapshot.chain_count,
            shown: snapshot
                .chains
                .iter()
                .map(|view| chain(view, names))
                .collect(),
        },
        saved_state_age_s: snapshot.saved_state_age.map(|age| age.as_secs_f64()),
        flash: snapshot
            .flash
            .as_ref()
            .map(|view| flash(view, &snapshot.ssd_paths)),
    }
}

fn flash<'a>(view: &FlashView, paths: &'a [PathBuf]) -> FlashStatus<'a> {
    let ssd = |ssd: &SsdView| SsdStatus {
        path: (paths.get(usize::from(ssd.ssd.0))).map_or("".into(), |path| path.to_string_lossy()),
        state: ssd.state.name(),
        read_ms: ssd.read_time.as_secs_f64() * 1e3,
    };
    FlashStatus {
        is_recovering: view.is_recovering,
        capacity_bytes: view.capacity_bytes,
        filled_bytes: view.filled_bytes,
        records: view.records,
        reads: view.reads,
        read_bytes: view.read_bytes,
        reads_wrong: view.reads_wrong,
        reads_failed: view.reads_failed,
        admitted_bytes: view.admitted_bytes,
        written_bytes: view.written_bytes,
        blocks_dropped: view.blocks_dropped,
        budget_bytes: view.budget_bytes,
        budget_left_bytes: view.budget_left_bytes,
        refused_bytes: view.refused.by_reason().into_iter().collect(),
        ssds: view.ssds.iter().map(ssd).collect(),
    }
}

fn control(view: &ControlView) -> Option<ControllerStatus> {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    (view.mode != Mode::Off).then(|| ControllerStatus {
        name: view.mode.name(),
        target_bytes: view.target_bytes,
        score_ms_per_mib: view.score.map(milliseconds),
        reason: view.reason.map(SizeReason::name),
        reason_text: view.reason.map(SizeReason::text),
        reposition_ms: view.drive.map(|drive| milliseconds(drive.reposition)),
        transfer_ms_per_mib: view.drive.map(|drive| milliseconds(drive.transfer_per_mib)),
    })
}

fn chain(view: &ChainView, names: &dyn StreamNames) -> ChainStatus {
    // The stream may have been dropped since the snapshot.
    let known = names.describe(view.stream);
    let bit_rate = view
        .bit_rate
        .or(known.as_ref().and_then(|name| name.bit_rate));
    ChainStatus {
        viewer: format!("{:016x}", view.viewer.0),
        path: known.map_or_else(String::new, |name| name.path),
        bit_rate_bps: bit_rate.map(|rate| rate.0),
        pace_bps: view.pace.0,
        length_bytes: view.length_bytes,
        unread_bytes: view.unread_bytes,
        prefetch_bytes: view.prefetch_bytes,
        slack_ms: view.slack.as_millis(),
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
